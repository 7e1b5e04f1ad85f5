// Package gpu says what a node's GPUs give under a device config: resources,
// labels, and how much one container may ask. The planner asks it about nodes
// that do not exist yet, the node agent about the one it runs on, so the two
// cannot disagree.
//
// The rules are those of NVIDIA's k8s-device-plugin and gpu-feature-discovery
// v0.20.0, with one difference: per-device entries and renames, which upstream
// parses and drops, are honoured.
package gpu

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// defaultConfig is the config that unlabelled nodes get when none is
// configured as the default.
const defaultConfig = "default"

// ForNode returns what a node of type t with these labels advertises: the
// labels choose the device config and the MIG layout. A type without NVIDIA
// GPUs needs neither.
//
// Errors are a *ConfigError or a *LayoutNameError when a label names what does
// not exist, and those of Advertise.
func ForNode(t model.InstanceType, s model.Sharing, labels map[string]string) (model.Advertisement, error) {
	if !slices.ContainsFunc(t.GPUs, isNVIDIA) {
		return Advertise(t.GPUs, deviceconfig.Config{}, nil)
	}
	name, cfg, err := Select(s, labels)
	if err != nil {
		return model.Advertisement{}, err
	}
	layout, err := selectLayout(s, labels, t.GPUs)
	if err != nil {
		return model.Advertisement{}, err
	}
	ad, err := Advertise(t.GPUs, cfg, layout)
	if err != nil {
		return model.Advertisement{}, err
	}
	ad.Config = name
	if s.Consumable {
		consume(&ad, t.GPUs)
	}
	return ad, nil
}

// consume gives the whole GPUs of an advertisement that shares nothing the
// amounts by which parts of them are asked. A slice of a GPU has that part of
// a GPU's thousandths, and all of its own memory and cores.
func consume(ad *model.Advertisement, gpus []model.GPU) {
	if ad.Kind != model.Exclusive {
		return
	}
	i := 0
	for _, g := range gpus {
		if !isNVIDIA(g) {
			continue
		}
		milli := int64(1000)
		if isSlice(g) {
			milli = int64(g.Fraction*1000 + 0.5)
		}
		for range g.Count {
			ad.Devices[i].Shares = model.Resources{model.ShareMilli: milli, model.ShareMemory: g.MemoryMiB, model.SharePercent: 100, model.ShareCores: 100}
			ad.Kind = model.Consumable
			i++
		}
	}
}

// Select returns the device config of a node with these labels, as the
// plugin's config manager does with its default fallbacks: the one that the
// label nvidia.com/device-plugin.config names; else the configured default;
// else the one called "default"; else the only one. Without any configs the
// name is "" and the GPUs are not shared. An error is a *ConfigError.
func Select(s model.Sharing, labels map[string]string) (name string, cfg deviceconfig.Config, err error) {
	if name = labels[model.LabelDeviceConfig]; name != "" {
		cfg, ok := s.Configs[name]
		if !ok {
			return "", cfg, &ConfigError{Name: name, ByLabel: true, Known: known(s.Configs)}
		}
		return name, cfg, nil
	}
	if s.Default != "" {
		cfg, ok := s.Configs[s.Default]
		if !ok {
			return "", cfg, &ConfigError{Name: s.Default, Known: known(s.Configs)}
		}
		return s.Default, cfg, nil
	}
	if cfg, ok := s.Configs[defaultConfig]; ok {
		return defaultConfig, cfg, nil
	}
	names := known(s.Configs)
	switch len(names) {
	case 0:
		return "", cfg, nil
	case 1:
		return names[0], s.Configs[names[0]], nil
	}
	return "", cfg, &ConfigError{Known: names}
}

// selectLayout returns the MIG layout that the label nvidia.com/mig.config
// names, nil when there is no label: GPUs start with MIG off. Where no layouts
// are given, NVIDIA's MIG manager runs with those that it comes with.
func selectLayout(s model.Sharing, labels map[string]string, gpus []model.GPU) (deviceconfig.MIGConfig, error) {
	name := labels[model.LabelMIGConfig]
	if name == "" {
		return nil, nil
	}
	if layout, ok := s.MIG[name]; ok {
		return layout, nil
	}
	if len(s.MIG) > 0 {
		return nil, &LayoutNameError{Name: name, Known: known(s.MIG)}
	}
	return stockLayout(name, gpus)
}

func known[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
