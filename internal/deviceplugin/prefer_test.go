package deviceplugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shared makes a resource of GPUs with replicas: "GPU-0::0", ...
func shared(gpus, replicas int) Resource {
	r := Resource{Name: "nvidia.com/gpu"}
	for g := range gpus {
		uuid := fmt.Sprintf("GPU-%d", g)
		for i := range replicas {
			r.Devices = append(r.Devices, Device{ID: fmt.Sprintf("%s::%d", uuid, i), UUID: uuid, GPU: uuid, Index: fmt.Sprint(g)})
		}
	}
	return r
}

func whole(gpus int) Resource {
	r := shared(gpus, 1)
	for i := range r.Devices {
		r.Devices[i].ID = r.Devices[i].UUID
	}
	return r
}

// perGPU counts ids by GPU, in the order of the GPUs: "2+1".
func perGPU(r Resource, got []string) string {
	s := newState(r, Options{}, nil, nil, nil)
	counts := map[string]int{}
	for _, id := range got {
		d, _ := s.find([]string{id})
		counts[d[0].GPU]++
	}
	var out []string
	for _, d := range r.Devices {
		if n := counts[d.GPU]; n > 0 {
			out = append(out, fmt.Sprint(n))
			delete(counts, d.GPU)
		}
	}
	return strings.Join(out, "+")
}

func all(r Resource) []string { return ids(r.Devices) }

// The pairs of the upstream allocation tests, and those that its rules imply.
func TestPreferOfSharedDevices(t *testing.T) {
	mig := Resource{Name: "nvidia.com/gpu"}
	for _, d := range []string{"0:0", "0:1", "1:0", "1:1"} {
		mig.Devices = append(mig.Devices, Device{ID: "MIG-" + d, UUID: "MIG-" + d, GPU: "GPU-" + d[:1], Index: d})
	}
	eight := shared(2, 8)
	for name, test := range map[string]struct {
		resource  Resource
		packed    bool
		available []string // nil for all
		required  []string
		size      int
		want      string // devices by GPU
		err       bool
	}{
		"spread over what is free":                 {resource: shared(2, 2), available: []string{"GPU-0::0", "GPU-0::1", "GPU-1::1"}, size: 2, want: "1+1"},
		"spread, two of eight":                     {resource: shared(2, 4), size: 2, want: "1+1"},
		"spread, four of eight":                    {resource: shared(2, 4), size: 4, want: "2+2"},
		"spread over three GPUs":                   {resource: shared(3, 2), size: 3, want: "1+1+1"},
		"spread over three GPUs with more":         {resource: shared(3, 4), size: 3, want: "1+1+1"},
		"spread, one GPU only":                     {resource: shared(1, 4), size: 1, want: "1"},
		"spread, more than there are":              {resource: shared(1, 2), size: 5, err: true},
		"packed, one GPU only":                     {resource: shared(1, 4), packed: true, size: 1, want: "1"},
		"packed, more than there are":              {resource: shared(1, 2), packed: true, size: 5, err: true},
		"packed, two on one GPU":                   {resource: shared(2, 4), packed: true, size: 2, want: "2"},
		"packed, a whole GPU":                      {resource: shared(2, 4), packed: true, size: 4, want: "4"},
		"packed, one GPU and the next":             {resource: shared(2, 4), packed: true, size: 5, want: "4+1"},
		"packed over three GPUs":                   {resource: shared(3, 2), packed: true, size: 3, want: "2+1"},
		"packed goes on where it began":            {resource: eight, packed: true, available: all(eight)[1:], size: 4, want: "4"},
		"a GPU counts by what is taken":            {resource: eight, available: append(append([]string{}, all(eight)[4:8]...), all(eight)[8:13]...), size: 1, want: "1"},
		"required ids come first":                  {resource: shared(2, 4), required: []string{"GPU-0::0", "GPU-0::1"}, size: 4, want: "2+2"},
		"required ids alone":                       {resource: shared(2, 4), required: []string{"GPU-0::0", "GPU-0::1"}, size: 2, want: "2"},
		"more required than wanted":                {resource: shared(2, 4), required: []string{"GPU-0::0", "GPU-0::1"}, size: 1, err: true},
		"MIG instances of different GPUs first":    {resource: mig, size: 2, want: "1+1"},
		"MIG instances packed":                     {resource: mig, packed: true, size: 2, want: "2"},
		"a MIG GPU that is in use comes last":      {resource: mig, available: []string{"MIG-0:1", "MIG-1:0", "MIG-1:1"}, size: 1, want: "1"},
		"ids of another resource are passed over":  {resource: shared(1, 2), available: []string{"GPU-9::0", "GPU-0::1"}, size: 1, want: "1"},
		"whole GPUs: too few give none, no error":  {resource: whole(2), available: []string{"GPU-0"}, size: 2, want: ""},
		"whole GPUs are not spread":                {resource: whole(4), size: 2, want: "1+1"},
		"nothing asked of whole GPUs":              {resource: whole(2), size: 0, want: ""},
		"nothing asked of shared GPUs gives none":  {resource: shared(2, 2), size: 0, want: ""},
		"unknown required ids ask for nothing":     {resource: shared(2, 2), required: []string{"x"}, size: 1, want: "1"},
		"available may repeat an id":               {resource: shared(1, 2), available: []string{"GPU-0::0", "GPU-0::0"}, size: 2, err: true},
		"required and available are one id at all": {resource: shared(1, 2), available: []string{"GPU-0::0", "GPU-0::1"}, required: []string{"GPU-0::0"}, size: 2, want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(test.resource, Options{Packed: test.packed}, nil, nil, nil)
			available := test.available
			if available == nil {
				available = all(test.resource)
			}
			for range 10 { // the same answer each time
				got, err := s.prefer(available, test.required, test.size)
				if (err != nil) != test.err {
					t.Fatalf("error %v", err)
				}
				if err != nil {
					return
				}
				if by := perGPU(test.resource, got); by != test.want {
					t.Fatalf("chose %v, so %s by GPU; want %s", got, by, test.want)
				}
				for i, id := range test.required {
					if i < len(got) && id != "x" && got[i] != id {
						t.Fatalf("chose %v, required %v must come first", got, test.required)
					}
				}
			}
		})
	}
}

// Which GPU comes next is by what is taken of it, not by what is left.
func TestPreferTiesByWhatIsTaken(t *testing.T) {
	r := shared(1, 8)
	small := shared(2, 4)
	r.Devices = append(r.Devices, small.Devices[4:]...) // GPU-0 has 8 replicas, GPU-1 has 4
	available := append(all(r)[2:8], all(r)[10:]...)    // two of each are taken
	got, err := newState(r, Options{}, nil, nil, nil).prefer(available, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GPU-0::2", "GPU-1::2"}, got); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
}
