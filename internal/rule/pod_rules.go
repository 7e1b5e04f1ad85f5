package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

var podChecks = []check{
	{
		name: "env-visible-devices", severity: model.Warning, run: eachContainer(envVisibleDevices),
		doc: "A container sets NVIDIA_VISIBLE_DEVICES to something other than none or void, or takes it from elsewhere. The runtime then shows it those GPUs whatever it asked for, " +
			"also when it has a GPU limit: a pod's own variables come after the plugin's (nvidia-container-toolkit 1.20, kubelet 1.37). NVIDIA's own DaemonSets are left out.",
	},
	{
		name: "env-cuda-version", severity: model.Warning, run: eachContainer(envCUDAVersion),
		doc: "A container without a GPU sets CUDA_VERSION, which the runtime takes for the mark of an old CUDA image and shows it every GPU, " +
			"unless NVIDIA_REQUIRE_CUDA or NVIDIA_VISIBLE_DEVICES is set too (nvidia-container-toolkit 1.20).",
	},
	{
		name: "env-mig-devices", severity: model.Warning, run: eachContainer(envMIGDevices),
		doc: "A container sets NVIDIA_MIG_CONFIG_DEVICES or NVIDIA_MIG_MONITOR_DEVICES, which are for MIG management: without SYS_ADMIN it fails to start, with it it controls every GPU " +
			"(nvidia-container-toolkit 1.20).",
	},
	{
		name: "sys-admin-gpu-env", severity: model.Warning, run: eachContainer(sysAdminEnv),
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
		name: "gpu-zero", severity: model.Warning, run: gpuZero,
		doc: "A pod asks for 0 of a GPU resource. It gets no GPU, and still the toleration of GPU nodes: the ExtendedResourceToleration admission plugin does not look at amounts (Kubernetes 1.37).",
	},
	{
		name: "gpu-amount", severity: model.Error, run: eachContainer(gpuAmount),
		doc: "A container asks for a thousand GPUs or more, as 1k or 1Gi do. The API server accepts it (Kubernetes 1.37) and no node will ever have them.",
	},
}

// systemNamespaces hold NVIDIA's own pods, which need what others must not have.
var systemNamespaces = []string{"kube-system", "gpu-operator", "nvidia-device-plugin"}

// eachContainer makes a rule of a question about one container. An empty text
// means that there is nothing to say.
func eachContainer(ask func(c model.Container) (text, fix string, line int)) func(*view) []model.Note {
	return func(v *view) []model.Note {
		var out []model.Note
		for _, pod := range v.userPods() {
			for _, c := range pod.Spec.Containers {
				text, fix, line := ask(c)
				if text == "" {
					continue
				}
				place := pod.Spec.Place
				if line > 0 {
					place.Line = line
				}
				out = append(out, model.Note{Place: place, Text: "container " + c.Name + " " + text, Fix: fix})
			}
		}
		return out
	}
}

// userPods lists one pod for each spec, without the system's.
func (v *view) userPods() []model.Pod {
	return slices.DeleteFunc(slices.Clone(v.specs), func(p model.Pod) bool { return slices.Contains(systemNamespaces, p.Namespace) })
}

// lastEnv finds a variable; of two with one name the last counts.
func lastEnv(c model.Container, name string) (model.Env, bool) {
	for _, e := range slices.Backward(c.Env) {
		if e.Name == name {
			return e, true
		}
	}
	return model.Env{}, false
}

const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

// harmless reports whether the runtime shows no device for a value.
func harmless(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(part) {
		case "", "none", "void":
		default:
			return false
		}
	}
	return true
}

func containerGPUs(c model.Container) bool {
	for _, r := range []model.Resources{c.Limits, c.Requests} {
		for name, n := range r {
			if n > 0 && model.IsGPU(name) {
				return true
			}
		}
	}
	return false
}

