package gpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

func sliced(n int64) deviceconfig.Config {
	return deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: n}}}}
}

func TestSelect(t *testing.T) {
	two := map[string]deviceconfig.Config{"a": sliced(2), "b": sliced(3)}
	withDefault := map[string]deviceconfig.Config{"default": {}, "shared_gpu": sliced(10)}
	label := func(v string) map[string]string { return map[string]string{model.LabelDeviceConfig: v} }
	for name, test := range map[string]struct {
		sharing model.Sharing
		labels  map[string]string
		want    string
		err     string
	}{
		"the label decides":                            {model.Sharing{Configs: withDefault, Default: "default"}, label("shared_gpu"), "shared_gpu", ""},
		"an empty label is none":                       {model.Sharing{Configs: withDefault}, label(""), "default", ""},
		"no label: the configured default":             {model.Sharing{Configs: two, Default: "b"}, nil, "b", ""},
		"no default: the config called default":        {model.Sharing{Configs: withDefault}, nil, "default", ""},
		"the configured default before that called so": {model.Sharing{Configs: withDefault, Default: "shared_gpu"}, nil, "shared_gpu", ""},
		"the only config":                              {model.Sharing{Configs: map[string]deviceconfig.Config{"x": sliced(2)}}, nil, "x", ""},
		"no configs at all":                            {model.Sharing{}, nil, "", ""},
		"several and none is the default": {
			model.Sharing{Configs: two},
			nil, "",
			"of the device configs a, b none is the default, and no label nvidia.com/device-plugin.config chooses one",
		},
		"the label names a missing config": {
			model.Sharing{Configs: two},
			label("c"), "",
			`label nvidia.com/device-plugin.config names the device config "c", which does not exist; there are a, b`,
		},
		"the label names a config and there is none": {
			model.Sharing{},
			label("c"), "",
			`label nvidia.com/device-plugin.config names the device config "c", which does not exist; no device config is given`,
		},
		"the default is missing": {
			model.Sharing{Configs: map[string]deviceconfig.Config{"a": {}}, Default: "z"},
			nil, "",
			`the default device config "z" does not exist; the only device config is a`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, cfg, err := Select(test.sharing, test.labels)
			if test.err != "" {
				var typed *ConfigError
				if !errors.As(err, &typed) || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("config %q, %v; want %q", got, err, test.want)
			}
			if diff := cmp.Diff(test.sharing.Configs[got], cfg); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForNode(t *testing.T) {
	g4dn := model.InstanceType{Name: "g4dn.12xlarge", GPUs: []model.GPU{{Manufacturer: "nvidia", Model: "t4", MemoryMiB: 16384, Count: 4}}}
	p4d := model.InstanceType{Name: "p4d.24xlarge", GPUs: []model.GPU{{Manufacturer: "nvidia", Model: "a100", MemoryMiB: 40960, Count: 8}}}
	m5 := model.InstanceType{Name: "m5.large"}
	sharing := model.Sharing{Configs: map[string]deviceconfig.Config{"default": {}, "shared_gpu": sliced(10), "mixed": {Flags: deviceconfig.Flags{MIGStrategy: "mixed"}}}}
	for name, test := range map[string]struct {
		node   model.InstanceType
		mig    map[string]deviceconfig.MIGConfig
		labels map[string]string
		config string
		want   model.Resources
		err    string
	}{
		"the default config":       {node: g4dn, config: "default", want: model.Resources{"nvidia.com/gpu": 4}},
		"the config of the label":  {node: g4dn, labels: map[string]string{model.LabelDeviceConfig: "shared_gpu"}, config: "shared_gpu", want: model.Resources{"nvidia.com/gpu": 40}},
		"no GPU, no config needed": {node: m5, labels: map[string]string{model.LabelDeviceConfig: "no-such"}},
		"a layout of one's own": {
			node: p4d, labels: map[string]string{model.LabelDeviceConfig: "mixed", model.LabelMIGConfig: "ours"}, config: "mixed",
			mig:  map[string]deviceconfig.MIGConfig{"ours": {{Enabled: true, MIGDevices: map[string]int64{"2g.10gb": 3}}}},
			want: model.Resources{"nvidia.com/mig-2g.10gb": 24},
		},
		"a layout that the MIG manager comes with": {
			node: p4d, labels: map[string]string{model.LabelDeviceConfig: "mixed", model.LabelMIGConfig: "all-1g.5gb"}, config: "mixed",
			want: model.Resources{"nvidia.com/mig-1g.5gb": 56},
		},
		"the balanced layout": {
			node: p4d, labels: map[string]string{model.LabelDeviceConfig: "mixed", model.LabelMIGConfig: "all-balanced"}, config: "mixed",
			want: model.Resources{"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb": 8, "nvidia.com/mig-3g.20gb": 8},
		},
		"MIG off by its stock name": {node: p4d, labels: map[string]string{model.LabelMIGConfig: "all-disabled"}, config: "default", want: model.Resources{"nvidia.com/gpu": 8}},
		"a stock layout on a GPU without MIG": {
			node: g4dn, labels: map[string]string{model.LabelMIGConfig: "all-1g.5gb"},
			err: "GPU 0 (Tesla-T4) has no MIG",
		},
		"a stock layout of another GPU": {
			node: p4d, labels: map[string]string{model.LabelMIGConfig: "all-1g.10gb.me"},
			err: "GPU 0 (NVIDIA-A100-SXM4-40GB) has no MIG profile 1g.10gb.me; it can hold 7 x 1g.5gb, or 1 x 1g.5gb+me, or 4 x 1g.10gb, or 3 x 2g.10gb, or 2 x 3g.20gb, or 1 x 4g.20gb, or 1 x 7g.40gb",
		},
		"a layout that does not exist": {
			node: p4d, labels: map[string]string{model.LabelMIGConfig: "ours"},
			err: `label nvidia.com/mig.config names the MIG layout "ours", which does not exist; no MIG layout is given`,
		},
		"own layouts replace the stock ones": {
			node: p4d, labels: map[string]string{model.LabelMIGConfig: "all-1g.5gb"}, mig: map[string]deviceconfig.MIGConfig{"ours": nil},
			err: `label nvidia.com/mig.config names the MIG layout "all-1g.5gb", which does not exist; the only MIG layout is ours`,
		},
		"a config that does not exist": {
			node: p4d, labels: map[string]string{model.LabelDeviceConfig: "no-such"},
			err: `label nvidia.com/device-plugin.config names the device config "no-such", which does not exist; there are default, mixed, shared_gpu`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sharing
			s.MIG = test.mig
			got, err := ForNode(test.node, s, test.labels)
			if test.err != "" || err != nil {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if got.Config != test.config {
				t.Errorf("config %q, want %q", got.Config, test.config)
			}
			if diff := cmp.Diff(test.want, got.Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForNodeConsumable(t *testing.T) {
	whole := model.GPU{Manufacturer: "nvidia", Model: "t4", MemoryMiB: 16384, Count: 2}
	slice := model.GPU{Manufacturer: "nvidia", Model: "l4", MemoryMiB: 2861, Count: 1, Fraction: 0.125}
	s := model.Sharing{Consumable: true}
	ad, err := ForNode(model.InstanceType{GPUs: []model.GPU{whole, slice}}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := model.Resources{model.ShareMilli: 1000, model.ShareMemory: 16384, model.SharePercent: 100, model.ShareCores: 100}
	eighth := model.Resources{model.ShareMilli: 125, model.ShareMemory: 2861, model.SharePercent: 100, model.ShareCores: 100}
	var got []model.Resources
	for _, d := range ad.Devices {
		got = append(got, d.Shares)
	}
	if diff := cmp.Diff([]model.Resources{one, one, eighth}, got); diff != "" || ad.Kind != model.Consumable {
		t.Errorf("kind %q, shares (-want +got):\n%s", ad.Kind, diff)
	}
	s.Configs = map[string]deviceconfig.Config{"default": sliced(4)}
	ad, err = ForNode(model.InstanceType{GPUs: []model.GPU{whole}}, s, nil)
	if err != nil || ad.Devices[0].Shares != nil || ad.Kind != model.TimeSlicing {
		t.Errorf("replicas are consumable as well: %+v, %v", ad, err)
	}
}

func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		model string
		mem   int64
		want  [3]string
	}{
		"g4dn":                  {"t4", 16384, [3]string{"Tesla-T4", "turing", "7.5"}},
		"g5":                    {"a10g", 22888, [3]string{"NVIDIA-A10G", "ampere", "8.6"}},
		"g5g":                   {"t4g", 16384, [3]string{"NVIDIA-T4G", "turing", "7.5"}},
		"g6":                    {"l4", 22888, [3]string{"NVIDIA-L4", "ada-lovelace", "8.9"}},
		"g6e":                   {"l40s", 45776, [3]string{"NVIDIA-L40S", "ada-lovelace", "8.9"}},
		"g6f.large":             {"l4", 2861, [3]string{"NVIDIA-L4-3Q", "ada-lovelace", "8.9"}},
		"g6f.2xlarge":           {"l4", 5722, [3]string{"NVIDIA-L4-6Q", "ada-lovelace", "8.9"}},
		"g6f.4xlarge":           {"l4", 11444, [3]string{"NVIDIA-L4-12Q", "ada-lovelace", "8.9"}},
		"g7":                    {"rtx-pro-4500", 32768, [3]string{"NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition", "blackwell", "12.0"}},
		"g7e":                   {"rtx-pro-server-6000", 98304, [3]string{"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "blackwell", "12.0"}},
		"p3dn":                  {"v100", 32768, [3]string{"Tesla-V100-SXM2-32GB", "volta", "7.0"}},
		"p3":                    {"v100", 16384, [3]string{"Tesla-V100-SXM2-16GB", "volta", "7.0"}},
		"p4d":                   {"a100", 40960, [3]string{"NVIDIA-A100-SXM4-40GB", "ampere", "8.0"}},
		"p4de":                  {"a100", 81920, [3]string{"NVIDIA-A100-SXM4-80GB", "ampere", "8.0"}},
		"p5":                    {"h100", 81920, [3]string{"NVIDIA-H100-80GB-HBM3", "hopper", "9.0"}},
		"p5en":                  {"h200", 144384, [3]string{"NVIDIA-H200", "hopper", "9.0"}},
		"p6-b200":               {"b200", 183359, [3]string{"NVIDIA-B200", "blackwell", "10.0"}},
		"p6-b300":               {"b300", 275040, [3]string{"NVIDIA-B300-SXM6-AC", "blackwell", "10.3"}},
		"GCP names the memory":  {"a100-80gb", 81920, [3]string{"NVIDIA-A100-SXM4-80GB", "ampere", "8.0"}},
		"and so without memory": {"A100-80GB", 0, [3]string{"NVIDIA-A100-SXM4-80GB", "ampere", "8.0"}},
		"Azure's H100 NVL":      {"h100-nvl-94gb", 96256, [3]string{"NVIDIA-H100-NVL", "hopper", "9.0"}},
		"a sixth of an A10":     {"a10-24gb", 4096, [3]string{"NVIDIA-A10-4Q", "ampere", "8.6"}},
		"an eighth of a GPU whose slices have no known name": {"rtx-pro-6000", 12288, [3]string{"", "blackwell", "12.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			product, family, compute, ok := Describe(test.model, test.mem)
			if got := [3]string{product, family, compute}; !ok || got != test.want {
				t.Errorf("%q %v, want %q", got, ok, test.want)
			}
		})
	}
	if _, _, _, ok := Describe("radeon-pro-v520", 8192); ok {
		t.Error("an AMD GPU is described as NVIDIA's")
	}
}

// The documented number of instances of each profile alone.
func TestProfileMaxima(t *testing.T) {
	for name, want := range map[string][]string{
		"80gb":         {"7 x 1g.10gb", "1 x 1g.10gb+me", "4 x 1g.20gb", "3 x 2g.20gb", "2 x 3g.40gb", "1 x 4g.40gb", "1 x 7g.80gb"},
		"a30":          {"4 x 1g.6gb", "1 x 1g.6gb+me", "2 x 2g.12gb", "1 x 2g.12gb+me", "1 x 4g.24gb"},
		"rtx-pro-4500": {"2 x 1g.16gb", "1 x 2g.32gb"},
		"rtx-pro-6000": {
			"4 x 1g.24gb", "4 x 1g.24gb+gfx", "1 x 1g.24gb+me.all", "4 x 1g.24gb-me", "2 x 2g.48gb", "2 x 2g.48gb+gfx",
			"1 x 2g.48gb+me.all", "2 x 2g.48gb-me", "1 x 4g.96gb", "1 x 4g.96gb+gfx",
		},
	} {
		if diff := cmp.Diff(want, geometries[name].maxima()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLayoutsOfSevenSlices(t *testing.T) {
	for layout, fits := range map[string]bool{
		"4g.20gb 3g.20gb":                         true,
		"4g.20gb 2g.10gb 1g.5gb":                  true,
		"3g.20gb 3g.20gb":                         true,
		"3g.20gb 2g.10gb 1g.5gb 1g.5gb":           true,
		"3g.20gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb":     true,
		"2g.10gb 2g.10gb 2g.10gb 1g.5gb":          true,
		"1g.10gb 1g.10gb 1g.10gb 1g.10gb":         true,
		"2g.10gb 2g.10gb 2g.10gb 1g.10gb":         true,
		"1g.5gb+me 1g.5gb 1g.5gb 2g.10gb 2g.10gb": true,
		"3g.20gb 3g.20gb 1g.5gb":                  false,
		"4g.20gb 4g.20gb":                         false,
		"7g.40gb 1g.5gb":                          false,
		"1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.5gb":  false,
		"1g.5gb+me 1g.5gb+me":                     false,
		"4g.20gb 2g.10gb 2g.10gb":                 false,
	} {
		g := geometries["40gb"]
		var wanted []profile
		for name := range strings.FieldsSeq(layout) {
			for _, p := range g.profiles {
				if p.name == name {
					wanted = append(wanted, p)
				}
			}
		}
		if got := g.fits(wanted); got != fits {
			t.Errorf("%s fits: %v, want %v", layout, got, fits)
		}
	}
}
