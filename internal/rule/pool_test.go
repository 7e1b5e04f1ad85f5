package rule

import (
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestSpotSingleType(t *testing.T) {
	spot := in(model.LabelCapacityType, model.Spot)
	one := in(model.LabelInstanceType, "g4dn.xlarge")
	run(t, "spot-single-type", map[string]scenario{
		"one type, spot only": {
			in: cluster([]model.Pool{pool("gpu", requires(spot, one))}),
			want: []said{{
				"pool gpu buys spot only and admits one type, g4dn.xlarge: when it is out of stock there is nothing to fall back on",
				"admit g4dn.2xlarge too, which has the same GPU, or on-demand",
			}},
		},
		"nothing like it is sold": {
			in: cluster([]model.Pool{pool("gpu", requires(spot, in(model.LabelInstanceType, "g5.xlarge")))}),
			want: []said{{
				"pool gpu buys spot only and admits one type, g5.xlarge: when it is out of stock there is nothing to fall back on",
				"admit on-demand too",
			}},
		},
		"on-demand too":             {in: cluster([]model.Pool{pool("gpu", requires(in(model.LabelCapacityType, model.Spot, model.OnDemand), one))})},
		"two types":                 {in: cluster([]model.Pool{pool("gpu", requires(spot, in(model.LabelInstanceType, "g4dn.xlarge", "g5.xlarge")))})},
		"one type, but not of GPUs": {in: cluster([]model.Pool{pool("web", requires(spot, in(model.LabelInstanceType, "m5.large")))})},
		"capacity types left open":  {in: cluster([]model.Pool{pool("gpu", requires(one))})},
	})
}

func TestOldGPUGeneration(t *testing.T) {
	category := in("karpenter.k8s.aws/instance-category", "g", "p")
	gt := func(n string) model.Requirement {
		return model.Requirement{Key: "karpenter.k8s.aws/instance-generation", Operator: model.Gt, Values: []string{n}}
	}
	withdrawn := cluster([]model.Pool{pool("gpu", requires(category, gt("2")))})
	withdrawn.Types = types[:6]
	run(t, "old-gpu-generation", map[string]scenario{
		"generation above 2 admits g3": {
			in: cluster([]model.Pool{pool("gpu", requires(category, gt("2")))}),
			want: []said{{
				"pool gpu admits g3.4xlarge, whose GPUs present drivers have dropped: no GPU would register there",
				"exclude them: key karpenter.k8s.aws/instance-family, operator NotIn, values [g3]",
			}},
		},
		"generation above 3":         {in: cluster([]model.Pool{pool("gpu", requires(category, gt("3")))})},
		"where g3 is no longer sold": {in: withdrawn},
	})
}

func TestGPUPoolUntainted(t *testing.T) {
	run(t, "gpu-pool-untainted", map[string]scenario{
		"no taint": {
			in: cluster([]model.Pool{pool("gpu", tainted())}),
			want: []said{{
				"pool gpu launches GPU nodes only and has no taint: pods that ask for no GPU can land there and keep its nodes alive",
				"spec.template.spec.taints: [{key: nvidia.com/gpu, effect: NoSchedule}]; the plugin's chart tolerates it, and where ExtendedResourceToleration is on so do pods that ask for GPUs",
			}},
		},
		"a taint of any name":     {in: cluster([]model.Pool{pool("gpu", tainted(taint("sku", "gpu")))})},
		"a pool of everything":    {in: cluster([]model.Pool{pool("general", requires(), tainted())})},
		"a pool that has no GPUs": {in: cluster([]model.Pool{pool("web", requires(in("karpenter.k8s.aws/instance-family", "m5")), tainted())})},
	})
}

func TestAMDInNVIDIAPool(t *testing.T) {
	category := in("karpenter.k8s.aws/instance-category", "g")
	run(t, "amd-in-nvidia-pool", map[string]scenario{
		"every g type": {
			in: cluster([]model.Pool{pool("gpu", requires(category))}),
			want: []said{{
				"pool gpu admits AMD GPUs (g4ad) beside NVIDIA ones: such a node has amd.com/gpu and no nvidia.com/gpu",
				"pin the maker: {key: karpenter.k8s.aws/instance-gpu-manufacturer, operator: In, values: [nvidia]}",
			}},
		},
		"the maker is pinned":  {in: cluster([]model.Pool{pool("gpu", requires(category, in("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia")))})},
		"a pool of AMD's":      {in: cluster([]model.Pool{pool("gpu", requires(in("karpenter.k8s.aws/instance-gpu-manufacturer", "amd")))})},
		"a pool of everything": {in: cluster([]model.Pool{pool("general", requires())})},
	})
}

func TestGPUStartupTaint(t *testing.T) {
	startup := func(key string) []model.Pool {
		return []model.Pool{pool("gpu", func(p *model.Pool) { p.StartupTaints = []model.Taint{taint(key, "")} })}
	}
	run(t, "gpu-startup-taint", map[string]scenario{
		"one that looks like the plugin's to remove": {
			in: cluster(startup("nvidia.com/not-ready"), chart("")),
			want: []said{{
				"startup taint nvidia.com/not-ready of pool gpu keeps the device plugin off, and nothing of NVIDIA's takes it away: the node would never be initialized",
				"make it a taint under spec.template.spec.taints, or have the plugin tolerate it and something remove it",
			}},
		},
		"one that another agent removes": {in: cluster(startup("node.cilium.io/agent-not-ready"), chart(""))},
		"one that the plugin tolerates":  {in: cluster(startup("nvidia.com/gpu"), chart(""))},
	})
}

func TestMixedArch(t *testing.T) {
	arm := instanceType("g5g.xlarge", "t4g", "nvidia", 1)
	arm.Labels[model.LabelArch] = "arm64"
	with := func(reqs ...model.Requirement) model.Snapshot {
		s := cluster([]model.Pool{pool("gpu", requires(append(reqs, in("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"))...))})
		s.Types = append([]model.InstanceType{arm}, types...)
		return s
	}
	run(t, "mixed-arch", map[string]scenario{
		"no architecture is named": {
			in: with(),
			want: []said{{
				"pool gpu admits arm64 GPU nodes (g5g) beside amd64 ones: an image without an arm64 variant fails there",
				"pin it where images need it: {key: kubernetes.io/arch, operator: In, values: [amd64]}",
			}},
		},
		"one is named":   {in: with(in(model.LabelArch, "amd64"))},
		"arm64 is meant": {in: with(in(model.LabelArch, "arm64"))},
	})
}
