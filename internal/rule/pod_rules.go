package rule

import (
	"fmt"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

var podChecks = []check{
	{
		name: "env-visible-devices", severity: model.Warning, run: guarded("env-visible-devices", "env-visible-devices-from"),
		doc: "A container sets NVIDIA_VISIBLE_DEVICES to something other than none or void, or takes it from elsewhere. The runtime then shows it those GPUs whatever it asked for, " +
			"also when it has a GPU limit: a pod's own variables come after the plugin's (nvidia-container-toolkit 1.20, kubelet 1.37). NVIDIA's own DaemonSets are left out.",
	},
	{
		name: "env-cuda-version", severity: model.Warning, run: guarded("env-cuda-version"),
		doc: "A container without a GPU sets CUDA_VERSION, which the runtime takes for the mark of an old CUDA image and shows it every GPU, " +
			"unless NVIDIA_REQUIRE_CUDA or NVIDIA_VISIBLE_DEVICES is set too (nvidia-container-toolkit 1.20).",
	},
	{
		name: "env-mig-devices", severity: model.Warning, run: guarded("env-mig-devices"),
		doc: "A container sets NVIDIA_MIG_CONFIG_DEVICES or NVIDIA_MIG_MONITOR_DEVICES, which are for MIG management: without SYS_ADMIN it fails to start, with it it controls every GPU " +
			"(nvidia-container-toolkit 1.20).",
	},
	{
		name: "sys-admin-gpu-env", severity: model.Warning, run: guarded("sys-admin-gpu-env"),
		doc: "A container has SYS_ADMIN and names GPUs in its environment: the runtime then treats it as privileged, so it gets them even on nodes that refuse the variable " +
			"to others (nvidia-container-toolkit 1.20).",
	},
	{
		name: "privileged", severity: model.Warning, run: privileged,
		doc: "A privileged container that can land on a GPU node sees every GPU of it, with or without a limit (Kubernetes 1.37; no runtime can isolate it).",
	},
	{
		name: "cpu-pod-on-gpu-node", severity: model.Warning, run: cpuPodOnGPUNode,
		doc: "A pod that asks for no GPU tolerates the taint that keeps such pods off GPU nodes, or every taint. DaemonSets, which mean it, are left out.",
	},
	{
		name: "gpu-zero", severity: model.Warning, run: guarded("gpu-zero"),
		doc: "A pod asks for 0 of a GPU resource. It gets no GPU, and still the toleration of GPU nodes: the ExtendedResourceToleration admission plugin does not look at amounts (Kubernetes 1.37).",
	},
	{
		name: "gpu-amount", severity: model.Error, run: guarded("gpu-amount"),
		doc: "A container asks for a thousand GPUs or more, as 1k or 1Gi do. The API server accepts it (Kubernetes 1.37) and no node will ever have them.",
	},
}

// systemNamespaces hold NVIDIA's own pods, which need what others must not have.
var systemNamespaces = []string{"kube-system", "gpu-operator", "nvidia-device-plugin"}

// guarded makes a check of rules of the guard.
func guarded(names ...string) func(*view) []model.Note {
	return func(v *view) []model.Note {
		var out []model.Note
		for _, pod := range v.userPods() {
			for _, name := range names {
				for _, f := range guard.ReviewModel(name, pod) {
					out = append(out, f.Note())
				}
			}
		}
		return out
	}
}

// userPods lists one pod for each spec, without the system's.
func (v *view) userPods() []model.Pod {
	return slices.DeleteFunc(slices.Clone(v.specs), func(p model.Pod) bool { return slices.Contains(systemNamespaces, p.Namespace) })
}

func privileged(v *view) []model.Note {
	var out []model.Note
	for _, pod := range v.userPods() {
		i := slices.IndexFunc(pod.Spec.Containers, func(c model.Container) bool { return c.Privileged })
		if i < 0 || !v.mayReachGPUs(pod.Spec) {
			continue
		}
		out = append(out, model.Note{
			Place: pod.Spec.Place,
			Text:  fmt.Sprintf("container %s is privileged: it sees every GPU of a GPU node, whatever it asks for", pod.Spec.Containers[i].Name),
			Fix:   "drop privileged; a GPU needs only its limit",
		})
	}
	return out
}

// showsGPUs reports whether the input has a GPU pool or a GPU node.
func (v *view) showsGPUs() bool { return len(v.gpuPools()) > 0 || len(v.gpuNodes) > 0 }

// mayReachGPUs reports whether a pod could land on a GPU node: one of the
// input's, or, where the input shows none, any.
func (v *view) mayReachGPUs(spec *model.PodSpec) bool {
	if !v.showsGPUs() {
		return true
	}
	return slices.ContainsFunc(v.gpuPools(), func(pv *poolView) bool { return v.canGo(spec, pv) }) ||
		slices.ContainsFunc(v.gpuNodes, func(n model.Node) bool {
			_, tolerated := constraint.Tolerates(spec.Tolerations, n.Taints)
			_, matches := constraint.MatchNode(spec, constraint.Named(n.Labels, n.Name))
			return tolerated && matches
		})
}

func cpuPodOnGPUNode(v *view) []model.Note {
	var out []model.Note
	for _, pod := range v.userPods() {
		if asksGPU(pod.Spec) || zeroGPUs(pod.Spec) || !v.mayReachGPUs(pod.Spec) {
			continue
		}
		what := v.opens(pod.Spec.Tolerations)
		if what == "" {
			continue
		}
		out = append(out, model.Note{
			Place: pod.Spec.Place,
			Text:  "the pod asks for no GPU and tolerates " + what + ": it can take room on GPU nodes",
			Fix:   "drop the toleration",
		})
	}
	return out
}

// opens says which of the tolerations lets a pod onto GPU nodes, "" for none.
func (v *view) opens(tols []model.Toleration) string {
	for _, t := range tols {
		switch {
		case t.Assumed || t.Effect == model.NoExecute || t.Effect == model.PreferNoSchedule:
		case t.Key == "" && t.Operator == "Exists":
			if v.showsGPUs() {
				return "every taint"
			}
		case model.IsGPU(t.Key) || v.guards(t):
			return t.Key
		}
	}
	return ""
}

// guards reports whether a toleration covers a taint of a pool that launches
// nothing but GPU nodes.
func (v *view) guards(tol model.Toleration) bool {
	return slices.ContainsFunc(v.pools, func(pv poolView) bool {
		return pv.onlyGPU && slices.ContainsFunc(pv.Taints, func(t model.Taint) bool { return constraint.Covers(tol, t) })
	})
}

// zeroGPUs reports whether a pod names a GPU resource and asks 0 of it.
func zeroGPUs(spec *model.PodSpec) bool {
	for _, c := range spec.Containers {
		for name, n := range c.Limits {
			if n == 0 && model.IsGPU(name) {
				return true
			}
		}
	}
	return false
}
