package gpu

import "testing"

func TestModelOf(t *testing.T) {
	for name, c := range map[string]struct{ label, want string }{
		"a plain product":              {"Tesla-T4", "t4"},
		"shared":                       {"NVIDIA-A10G-SHARED", "a10g"},
		"a MIG slice":                  {"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100"},
		"a shared MIG slice":           {"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", "h100"},
		"a slice of a fractional type": {"NVIDIA-L4-3Q", "l4"},
		"not the product it begins as": {"NVIDIA-L40S", "l40s"},
		"a product that is not known":  {"Quadro-X", "quadro-x"},
		"no label at all":              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ModelOf(c.label); got != c.want {
				t.Errorf("ModelOf(%q) = %q, want %q", c.label, got, c.want)
			}
		})
	}
}
