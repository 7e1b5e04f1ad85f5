package rule

import (
	"testing"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

func configs(names ...string) model.Sharing {
	s := model.Sharing{Configs: map[string]deviceconfig.Config{}, Places: map[string]model.Place{}}
	for i, name := range names {
		s.Configs[name] = deviceconfig.Config{}
		s.Places[name] = model.Place{File: "configs.yaml", Line: i + 1}
	}
	return s
}

func sharing(s model.Sharing, in model.Snapshot) model.Snapshot {
	in.Sharing = s
	return in
}

func TestDeviceConfigMissing(t *testing.T) {
	label := func(name string) []model.Pool {
		return []model.Pool{pool("gpu", labels(model.LabelDeviceConfig, name))}
	}
	run(t, "device-config-missing", map[string]scenario{
		"a misspelt name": {
			in: sharing(configs("default", "shared_gpu"), cluster(label("shared-gpu"))),
			want: []said{{
				`nvidia.com/device-plugin.config is "shared-gpu", but the configs are default and shared_gpu; the plugin would not start there`,
				"name one of default, shared_gpu, or add the config",
			}},
		},
		"on a node": {
			in: sharing(configs("default"), model.Snapshot{Nodes: []model.Node{{Labels: map[string]string{model.LabelDeviceConfig: "x"}}}}),
			want: []said{{
				`nvidia.com/device-plugin.config is "x", but the configs are default; the plugin would not start there`,
				"name one of default, or add the config",
			}},
		},
		"a name that is there":              {in: sharing(configs("default", "shared_gpu"), cluster(label("shared_gpu")))},
		"configs that were not passed":      {in: cluster(label("shared_gpu"), chart(""))},
		"a pool that leaves several values": {in: sharing(configs("a"), cluster([]model.Pool{pool("gpu", requires(in(model.LabelDeviceConfig, "a", "b")))}))},
	})
}

func TestDeviceConfigDefault(t *testing.T) {
	withDefault := configs("a", "b")
	withDefault.Default = "b"
	gpu := []model.Pool{pool("gpu")}
	run(t, "device-config-default", map[string]scenario{
		"two configs, none of them the default": {
			in: sharing(configs("b", "a"), cluster(gpu, chart(""))),
			want: []said{{
				"of the device configs a and b none is the default, and the nodes of pool gpu name none: the plugin would not start there",
				"set config.default, or the label nvidia.com/device-plugin.config in spec.template.metadata.labels of gpu",
			}},
		},
		"one is called default": {in: sharing(configs("default", "b"), cluster(gpu))},
		"one is the default":    {in: sharing(withDefault, cluster(gpu))},
		"only one config":       {in: sharing(configs("a"), cluster(gpu))},
		"every pool names one":  {in: sharing(configs("a", "b"), cluster([]model.Pool{pool("gpu", labels(model.LabelDeviceConfig, "a"))}))},
	})
}

func TestMIGConfigMissing(t *testing.T) {
	mig := model.Sharing{MIG: map[string]deviceconfig.MIGConfig{"all-1g.5gb": nil}}
	label := func(name string) model.Snapshot {
		return cluster([]model.Pool{pool("gpu", labels(model.LabelMIGConfig, name))})
	}
	run(t, "mig-config-missing", map[string]scenario{
		"a misspelt layout": {
			in: sharing(mig, label("all-1g.5g")),
			want: []said{{
				`nvidia.com/mig.config is "all-1g.5g", but the layouts are all-1g.5gb; the GPUs would not be partitioned`,
				"name one of all-1g.5gb, or add the layout",
			}},
		},
		"a layout that is there":       {in: sharing(mig, label("all-1g.5gb"))},
		"layouts that were not passed": {in: label("all-1g.5gb")},
	})
}

func TestSharedGPUMemory(t *testing.T) {
	sliced := func(name string) model.Sharing {
		s := configs("default", name)
		s.Configs[name] = deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Replicas: 10}}}}
		return s
	}
	mps := sliced("shared")
	mps.Configs["shared"] = deviceconfig.Config{MPS: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Replicas: 10}}}}
	labelled := []model.Pool{pool("a", labels(model.LabelDeviceConfig, "shared")), pool("b", labels(model.LabelDeviceConfig, "shared"))}
	run(t, "shared-gpu-memory", map[string]scenario{
		"two pools with one config are one cause": {
			in: sharing(sliced("shared"), cluster(labelled)),
			want: []said{{
				"config shared lets 10 pods share a GPU, and with time-slicing its memory too: one that takes more than its part makes the others fail",
				"have each process cap its own memory, or use mps, which gives each an equal part",
			}},
		},
		"MPS parts the memory":            {in: sharing(mps, cluster(labelled))},
		"a config that no pool selects":   {in: sharing(sliced("other"), cluster(labelled))},
		"pools that fall back to another": {in: sharing(sliced("shared"), cluster([]model.Pool{pool("gpu")}))},
	})
}

func TestMIGStrategyNone(t *testing.T) {
	mixed := configs("mixed", "plain")
	mixed.Configs["mixed"] = deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: "mixed"}}
	mixed.MIG = map[string]deviceconfig.MIGConfig{"cut": {{Enabled: true}}, "off": {{}}}
	on := func(layout, config string) model.Snapshot {
		return sharing(mixed, cluster([]model.Pool{pool("gpu", labels(model.LabelMIGConfig, layout, model.LabelDeviceConfig, config))}))
	}
	run(t, "mig-strategy-none", map[string]scenario{
		"MIG is on and nobody hands out its slices": {
			in: on("cut", "plain"),
			want: []said{{
				"layout cut turns MIG on, and config plain of pool gpu has migStrategy none: its GPUs would be handed out whole and not be usable",
				"set flags.migStrategy in config plain to mixed, or to single where every slice is alike",
			}},
		},
		"mixed hands them out":                 {in: on("cut", "mixed")},
		"a layout that leaves MIG off":         {in: on("off", "plain")},
		"a layout that is not among the files": {in: on("elsewhere", "plain")},
	})
}
