package gpu

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// The table that the planner predicts by, once more for GPUs that are there.
func TestServeIsWhatAdvertisePredicts(t *testing.T) {
	for _, r := range table(t) {
		cfg, layout := r.config(t)
		cards, amd, err := expand(r.gpus())
		if err != nil || len(amd) > 0 || cut(cards, layout) != nil || strings.Contains(fmt.Sprint(r.Config), "GPU-") {
			continue // not on a node, or known on the node only
		}
		t.Run(r.Name, func(t *testing.T) {
			want, wantErr := Advertise(r.gpus(), cfg, layout)
			got, err := Serve(installed(cards), cfg)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("error %v, predicted %v", err, wantErr)
			}
			kept := maps.Clone(got.Labels)
			maps.DeleteFunc(kept, func(k, _ string) bool { _, predicted := want.Labels[k]; return !predicted })
			got.Labels = kept
			if diff := cmp.Diff(want, got.Advertisement, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-predicted +served):\n%s", diff)
			}
			sum := model.Resources{}
			for _, u := range got.Units {
				for name := range u.Resources {
					sum[name] += int64(len(u.IDs(name)))
				}
			}
			if diff := cmp.Diff(want.Resources, sum, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("device ids (-predicted +served):\n%s", diff)
			}
		})
	}
}

// installed makes a node that has these cards.
func installed(cards []card) Node {
	var n Node
	for i, c := range cards {
		h := Hardware{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: c.Product, Compute: c.Compute, MemoryMiB: c.memory(),
			MIGCapable: c.migCapable(), MIG: c.mig, VGPU: c.isVGPU(),
		}
		for j, p := range c.instances {
			h.Instances = append(h.Instances, Instance{Index: j, UUID: fmt.Sprintf("MIG-%d-%d", i, j), Profile: p, GPUSlices: gpuSlices(p), ComputeSlices: gpuSlices(p)})
		}
		n.GPUs = append(n.GPUs, h)
	}
	return n
}

// mock is the GPU of upstream's label tests.
func mock(index int, instances ...string) Hardware {
	h := Hardware{Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "MOCKMODEL", Compute: "8.0", MemoryMiB: 300}
	for j, p := range instances {
		h.MIG, h.MIGCapable = true, true
		if p == "" {
			break // in MIG mode, and empty
		}
		h.Instances = append(h.Instances, Instance{
			Index: j, UUID: fmt.Sprintf("MIG-%d-%d", index, j), Profile: p, MemoryMiB: 100, Multiprocessors: 12, GPUSlices: 1, ComputeSlices: 2,
			Engines: Engines{Copy: 13, Decoder: 14, Encoder: 15, JPEG: 16, OFA: 17},
		})
	}
	return h
}

func strategy(name string, cfg deviceconfig.Config) deviceconfig.Config {
	cfg.Flags.MIGStrategy = name
	return cfg
}

func mps(n int64) deviceconfig.Config {
	return deviceconfig.Config{MPS: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: n}}}}
}

func renamed(cfg deviceconfig.Config) deviceconfig.Config {
	for _, s := range []*deviceconfig.Replicated{cfg.TimeSlicing, cfg.MPS} {
		if s != nil {
			s.Resources[0].Rename = s.Resources[0].Name + ".shared"
		}
	}
	return cfg
}