func envVisibleDevices(c model.Container) (text, fix string, line int) {
	e, ok := lastEnv(c, visibleDevices)
	if !ok || (e.From == "" && harmless(e.Value)) {
		return "", "", 0
	}
	fix = "take it away and ask for nvidia.com/gpu in limits"
	if containerGPUs(c) {
		fix = "take it away: the plugin sets it for a container with a GPU limit"
	}
	switch {
	case e.From != "":
		return fmt.Sprintf("takes %s from %s: whoever writes that decides which GPUs it sees, whatever it asked for", visibleDevices, e.From), fix, e.Line
	case strings.Contains(e.Value, "$("):
		return fmt.Sprintf("sets %s to %s: what that stands for decides which GPUs it sees, whatever it asked for", visibleDevices, e.Value), fix, e.Line
	case containerGPUs(c):
		return fmt.Sprintf("sets %s to %s: it sees those GPUs rather than the ones it is given for its limit", visibleDevices, e.Value), fix, e.Line
	}
	return fmt.Sprintf("sets %s to %s: it uses GPUs of its node that it did not ask for and that others are given", visibleDevices, e.Value), fix, e.Line
}

func envCUDAVersion(c model.Container) (text, fix string, line int) {
	e, ok := lastEnv(c, "CUDA_VERSION")
	_, pinned := lastEnv(c, visibleDevices)
	_, required := lastEnv(c, "NVIDIA_REQUIRE_CUDA")
	if !ok || pinned || required || containerGPUs(c) {
		return "", "", 0
	}
	return "sets CUDA_VERSION and has no GPU limit: the runtime takes it for an old CUDA image and shows it every GPU of its node",
		"rename the variable, or set " + visibleDevices + ": void beside it", e.Line
}

func envMIGDevices(c model.Container) (text, fix string, line int) {
	for _, name := range []string{"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"} {
		if e, ok := lastEnv(c, name); ok {
			return fmt.Sprintf("sets %s, which is for MIG management: it fails to start without SYS_ADMIN and reaches every GPU with it", name),
				"take it away; leave MIG to mig-parted's DaemonSet", e.Line
		}
	}
	return "", "", 0
}

func sysAdmin(c model.Container) bool {
	return slices.ContainsFunc(c.Caps, func(name string) bool { return name == "ALL" || strings.TrimPrefix(name, "CAP_") == "SYS_ADMIN" })
}

func sysAdminEnv(c model.Container) (text, fix string, line int) {
	visible, _, at := envVisibleDevices(c)
	if visible == "" {
		visible, _, at = envCUDAVersion(c)
	}
	if visible == "" || c.Privileged || !sysAdmin(c) {
		return "", "", 0
	}
	return "has SYS_ADMIN and names GPUs in its environment: it gets them even on nodes that refuse this to unprivileged containers",
		"drop the capability, or the variable", at
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
		if asksGPU(pod.Spec) || len(zeroGPUs(pod.Spec)) > 0 || !v.mayReachGPUs(pod.Spec) {
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

// zeroGPUs lists the GPU resources that a pod names and asks 0 of.
func zeroGPUs(spec *model.PodSpec) []string {
	var out []string
	for _, c := range spec.Containers {
		for _, name := range c.Limits.Names() {
			if c.Limits[name] == 0 && model.IsGPU(name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func gpuZero(v *view) []model.Note {
	var out []model.Note
	for _, pod := range v.userPods() {
		names := zeroGPUs(pod.Spec)
		if len(names) == 0 || asksGPU(pod.Spec) {
			continue
		}
		out = append(out, model.Note{
			Place: pod.Spec.Place,
			Text:  fmt.Sprintf("the pod asks for 0 of %s: it gets no GPU, and still the toleration of GPU nodes", list(names)),
			Fix:   "take the entry away",
		})
	}
	return out
}

// absurd is more GPUs, or slices of them, than any node has.
const absurd = 1000

func gpuAmount(c model.Container) (text, fix string, line int) {
	for _, name := range c.Limits.Names() {
		if n := c.Limits[name]; n >= absurd && countsDevices(name) {
			return fmt.Sprintf("asks for %d of %s: no node has as many", n, name), "write the number of GPUs without a suffix", 0
		}
	}
	return "", "", 0
}

// countsDevices tells GPUs and slices from amounts of memory or compute.
func countsDevices(name string) bool {
	return strings.HasPrefix(name, model.NvidiaGPU) && !strings.HasPrefix(name, "nvidia.com/gpumem") && !strings.HasPrefix(name, "nvidia.com/gpucores") ||
		strings.HasPrefix(name, "nvidia.com/mig-") || name == "amd.com/gpu"
}
