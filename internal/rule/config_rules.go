package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

var configChecks = []check{
	{
		name: "device-config-missing", severity: model.Error, run: deviceConfigMissing,
		doc: "A pool or node carries nvidia.com/device-plugin.config with a name that no config has. The config-manager exits with an error and the plugin never starts (k8s-device-plugin 0.20).",
	},
	{
		name: "device-config-default", severity: model.Error, run: deviceConfigDefault,
		doc: "There are several device configs, none is the default and none is called \"default\", and a GPU pool's nodes name none. " +
			"The config-manager's fallbacks (named, single) both fail and the plugin never starts (k8s-device-plugin 0.20).",
	},
	{
		name: "mig-config-missing", severity: model.Error, run: migConfigMissing,
		doc: "A pool or node carries nvidia.com/mig.config with a name that the mig-parted file does not have, so the GPUs are never partitioned (mig-parted 0.15).",
	},
	{
		name: "mig-strategy-none", severity: model.Warning, run: migStrategyNone,
		doc: "A pool's layout turns MIG on and the device config of its nodes has migStrategy none, under which the plugin hands out such a GPU as a whole one: a container that gets it " +
			"sees no usable GPU (k8s-device-plugin 0.20).",
	},
	{
		name: "shared-gpu-memory", severity: model.Info, run: sharedGPUMemory,
		doc: "Under time-slicing several pods have one GPU's memory in common: nothing keeps one of them from taking all of it (NVIDIA GPU Operator documentation, time-slicing).",
	},
}

// A bearer is whatever puts a label on nodes.
type bearer struct {
	place  model.Place
	labels map[string]string
}

// bearers lists the pools and nodes that set a label.
func (v *view) bearers(label string) []bearer {
	var out []bearer
	for i := range v.pools {
		pv := &v.pools[i]
		if values, finite := pv.set.Values(label); finite && len(values) == 1 {
			out = append(out, bearer{pv.Place, map[string]string{label: values[0]}})
		}
	}
	for _, n := range v.Nodes {
		if _, ok := n.Labels[label]; ok {
			out = append(out, bearer{n.Place, n.Labels})
		}
	}
	return out
}

func deviceConfigMissing(v *view) []model.Note {
	names := sortedKeys(v.Sharing.Configs)
	if len(names) == 0 {
		return nil // they are likely to be in a ConfigMap that was not passed
	}
	return v.missing(model.LabelDeviceConfig, names, "the configs are "+list(names)+"; the plugin would not start there",
		"name one of "+strings.Join(names, ", ")+", or add the config")
}

func migConfigMissing(v *view) []model.Note {
	names := sortedKeys(v.Sharing.MIG)
	if len(names) == 0 {
		return nil
	}
	return v.missing(model.LabelMIGConfig, names, "the layouts are "+list(names)+"; the GPUs would not be partitioned", "name one of "+strings.Join(names, ", ")+", or add the layout")
}

func migStrategyNone(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		layout := v.Sharing.MIG[pv.Labels[model.LabelMIGConfig]]
		name, cfg, err := gpu.Select(v.Sharing, pv.Labels)
		on := slices.ContainsFunc(layout, func(e deviceconfig.MIGEntry) bool { return e.Enabled })
		if !on || err != nil || name == "" || (cfg.Flags.MIGStrategy != "" && cfg.Flags.MIGStrategy != "none") {
			continue
		}
		out = append(out, model.Note{
			Place: pv.Place,
			Text:  fmt.Sprintf("layout %s turns MIG on, and config %s of pool %s has migStrategy none: its GPUs would be handed out whole and not be usable", pv.Labels[model.LabelMIGConfig], name, pv.Name),
			Fix:   "set flags.migStrategy in config " + name + " to mixed, or to single where every slice is alike",
		})
	}
	return out
}

// missing notes every bearer of the label whose value is not among names.
func (v *view) missing(label string, names []string, have, fix string) []model.Note {
	var out []model.Note
	for _, b := range v.bearers(label) {
		if value := b.labels[label]; !slices.Contains(names, value) {
			out = append(out, model.Note{Place: b.place, Text: fmt.Sprintf("%s is %q, but %s", label, value, have), Fix: fix})
		}
	}
	return out
}

func deviceConfigDefault(v *view) []model.Note {
	names := sortedKeys(v.Sharing.Configs)
	if len(names) < 2 || v.Sharing.Default != "" || slices.Contains(names, "default") {
		return nil
	}
	var pools []string
	for _, pv := range v.gpuPools() {
		if !pv.set.Defines(model.LabelDeviceConfig) {
			pools = append(pools, pv.Name)
		}
	}
	if len(pools) == 0 {
		return nil
	}
	return []model.Note{{
		Place: v.configPlace(names[0]),
		Text: fmt.Sprintf("of the device configs %s none is the default, and the %s name none: the plugin would not start there",
			list(names), nodesOf(pools)),
		Fix: fmt.Sprintf("set config.default, or the label %s in spec.template.metadata.labels of %s", model.LabelDeviceConfig, list(pools)),
	}}
}

// configPlace says where a config stands, or else where the plugin does.
func (v *view) configPlace(name string) model.Place {
	if p, ok := v.Sharing.Places[name]; ok {
		return p
	}
	if len(v.Plugins) > 0 {
		return v.Plugins[0].Place
	}
	return model.Place{}
}

func sharedGPUMemory(v *view) []model.Note {
	var out []model.Note
	for _, name := range sortedKeys(v.Sharing.Configs) {
		cfg := v.Sharing.Configs[name]
		if cfg.TimeSlicing == nil || cfg.MPS != nil || !v.usesConfig(name) {
			continue
		}
		most := int64(0)
		for _, r := range cfg.TimeSlicing.Resources {
			most = max(most, r.Replicas)
		}
		if most < 2 {
			continue
		}
		out = append(out, model.Note{
			Place: v.configPlace(name),
			Text:  fmt.Sprintf("config %s lets %d pods share a GPU, and with time-slicing its memory too: one that takes more than its part makes the others fail", name, most),
			Fix:   "have each process cap its own memory, or use mps, which gives each an equal part",
		})
	}
	return out
}

// usesConfig reports whether a GPU pool's or a node's label, or its absence,
// selects the config.
func (v *view) usesConfig(name string) bool {
	fallback := v.Sharing.Default
	if _, named := v.Sharing.Configs["default"]; fallback == "" && named {
		fallback = "default"
	}
	if fallback == "" && len(v.Sharing.Configs) == 1 {
		fallback = name
	}
	pools := v.gpuPools()
	if len(pools) == 0 && len(v.Nodes) == 0 {
		return true
	}
	return slices.ContainsFunc(pools, func(pv *poolView) bool {
		if !pv.set.Defines(model.LabelDeviceConfig) {
			return name == fallback
		}
		return pv.set.Has(model.LabelDeviceConfig, name)
	}) || slices.ContainsFunc(v.Nodes, func(n model.Node) bool { return n.Labels[model.LabelDeviceConfig] == name })
}
