package guard

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

var podRules = []Rule{
	{
		Name: "nri-annotation", Severity: model.Error, Row: 13, Title: "GPUs asked for by an annotation that the NRI plugin obeys",
		Doc: "The toolkit's NRI plugin (1.19 and later, cdi.nriPluginEnabled in the GPU Operator) gives a container the CDI devices that the annotation nvidia.cdi.k8s.io names, " +
			"in any namespace; only management.nvidia.com/gpu is kept to some.",
		Fix: "take the annotation away and ask for nvidia.com/gpu in limits", Source: "nvidia-container-toolkit 1.20.2, NRI plugin",
		Except: "the GPU Operator's operands", pod: func(r *review) { r.annotated("nri-annotation") },
	},
	{
		Name: "cdi-annotation", Severity: model.Warning, Row: 12, Title: "devices asked for by a CDI annotation",
		Doc: "A runtime that copies annotations of pods to containers (containerd with pod_annotations, CRI-O with allowed_annotations) gives a container the devices that cdi.k8s.io/ annotations name. " +
			"The kubelet does not copy them, so that on other nodes nothing happens.",
		Fix: "take the annotation away and ask for nvidia.com/gpu in limits", Source: "containerd 2.2, kubelet 1.37 (newContainerAnnotations)",
		pod: func(r *review) { r.annotated("cdi-annotation") },
	},
	{
		Name: "reserved-annotation", Severity: model.Error, Row: 24, Title: "an annotation that only the scheduler may set",
		Doc: "ALIYUN_COM_GPU_MEM annotations say which GPU a pod was assigned. A pod that is created with them takes a GPU that it was not given.",
		Fix: "take the annotation away", Source: "AliyunContainerService/gpushare-scheduler-extender",
		Except: "the scheduler, which sets it later", pod: func(r *review) { r.annotated("reserved-annotation") },
	},
	{
		Name: "runtime-class", Severity: model.Warning, Row: 14, Title: "the NVIDIA runtime without a GPU",
		Doc: "The runtime class of NVIDIA runs the hooks that show GPUs. A pod that asks for no GPU needs it only to see GPUs by its environment or its image.",
		Fix: "drop runtimeClassName, or ask for nvidia.com/gpu in limits", Source: "GPU Operator; nvidia-container-toolkit 1.20.2",
		Except: "exporters, the device plugin, GPU Feature Discovery, HAMi", pod: (*review).runtimeClass,
	},
	{
		Name: "node-name", Severity: model.Warning, Row: 22, Title: "a pod that names its node",
		Doc: "With nodeName a pod skips the scheduler: neither taints nor free GPUs are looked at, and the kubelet refuses it only when devices run out.",
		Fix: "select nodes with nodeSelector or affinity", Source: "Kubernetes 1.37, scheduler",
		Except: "static pods", pod: (*review).nodeName,
	},
	{
		Name: "cpu-pod-on-gpu-node", Severity: model.Warning, Row: 23, Title: "a pod without a GPU that tolerates the GPU nodes' taint",
		Doc: "It can take room on GPU nodes, and keep them from being removed. DaemonSets, which mean it, are left out, and so is a toleration that comes with 0 GPUs (gpu-zero).",
		Fix: "drop the toleration", Source: "Kubernetes 1.37",
		Except: "DaemonSets, log collectors", pod: (*review).cpuPod,
	},
	{
		Name: "daemonset-gpu", Severity: model.Warning, Title: "a DaemonSet that asks for GPUs",
		Doc: "Each of its pods keeps a GPU on every node that it may run on for as long as the node lives, so that every new node comes with one GPU less.",
		Fix: "take the GPU away from it; a monitor sees GPUs by the exemptions of its namespace", Source: "Kubernetes 1.37, DaemonSet controller",
		Except: "benchmarks that are meant to hold GPUs", pod: (*review).daemonGPU,
	},
	{
		Name: "static-pod", Severity: model.Warning, Row: 25, Title: "a static pod that reaches GPUs",
		Doc: "The kubelet starts static pods from files on the node; admission never refuses them. Its picture in the API shows one that asks for GPUs or is written to reach them.",
		Fix: "take the file off the node, and look at who could put it there", Source: "kubelet 1.37; ACK's device plugin was a static pod before 1.32",
		Except: "system pods in kube-system", Sees: ByScan, pod: (*review).staticPod,
	},
}

// annotated reports annotations that a rule is about.
func (r *review) annotated(rule string) {
	for _, a := range r.pod.Annotations {
		var text string
		switch {
		case rule == "nri-annotation" && (a.Key == "nvidia.cdi.k8s.io" || strings.HasPrefix(a.Key, "nvidia.cdi.k8s.io/")):
			text = fmt.Sprintf("the annotation %s asks the NRI plugin for %s", a.Key, a.Value)
		case rule == "cdi-annotation" && strings.HasPrefix(a.Key, "cdi.k8s.io/"):
			text = fmt.Sprintf("the annotation %s asks for %s, which some runtimes obey", a.Key, a.Value)
		case rule == "reserved-annotation" && strings.HasPrefix(a.Key, "ALIYUN_COM_GPU_MEM") && !r.pod.Live:
			text = fmt.Sprintf("the annotation %s is for the scheduler to set: it says which GPU the pod was given", a.Key)
		default:
			continue
		}
		r.add(Finding{Place: r.at(r.pod.metadata()+".annotations["+a.Key+"]", 0), Text: text, Fix: r.rule.Fix})
	}
}

// metadata is the path of the pod's metadata.
func (p *Pod) metadata() string { return strings.TrimSuffix(p.Place.Field, "spec") + "metadata" }

func (r *review) runtimeClass() {
	if r.nvidiaRuntime() && !r.gpu {
		text := "the pod runs under the runtime class " + r.pod.RuntimeClass
		if h := r.facts.Handlers[r.pod.RuntimeClass]; h != "" && h != r.pod.RuntimeClass {
			text += ", which is " + h + ","
		}
		r.say("runtimeClassName", text+" and asks for no GPU")
	}
}

func (r *review) nodeName() {
	if r.pod.NodeName != "" && !r.pod.Live && !r.pod.Static {
		r.say("nodeName", "the pod names its node "+r.pod.NodeName+": it skips the scheduler, taints and free GPUs")
	}
}

func (r *review) cpuPod() {
	what := tolerated(r.pod.Tolerations)
	if what == "" || r.gpu || r.pod.DaemonSet || r.pod.Static || len(r.pod.zeroGPUs()) > 0 {
		return
	}
	r.say("tolerations", "the pod asks for no GPU and tolerates "+what+": it can take room on GPU nodes")
}

func (r *review) daemonGPU() {
	if !r.pod.DaemonSet || !r.gpu {
		return
	}
	for i := range r.pod.Containers {
		if c := &r.pod.Containers[i]; c.asksGPU() {
			r.sayOf(c, ".resources", 0, "of a DaemonSet asks for a GPU: it keeps one on every node")
		}
	}
}

func (r *review) staticPod() {
	if r.pod.Static && (r.aims || len(Refused(r.found)) > 0) {
		r.say("nodeName", "a static pod reaches GPUs: no admission is asked about it")
	}
}
