package health

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The pairs of upstream's health test.
func TestNumbers(t *testing.T) {
	for list, want := range map[string][]uint64{
		"": nil, ",": nil, "not-an-int": nil, "-68": nil,
		"68": {68}, "68  ": {68}, "68,": {68}, ",68": {68},
		"68,67": {67, 68}, "68,not-an-int,67": {67, 68},
	} {
		got := slices.Sorted(maps.Keys(numbers(list).some))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", list, diff)
		}
	}
}

func TestPolicyIsThePluginsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		disable, enable string
		off             bool
		ignored, heeded []uint64
	}{
		"defaults":                     {"", "", false, []uint64{13, 31, 43, 45, 68, 109}, []uint64{11, 48, 69, 79, 555}},
		"all are disabled":             {"all", "", true, []uint64{13, 48, 555}, nil},
		"xids are disabled":            {"xids", "", true, []uint64{13, 48, 555}, nil},
		"all are enabled":              {"", "all", false, nil, []uint64{13, 31, 43, 45, 68, 109, 63, 555}},
		"enabled beats disabled":       {"11", "11", false, []uint64{13, 31, 43, 45, 68, 109}, []uint64{11}},
		"all disabled, one enabled":    {"all", "48", false, []uint64{13, 79, 555}, []uint64{48}},
		"a list, with what is no Xid":  {"48, x,ALL-of-them", "13,", false, []uint64{48, 31}, []uint64{13, 79}},
		"capitals are understood":      {"ALL", "", true, []uint64{48}, nil},
		"one more is disabled":         {"79", "", false, []uint64{79, 13}, []uint64{48}},
		"the catalog's own to ignore":  {"", "", false, []uint64{63, 92, 154}, nil},
		"which enabling brings back":   {"", "63", false, []uint64{92}, []uint64{63}},
		"both all: enabled beats that": {"all", "all", false, nil, []uint64{13, 48}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPolicy(test.disable, test.enable, "")
			if err != nil {
				t.Fatal(err)
			}
			if p.Off() != test.off {
				t.Errorf("off: %v", p.Off())
			}
			for _, n := range test.ignored {
				if c := p.Class(n); c != Ignored {
					t.Errorf("Xid %d is %s", n, c)
				}
			}
			for _, n := range test.heeded {
				if p.Class(n) == Ignored {
					t.Errorf("Xid %d is ignored", n)
				}
			}
		})
	}
}

// Xids that Karpenter's AWS provider repairs nodes by fence the GPU for good,
// save those that the plugin or NVIDIA's catalog ignore.
func TestPolicyFencesWhatKarpenterRepairs(t *testing.T) {
	p, err := NewPolicy("", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{46, 48, 54, 62, 95, 110, 136, 140, 143, 155, 156, 158, 64, 74, 79, 119, 120} {
		if c := p.Class(n); c < Reset {
			t.Errorf("Xid %d is %s", n, c)
		}
	}
	for _, n := range []uint64{63, 109} {
		if c := p.Class(n); c != Ignored {
			t.Errorf("Xid %d is %s", n, c)
		}
	}
}

func TestPolicyRefusesUnknownClasses(t *testing.T) {
	for _, classes := range []string{"94", "94=later", "x=reset", "94=reset,=ignore"} {
		if _, err := NewPolicy("", "", classes); err == nil {
			t.Errorf("%q is accepted", classes)
		}
	}
	p, err := NewPolicy("all", "", "94=fatal, 79=transient")
	if err != nil || p.Off() || p.Class(94) != Fatal || p.Class(79) != Transient || p.Class(48) != Ignored {
		t.Errorf("classes: %v, %v, %v, %v", err, p.Off(), p.Class(94), p.Class(79))
	}
}
