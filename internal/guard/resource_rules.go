package guard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

var resourceRules = []Rule{
	{
		Name: "gpu-zero", Severity: model.Warning, Row: 23, Title: "a pod asks for 0 GPUs",
		Doc: "It gets no GPU, and still the toleration of GPU nodes: the ExtendedResourceToleration admission plugin does not look at amounts.",
		Fix: "take the entry away", Source: "Kubernetes 1.37, plugin/pkg/admission/extendedresourcetoleration; run; kubernetes/kubernetes#125426",
		pod: (*review).gpuZero,
	},
	{
		Name: "gpu-amount", Severity: model.Error, Title: "a container asks for a thousand GPUs or more",
		Doc: "1k and 1Gi are quantities of whole GPUs. The API server accepts them and no node will ever have them.",
		Fix: "write the number of GPUs without a suffix", Source: "Kubernetes 1.37, validation; run", pod: func(r *review) { r.each(r.gpuAmount) },
	},
	{
		Name: "pod-level-gpu", Severity: model.Error, Title: "a GPU asked for at the level of the pod",
		Doc: "spec.resources takes cpu, memory and hugepages only. The API server refuses the pod, and its controller goes on trying.",
		Fix: "move the entry to the limits of the container that uses it", Source: "Kubernetes 1.37, KEP-2837; run", pod: (*review).podLevel,
	},
	{
		Name: "mixed-gpu-resources", Severity: model.Error, Row: 24, Title: "whole GPUs and shares of GPUs in one pod",
		Doc: "nvidia.com/gpu and aliyun.com/gpu-mem are counted by two schedulers that do not know of each other; on ACK a node serves one of them at a time.",
		Fix: "ask for one of the two", Source: "ACK: one GPU mode on a node, enabling one sets the resources of the others to 0", pod: (*review).mixed,
	},
	{
		Name: "gpu-above-one", Severity: model.Error, Title: "more slices than the device plugin grants",
		Doc: "With failRequestsGreaterThanOne the plugin refuses a container with more than one slice of a shared GPU: the pod fails on its node with UnexpectedAdmissionError. " +
			"Two slices are not two GPUs, nor twice the memory.",
		Fix: "ask for 1", Source: "k8s-device-plugin 0.20.0", Sees: ByWebhook, pod: func(r *review) { r.each(r.aboveOne) },
	},
	{
		Name: "gpu-not-offered", Severity: model.Warning, Title: "a GPU resource that no node has",
		Doc: "Neither the nodes nor the device configs of the input give this resource: the pod waits for ever. nvidia.com/gpu.shared needs renameByDefault in the device config, mig resources the strategy mixed.",
		Fix: "ask for a resource that is there, or change the device config", Source: "k8s-device-plugin 0.20.0", Sees: ByWebhook, pod: func(r *review) { r.each(r.notOffered) },
	},
}

// AnySlice among the resources that are offered says that MIG slices may be, of
// whatever profile.
const AnySlice = "nvidia.com/mig-*"

// zeroGPUs lists the GPU resources that a pod names and asks 0 of.
func (p *Pod) zeroGPUs() []string {
	var out []string
	for i := range p.Containers {
		for _, a := range p.Containers[i].Limits {
			if a.Value == 0 && model.IsGPU(a.Name) && !slices.Contains(out, a.Name) {
				out = append(out, a.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (r *review) gpuZero() {
	names := r.pod.zeroGPUs()
	if len(names) == 0 || r.gpu {
		return
	}
	r.say("containers", "the pod asks for 0 of "+list(names)+": it gets no GPU, and still the toleration of GPU nodes")
}

// list writes names as prose.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// absurd is more GPUs, or slices of them, than any node has.
const absurd = 1000

func (r *review) gpuAmount(c *Container) {
	for _, a := range c.Limits {
		if a.Value >= absurd && countsDevices(a.Name) {
			r.sayOf(c, ".resources.limits["+a.Name+"]", 0, "asks for "+strconv.FormatFloat(a.Value, 'f', -1, 64)+" of "+a.Name+": no node has as many")
			return
		}
	}
}

// countsDevices tells GPUs and slices from amounts of memory or compute.
func countsDevices(name string) bool {
	return strings.HasPrefix(name, model.NvidiaGPU) && !strings.HasPrefix(name, "nvidia.com/gpumem") && !strings.HasPrefix(name, "nvidia.com/gpucores") ||
		strings.HasPrefix(name, "nvidia.com/mig-") || name == "amd.com/gpu"
}

func (r *review) podLevel() {
	for _, a := range r.pod.Resources {
		if model.IsGPU(a.Name) {
			r.say("resources.limits["+a.Name+"]", "the pod asks for "+a.Name+" in spec.resources, which takes only cpu, memory and hugepages")
			return
		}
	}
}

func (r *review) mixed() {
	whole, share := "", ""
	for i := range r.pod.Containers {
		for _, a := range r.pod.Containers[i].Limits {
			switch {
			case a.Value <= 0:
			case a.Name == "aliyun.com/gpu-mem":
				share = a.Name
			case countsDevices(a.Name):
				whole = a.Name
			}
		}
	}
	if whole != "" && share != "" {
		r.say("containers", "the pod asks for "+whole+" and "+share+", which two schedulers count apart")
	}
}

func (r *review) aboveOne(c *Container) {
	for _, a := range c.Limits {
		if most, ok := r.facts.MaxRequest[a.Name]; ok && a.Value > float64(most) {
			r.sayOf(c, ".resources.limits["+a.Name+"]", 0, fmt.Sprintf("asks for %s of %s: the device plugin grants at most %d (failRequestsGreaterThanOne)", a.Text, a.Name, most))
		}
	}
}

func (r *review) notOffered(c *Container) {
	if r.facts.Offered == nil {
		return
	}
	for _, a := range c.Limits {
		slice := strings.HasPrefix(a.Name, "nvidia.com/mig-")
		if a.Value > 0 && countsDevices(a.Name) && !r.facts.Offered[a.Name] && !(slice && r.facts.Offered[AnySlice]) {
			r.sayOf(c, ".resources.limits["+a.Name+"]", 0, "asks for "+a.Name+", which no node and no device config of the input gives")
		}
	}
}