// The pairs of upstream's tests lm/resource, lm/mig-strategy and lm/nvml.
func TestNodeLabels(t *testing.T) {
	other := deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/not-gpu", Replicas: 2}}}}
	base := map[string]string{
		"gpu.count": "1", "gpu.replicas": "1", "gpu.sharing-strategy": "none", "gpu.memory": "300", "gpu.product": "MOCKMODEL",
		"gpu.family": "ampere", "gpu.compute.major": "8", "gpu.compute.minor": "0", "mig.capable": "false", "mps.capable": "false",
		"vgpu.present": "false", "gpu.mode": "unknown", "gpu.machine": "unknown",
	}
	slice := map[string]string{
		"gpu.memory": "100", "gpu.product": "MOCKMODEL-MIG-1g.100gb", "gpu.multiprocessors": "12", "gpu.slices.gi": "1", "gpu.slices.ci": "2",
		"gpu.engines.copy": "13", "gpu.engines.decoder": "14", "gpu.engines.encoder": "15", "gpu.engines.jpeg": "16", "gpu.engines.ofa": "17",
		"mig.capable": "true", "mig.strategy": "single",
	}
	invalid := map[string]string{
		"gpu.count": "0", "gpu.replicas": "0", "gpu.sharing-strategy": "", "gpu.memory": "0", "gpu.product": "MOCKMODEL-MIG-INVALID",
		"mig.capable": "true", "mig.strategy": "single",
	}
	with := func(base map[string]string, more ...string) map[string]string {
		out := maps.Clone(base)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for name, test := range map[string]struct {
		gpus []Hardware
		cfg  deviceconfig.Config
		want map[string]string // beside and instead of base; nil = no labels at all
	}{
		"no GPU, no label":         {want: nil},
		"one GPU":                  {gpus: []Hardware{mock(0)}, want: map[string]string{}},
		"another resource is cut":  {gpus: []Hardware{mock(0)}, cfg: other, want: map[string]string{}},
		"time-slicing":             {gpus: []Hardware{mock(0)}, cfg: sliced(2), want: map[string]string{"gpu.replicas": "2", "gpu.sharing-strategy": "time-slicing", "gpu.product": "MOCKMODEL-SHARED"}},
		"time-slicing, renamed":    {gpus: []Hardware{mock(0)}, cfg: renamed(sliced(2)), want: map[string]string{"gpu.replicas": "2", "gpu.sharing-strategy": "time-slicing"}},
		"MPS":                      {gpus: []Hardware{mock(0)}, cfg: mps(2), want: map[string]string{"gpu.replicas": "2", "gpu.sharing-strategy": "mps", "gpu.product": "MOCKMODEL-SHARED", "mps.capable": "true"}},
		"MPS, renamed":             {gpus: []Hardware{mock(0)}, cfg: renamed(mps(2)), want: map[string]string{"gpu.replicas": "2", "gpu.sharing-strategy": "mps", "mps.capable": "true"}},
		"MIG mode and no strategy": {gpus: []Hardware{mock(0, "1g.100gb", "1g.100gb")}, cfg: sliced(2), want: map[string]string{"gpu.replicas": "0", "mig.capable": "true"}},
		"one of two in MIG mode":   {gpus: []Hardware{mock(0, "1g.100gb"), mock(1)}, cfg: sliced(2), want: map[string]string{"gpu.count": "2", "gpu.replicas": "2", "gpu.sharing-strategy": "time-slicing", "gpu.product": "MOCKMODEL-SHARED", "mig.capable": "true"}},
		"single and no MIG":        {gpus: []Hardware{mock(0)}, cfg: strategy("single", deviceconfig.Config{}), want: map[string]string{"mig.strategy": "single"}},
		"single":                   {gpus: []Hardware{mock(0, "1g.100gb")}, cfg: strategy("single", deviceconfig.Config{}), want: slice},
		"single, two GPUs":         {gpus: []Hardware{mock(0, "1g.100gb"), mock(1, "1g.100gb")}, cfg: strategy("single", deviceconfig.Config{}), want: with(slice, "gpu.count", "2")},
		"single, shared":           {gpus: []Hardware{mock(0, "1g.100gb")}, cfg: strategy("single", sliced(2)), want: with(slice, "gpu.replicas", "2", "gpu.sharing-strategy", "time-slicing", "gpu.product", "MOCKMODEL-MIG-1g.100gb-SHARED")},
		"single, no instances":     {gpus: []Hardware{mock(0, "")}, cfg: strategy("single", deviceconfig.Config{}), want: invalid},
		"single, unlike instances": {gpus: []Hardware{mock(0, "1g.100gb", "2g.100gb")}, cfg: strategy("single", deviceconfig.Config{}), want: invalid},
		"single, MIG and whole":    {gpus: []Hardware{mock(0, "1g.100gb"), mock(1)}, cfg: strategy("single", deviceconfig.Config{}), want: invalid},
		"single, whole then MIG":   {gpus: []Hardware{mock(0), mock(1, "1g.100gb"), mock(2, "")}, cfg: strategy("single", deviceconfig.Config{}), want: invalid},
		"mixed describes each kind": {gpus: []Hardware{mock(0, "1g.100gb+me")}, cfg: strategy("mixed", deviceconfig.Config{}), want: map[string]string{
			"gpu.replicas": "0", "mig.capable": "true", "mig.strategy": "mixed",
			"mig-1g.100gb.me.count": "1", "mig-1g.100gb.me.replicas": "1", "mig-1g.100gb.me.sharing-strategy": "none",
			"mig-1g.100gb.me.product": "MOCKMODEL-MIG-1g.100gb.me", "mig-1g.100gb.me.memory": "100", "mig-1g.100gb.me.multiprocessors": "12",
			"mig-1g.100gb.me.slices.gi": "1", "mig-1g.100gb.me.slices.ci": "2", "mig-1g.100gb.me.engines.copy": "13",
			"mig-1g.100gb.me.engines.decoder": "14", "mig-1g.100gb.me.engines.encoder": "15", "mig-1g.100gb.me.engines.jpeg": "16", "mig-1g.100gb.me.engines.ofa": "17",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := NodeLabels(Node{GPUs: test.gpus}, test.cfg)
			var want map[string]string
			if test.want != nil {
				want = map[string]string{}
				for k, v := range base {
					want["nvidia.com/"+k] = v
				}
				for k, v := range test.want {
					want["nvidia.com/"+k] = v
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeLabelsOfTheDriver(t *testing.T) {
	n := Node{Driver: "550.163.01", CUDA: "12.4", Machine: "PowerEdge R750 (rev A)", GPUs: []Hardware{mock(0)}}
	n.GPUs[0].PCIClass, n.GPUs[0].Clique = 0x030200, "1f2e.7"
	n.GPUs[0].VGPU, n.GPUs[0].HostDriver, n.GPUs[0].HostBranch = true, "460.16", "r460_00"
	got, _ := NodeLabels(n, deviceconfig.Config{})
	for k, want := range map[string]string{
		"cuda.driver-version.full": "550.163.01", "cuda.driver-version.major": "550", "cuda.driver-version.minor": "163", "cuda.driver-version.revision": "01",
		"cuda.driver.major": "550", "cuda.driver.minor": "163", "cuda.driver.rev": "01",
		"cuda.runtime-version.full": "12.4", "cuda.runtime-version.major": "12", "cuda.runtime-version.minor": "4", "cuda.runtime.major": "12", "cuda.runtime.minor": "4",
		"gpu.machine": "PowerEdge-R750-rev-A", "gpu.mode": "compute", "gpu.clique": "1f2e.7",
		"vgpu.present": "true", "vgpu.host-driver-version": "460.16", "vgpu.host-driver-branch": "r460_00",
	} {
		if got["nvidia.com/"+k] != want {
			t.Errorf("%s is %q, want %q", k, got["nvidia.com/"+k], want)
		}
	}
}

func TestMode(t *testing.T) {
	for name, test := range map[string]struct {
		classes []uint32
		want    string
	}{
		"graphics":                          {[]uint32{0x030000}, "graphics"},
		"compute":                           {[]uint32{0x030200, 0x030200, 0x030200}, "compute"},
		"a bridge":                          {[]uint32{0x068000}, "unknown"},
		"graphics and compute side by side": {[]uint32{0x030000, 0x030200}, "unknown"},
	} {
		var gpus []Hardware
		for _, c := range test.classes {
			gpus = append(gpus, Hardware{PCIClass: c})
		}
		if got := mode(gpus); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// The pairs of upstream's lm/resource test.
func TestProductLabel(t *testing.T) {
	for name, want := range map[string]string{
		"a space separated string":             "a-space-separated-string",
		"some(thing)else":                      "somethingelse",
		"some ( thing )else":                   "some-thing-else",
		"NVIDIA-TITAN-X-(Pascal)":              "NVIDIA-TITAN-X-Pascal",
		" input  with multiple   spaces   ":    "input-with-multiple-spaces",
		"some [ / thing / ]else":               "some-thing-else",
		"some / thing /else":                   "some-thing-else",
		"some-thing.else_new":                  "some-thing.else_new",
		"NVIDIA RTX PRO 6000 Blackwell™ (Max)": "NVIDIA-RTX-PRO-6000-Blackwell-Max",
	} {
		if got := productLabel(name); got != want {
			t.Errorf("%q gives %q, want %q", name, got, want)
		}
	}
}

// A label holds 63 characters; upstream's own would be refused.
func TestLongProductsFitIntoALabel(t *testing.T) {
	h := mock(0, "1g.24gb+me.all")
	h.Name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
	got, _ := NodeLabels(Node{GPUs: []Hardware{h}}, strategy("single", sliced(2)))
	want := "NVIDIA-RTX-PRO-6000-Blackwell-Server-MIG-1g.24gb.me.all-SHARED"
	if p := got["nvidia.com/gpu.product"]; p != want || len(p) > maxLabel {
		t.Errorf("product %q, want %q", p, want)
	}
}

func TestUnlikeModelsAreDescribedByTheMajority(t *testing.T) {
	a, b := mock(0), mock(1)
	a.Name, b.Name = "Tesla T4", "NVIDIA A100-PCIE-40GB"
	c := a
	c.Index, c.UUID = 2, "GPU-2"
	for _, gpus := range [][]Hardware{{a, b, c}, {b, a, c}, {a, c, b}} {
		got, warnings := NodeLabels(Node{GPUs: gpus}, deviceconfig.Config{})
		if got["nvidia.com/gpu.product"] != "Tesla-T4" || got["nvidia.com/gpu.count"] != "2" {
			t.Errorf("labels describe %s x %s", got["nvidia.com/gpu.count"], got["nvidia.com/gpu.product"])
		}
		if len(warnings) != 1 || !strings.HasSuffix(warnings[0], "the labels describe Tesla-T4, of which it has 2 of 3") {
			t.Errorf("warnings %q", warnings)
		}
	}
}

// What the driver does not say stays unknown and costs nothing else.
func TestServeWithoutMemory(t *testing.T) {
	h := Hardware{UUID: "GPU-0", Name: "NVIDIA GB10", Compute: "12.1"}
	got, err := Serve(Node{GPUs: []Hardware{h}}, sliced(4))
	if err != nil || got.Resources["nvidia.com/gpu"] != 4 {
		t.Fatalf("%v, %v", got.Resources, err)
	}
	if memory, set := got.Labels["nvidia.com/gpu.memory"]; set {
		t.Errorf("memory is labelled %q", memory)
	}
	if got.Labels["nvidia.com/gpu.family"] != "blackwell" {
		t.Errorf("family %q", got.Labels["nvidia.com/gpu.family"])
	}
}

// Units name devices as the driver does, also where an index is left out.
func TestServeNamesDevices(t *testing.T) {
	n := Node{GPUs: []Hardware{mock(0), mock(2, "1g.100gb", "1g.100gb"), mock(3)}}
	n.GPUs[1].Instances[1].Index = 5
	some := func(resource string, devices ...string) deviceconfig.Config {
		return deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{
			{Name: resource, Rename: resource + ".small", Replicas: 2, Devices: deviceconfig.Devices{List: devices}},
		}}}
	}
	for name, test := range map[string]struct {
		cfg  deviceconfig.Config
		want []string
		err  string
	}{
		"by the driver's index":     {cfg: some("nvidia.com/gpu", "3"), want: []string{"0 GPU-0", "2 GPU-2", "3 GPU-3::0 GPU-3::1"}},
		"by UUID":                   {cfg: some("nvidia.com/gpu", "GPU-2"), want: []string{"0 GPU-0", "2 GPU-2::0 GPU-2::1", "3 GPU-3"}},
		"an index that is left out": {cfg: some("nvidia.com/gpu", "1"), err: "nvidia.com/gpu: the node has no device at index 1"},
		"a UUID of another node":    {cfg: some("nvidia.com/gpu", "GPU-9"), err: "nvidia.com/gpu: the node has no device GPU-9"},
		"a MIG instance by its index": {
			cfg:  strategy("mixed", some("nvidia.com/mig-1g.100gb", "2:5")),
			want: []string{"0 GPU-0", "2:0 MIG-2-0", "2:5 MIG-2-1::0 MIG-2-1::1", "3 GPU-3"},
		},
		"a MIG instance by its UUID": {
			cfg:  strategy("mixed", some("nvidia.com/mig-1g.100gb", "MIG-2-0")),
			want: []string{"0 GPU-0", "2:0 MIG-2-0::0 MIG-2-0::1", "2:5 MIG-2-1", "3 GPU-3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			served, err := Serve(n, test.cfg)
			if test.err != "" || err != nil {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			var got []string
			for _, u := range served.Units {
				line := u.Index
				for _, resource := range known(u.Resources) {
					line += " " + strings.Join(u.IDs(resource), " ")
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// MIG mode without instances is an error under single, and a warning under
// mixed, where the other GPUs are served.
func TestServeAnEmptyMIGGPU(t *testing.T) {
	n := Node{GPUs: []Hardware{mock(0, ""), mock(1)}}
	got, err := Serve(n, strategy("mixed", deviceconfig.Config{}))
	if err != nil || got.Resources["nvidia.com/gpu"] != 1 || len(got.Warnings) != 1 {
		t.Errorf("mixed: %v, %q, %v", got.Resources, got.Warnings, err)
	}
	_, err = Serve(Node{GPUs: n.GPUs[:1]}, strategy("single", deviceconfig.Config{}))
	if err == nil || err.Error() != "migStrategy single: GPU 0 is in MIG mode without instances" {
		t.Errorf("single: %v", err)
	}
}

func TestServeLeavesOutPartialInstances(t *testing.T) {
	n := Node{GPUs: []Hardware{mock(0, "1c.2g.100gb", "1g.100gb")}}
	got, err := Serve(n, strategy("mixed", deviceconfig.Config{}))
	if err != nil || len(got.Units) != 1 || got.Resources["nvidia.com/mig-1g.100gb"] != 1 || len(got.Warnings) != 1 {
		t.Errorf("%v, %q, %v", got.Units, got.Warnings, err)
	}
}
