package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

var poolChecks = []check{
	{
		name: "spot-single-type", severity: model.Warning, run: spotSingleType,
		doc: "A GPU pool buys spot only and admits one instance type. When that is out of stock there is nothing to fall back on, and its pods wait " +
			"(Karpenter 1.15 remembers an insufficient-capacity error per offering and then finds no compatible type).",
	},
	{
		name: "old-gpu-generation", severity: model.Warning, run: oldGPUGeneration,
		doc: "A pool admits types with Kepler or Maxwell GPUs (p2, g3), which the drivers of present GPU images have dropped, as instance-generation Gt 2 does. " +
			"It looks at what the catalogue sells, so it is silent where those types are withdrawn (Amazon EKS AMI, g3 on new drivers).",
	},
	{
		name: "gpu-pool-untainted", severity: model.Warning, run: gpuPoolUntainted,
		doc: "A pool launches GPU nodes only and has no taint, so Kubernetes' scheduler puts pods that ask for no GPU on them, and they keep dear nodes alive.",
	},
	{
		name: "amd-in-nvidia-pool", severity: model.Info, run: amdInNVIDIAPool,
		doc: "A GPU pool admits types with AMD GPUs beside NVIDIA ones (g4ad under instance-category g). The NVIDIA plugin finds nothing on them, and they give amd.com/gpu " +
			"(Karpenter AWS provider 1.15). Pinning instance-gpu-manufacturer keeps them out.",
	},
	{
		name: "mixed-arch", severity: model.Info, run: mixedArch,
		doc: "A GPU pool without a requirement on kubernetes.io/arch admits arm64 types (g5g) beside amd64 ones, and they are often the cheapest: a pod whose image has " +
			"no arm64 variant fails there. Karpenter 1.15 takes no architecture for granted since v1beta1.",
	},
	{
		name: "gpu-startup-taint", severity: model.Warning, run: gpuStartupTaint,
		doc: "A GPU pool has a startup taint under nvidia.com/ that the device plugin does not tolerate. Karpenter 1.15 waits for startup taints to be taken away before a node counts " +
			"as initialized, neither the plugin nor feature discovery takes one away, and the plugin cannot start before.",
	},
}

func spotSingleType(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		capacity, finite := pv.set.Values(model.LabelCapacityType)
		if !finite || !slices.Equal(capacity, []string{model.Spot}) || len(pv.types) != 1 {
			continue
		}
		t := pv.types[0]
		fix := "admit on-demand too"
		if others := v.kin(t); len(others) > 0 {
			fix = fmt.Sprintf("admit %s too, which %s the same %s, or on-demand", list(others), plural(len(others), "has", "have"), plural(int(t.GPUs[0].Count), "GPU", "GPUs"))
		}
		out = append(out, model.Note{
			Place: pv.Place,
			Text:  fmt.Sprintf("pool %s buys spot only and admits one type, %s: when it is out of stock there is nothing to fall back on", pv.Name, t.Name),
			Fix:   fix,
		})
	}
	return out
}

// kin names up to two other types with the same GPUs, cheapest first.
func (v *view) kin(t *model.InstanceType) []string {
	var same []*model.InstanceType
	for i := range v.Types {
		o := &v.Types[i]
		if o.Name != t.Name && len(o.GPUs) == 1 && len(t.GPUs) == 1 && o.GPUs[0].Model == t.GPUs[0].Model &&
			o.GPUs[0].Count == t.GPUs[0].Count && o.GPUs[0].Fraction == t.GPUs[0].Fraction && len(o.Offerings) > 0 {
			same = append(same, o)
		}
	}
	slices.SortStableFunc(same, func(a, b *model.InstanceType) int {
		switch x, y := a.Offerings[0].Price, b.Offerings[0].Price; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	var out []string
	for _, o := range same[:min(2, len(same))] {
		out = append(out, o.Name)
	}
	return out
}

func oldGPUGeneration(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		var old []string
		for _, t := range pv.nvidia {
			if slices.ContainsFunc(t.GPUs, dropped) {
				old = append(old, t.Name)
			}
		}
		if len(old) > 0 {
			slices.Sort(old)
			out = append(out, model.Note{
				Place: pv.Place,
				Text:  fmt.Sprintf("pool %s admits %s, whose GPUs present drivers have dropped: no GPU would register there", pv.Name, list(old)),
				Fix:   "exclude them: key karpenter.k8s.aws/instance-family, operator NotIn, values [" + strings.Join(families(old), ", ") + "]",
			})
		}
	}
	return out
}

func dropped(g model.GPU) bool {
	return g.Family == "kepler" || g.Family == "maxwell" || g.Model == "k80" || g.Model == "m60"
}

func families(types []string) []string {
	var out []string
	for _, t := range types {
		if f, _, _ := strings.Cut(t, "."); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func gpuPoolUntainted(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		if _, open := constraint.Tolerates(nil, pv.Taints); !pv.onlyGPU || !open {
			continue
		}
		out = append(out, model.Note{
			Place: pv.Place,
			Text:  fmt.Sprintf("pool %s launches GPU nodes only and has no taint: pods that ask for no GPU can land there and keep its nodes alive", pv.Name),
			Fix:   fmt.Sprintf("spec.template.spec.taints: [{key: %s, effect: %s}]; the plugin's chart tolerates it, and where ExtendedResourceToleration is on so do pods that ask for GPUs", model.NvidiaGPU, model.NoSchedule),
		})
	}
	return out
}

func amdInNVIDIAPool(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		var amd []string
		for _, t := range pv.types {
			if len(t.GPUs) > 0 && t.GPUs[0].Manufacturer == "amd" {
				amd = append(amd, t.Name)
			}
		}
		if !pv.onlyGPU || len(amd) == 0 {
			continue
		}
		slices.Sort(amd)
		out = append(out, model.Note{
			Place: pv.Place,
			Text:  fmt.Sprintf("pool %s admits AMD GPUs (%s) beside NVIDIA ones: such a node has amd.com/gpu and no %s", pv.Name, list(families(amd)), model.NvidiaGPU),
			Fix:   "pin the maker: {key: karpenter.k8s.aws/instance-gpu-manufacturer, operator: In, values: [nvidia]}",
		})
	}
	return out
}

func mixedArch(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		var arm []string
		for _, t := range pv.nvidia {
			if t.Labels[model.LabelArch] == "arm64" {
				arm = append(arm, t.Name)
			}
		}
		if len(arm) == 0 || len(arm) == len(pv.nvidia) {
			continue
		}
		slices.Sort(arm)
		out = append(out, model.Note{
			Place: pv.Place,
			Text:  fmt.Sprintf("pool %s admits arm64 GPU nodes (%s) beside amd64 ones: an image without an arm64 variant fails there", pv.Name, list(families(arm))),
			Fix:   "pin it where images need it: {key: " + model.LabelArch + ", operator: In, values: [amd64]}",
		})
	}
	return out
}

func gpuStartupTaint(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		for _, p := range v.Plugins {
			if _, ok := selects(p, pv); !ok {
				continue
			}
			for _, t := range untolerated(p, pv.StartupTaints) {
				if strings.HasPrefix(t.Key, "nvidia.com/") {
					out = append(out, model.Note{
						Place: pv.Place,
						Text:  fmt.Sprintf("startup taint %s of pool %s keeps the device plugin off, and nothing of NVIDIA's takes it away: the node would never be initialized", t.Key, pv.Name),
						Fix:   "make it a taint under spec.template.spec.taints, or have the plugin tolerate it and something remove it",
					})
				}
			}
		}
	}
	return out
}
