package guard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

const toolkitImage = "nvidia-container-toolkit 1.20.2, internal/config/image, run"

var envRules = []Rule{
	{
		Name: "env-visible-devices", Severity: model.Error, Row: 1, Title: "a container names its GPUs in NVIDIA_VISIBLE_DEVICES",
		Doc: "The runtime shows a container the GPUs that this variable names, whatever it asked for. That is so beside a GPU limit too: the variables of the device plugin come first, " +
			"those of the pod after, and the last one counts. Only none, void and the empty value name no GPU; names are case-sensitive and blanks around them do not matter.",
		Fix:    "take it away and ask for nvidia.com/gpu in limits",
		Source: toolkitImage + "; kubelet 1.37, kubelet_pods.go; on ACK's list of what must not be done",
		Except: "the device plugin, GPU Feature Discovery, DCGM and its exporter, the GPU Operator's operands, node agents",
		pod:    func(r *review) { r.each(r.visibleDevices) },
	},
	{
		Name: "env-visible-devices-from", Severity: model.Error, Row: 2, Title: "NVIDIA_VISIBLE_DEVICES comes from elsewhere",
		Doc: "The variable is taken from a ConfigMap, a Secret or a field, or refers to a variable that is not known. Whoever writes that decides which GPUs the container sees, " +
			"and nobody can tell from the pod which these are.",
		Fix:    "take it away and ask for nvidia.com/gpu in limits",
		Source: toolkitImage + "; kubelet 1.37, makeEnvironmentVariables",
		pod:    func(r *review) { r.each(r.visibleDevicesFrom) },
	},
	{
		Name: "env-from-devices", Severity: model.Error, Row: 3, Title: "a ConfigMap or Secret brings in variables that show GPUs",
		Doc: "envFrom turns every key of a ConfigMap or Secret into a variable, with its prefix before it. One of them sets NVIDIA_VISIBLE_DEVICES or CUDA_VERSION, " +
			"with the same effect as if the pod did. It is seen where the ConfigMap or Secret is known.",
		Fix:    "take the key out of it, or set NVIDIA_VISIBLE_DEVICES: void in env, which comes after envFrom",
		Source: toolkitImage + "; kubelet 1.37, makeEnvironmentVariables", Sees: ByWebhook,
		pod: func(r *review) { r.each(r.devicesFrom) },
	},
	{
		Name: "env-from-prefix", Severity: model.Warning, Row: 3, Title: "envFrom has a prefix that completes the name of NVIDIA_VISIBLE_DEVICES",
		Doc: "With the prefix NVIDIA_ the key VISIBLE_DEVICES becomes the variable that shows GPUs. What the keys are cannot be seen from the pod, and few programs need such a prefix.",
		Fix: "drop the prefix, or set NVIDIA_VISIBLE_DEVICES: void in env, which comes after envFrom", Source: "kubelet 1.37, makeEnvironmentVariables",
		pod: func(r *review) { r.each(r.prefix) },
	},
	{
		Name: "env-cuda-version", Severity: model.Error, Row: 4, Title: "CUDA_VERSION shows a container every GPU",
		Doc: "The runtime takes a container with CUDA_VERSION and without NVIDIA_REQUIRE_CUDA for one of an old CUDA image and shows it every GPU, unless NVIDIA_VISIBLE_DEVICES is set. " +
			"With a limit of NVIDIA GPUs it is harmless, as the device plugin then sets that variable; with a resource claim it is not.",
		Fix: "rename the variable, or set NVIDIA_VISIBLE_DEVICES: void beside it", Source: toolkitImage + " (IsLegacy)",
		pod: func(r *review) { r.each(r.cudaVersion) },
	},
	{
		Name: "env-mig-devices", Severity: model.Error, Row: 15, Title: "a container names MIG devices to manage",
		Doc: "NVIDIA_MIG_CONFIG_DEVICES and NVIDIA_MIG_MONITOR_DEVICES ask for the capability to change or watch the MIG layout of GPUs. Without SYS_ADMIN the container fails to start, " +
			"with it it reaches every GPU.",
		Fix: "take it away; leave MIG to mig-parted's DaemonSet", Source: "nvidia-container-toolkit 1.20.2",
		Except: "the MIG manager; the device plugin, GPU Feature Discovery and DCGM on MIG nodes", pod: func(r *review) { r.each(r.migDevices) },
	},
	{
		Name: "env-extra-devices", Severity: model.Warning, Row: 16, Title: "a container without a GPU asks for devices beside GPUs",
		Doc: "IMEX channels, GDS, MOFED, NVSwitch and GDRCopy devices are shown to a container that sees a GPU. DOCKER_RESOURCE_ variables name GPUs where the node's toolkit is configured so.",
		Fix: "take it away, or ask for nvidia.com/gpu in limits", Source: "nvidia-container-toolkit 1.20.2",
		Except: "jobs over multi-node NVLink that ask for GPUs by other means", pod: func(r *review) { r.each(r.extraDevices) },
	},
	{
		Name: "env-driver-capabilities", Severity: model.Info, Row: 17, Title: "a container asks for more of the driver than computing",
		Doc: "NVIDIA_DRIVER_CAPABILITIES with all, graphics, display or ngx mounts more driver libraries into the container. It shows no further GPU, but widens what an attacker can try.",
		Fix: "ask for compute,utility, and for what the program needs beside them", Source: "nvidia-container-toolkit 1.20.2",
		Except: "rendering", pod: func(r *review) { r.each(r.driverCapabilities) },
	},
	{
		Name: "env-preload", Severity: model.Warning, Row: 18, Title: "LD_PRELOAD or LD_AUDIT in a container that gets the NVIDIA runtime",
		Doc: "Hooks of the container toolkit up to 1.17.7 inherit the container's environment and run as root on the node, so that LD_PRELOAD is a way out of the container (CVE-2025-23266).",
		Fix: "upgrade the toolkit to 1.17.8 or later, and load the library in the program's start script", Source: "NVIDIA bulletin on CVE-2025-23266; GPU Operator 25.3.1",
		Except: "programs that load an allocator this way", pod: func(r *review) { r.each(r.preload) },
	},
	{
		Name: "env-library-path", Severity: model.Info, Row: 18, Title: "LD_LIBRARY_PATH in a container that gets the NVIDIA runtime",
		Doc: "As env-preload, and far more common: images of many frameworks set it.",
		Fix: "upgrade the toolkit to 1.17.8 or later", Source: "NVIDIA bulletin on CVE-2025-23266",
		Except: "nearly every framework", pod: func(r *review) { r.each(r.libraryPath) },
	},
	{
		Name: "gpu-image", Severity: model.Info, Row: 5, Title: "a container without a GPU runs an image that shows every GPU by itself",
		Doc: "Images that are built on nvidia/cuda set NVIDIA_VISIBLE_DEVICES to all. On a GPU node such a container sees every GPU though it asks for none. " +
			"The image cannot be seen from the pod; this goes by well-known names. The mutation sets the variable to void for containers that ask for no GPU.",
		Fix: "set NVIDIA_VISIBLE_DEVICES: void, or use an image without CUDA", Source: "nvidia/cuda Dockerfiles; on ACK's list of what must not be done",
		Except: "exporters and plugins that see GPUs by their image", pod: func(r *review) { r.each(r.gpuImage) },
	},
}

func (r *review) visibleDevices(c *Container) {
	s, ok := r.environment(c)[VisibleDevices]
	if !ok || s.index < 0 || refers(c.Env[s.index]) || Harmless(s.text) {
		return
	}
	effect := "it uses GPUs of its node that it did not ask for and that others are given"
	if c.asksGPU() {
		effect = "it sees those GPUs rather than the ones it is given for its limit"
	}
	r.sayOf(c, fmt.Sprintf(".env[%d]", s.index), c.Env[s.index].Line, fmt.Sprintf("sets %s to %s: %s", VisibleDevices, s.text, effect))
	switch {
	case c.ephemeral():
		r.fix("take it away: a debug container can ask for no GPU")
	case c.asksGPU():
		r.fix("take it away: the plugin sets it for a container with a GPU limit")
	}
}

// refers reports whether the value of a variable is made of something else.
func refers(e Env) bool { return e.From != "" || strings.Contains(e.Value, "$(") }

func (r *review) visibleDevicesFrom(c *Container) {
	s, ok := r.environment(c)[VisibleDevices]
	if !ok || s.index < 0 || !refers(c.Env[s.index]) || (s.known && Harmless(s.text)) {
		return
	}
	e := c.Env[s.index]
	text := fmt.Sprintf("sets %s to %s: what that stands for decides which GPUs it sees, whatever it asked for", VisibleDevices, e.Value)
	switch {
	case s.known && s.text != e.Value:
		text = fmt.Sprintf("sets %s to %s, which is %s: it sees those GPUs, whatever it asked for", VisibleDevices, e.Value, s.text)
	case e.From != "":
		text = fmt.Sprintf("takes %s from %s: whoever writes that decides which GPUs it sees, whatever it asked for", VisibleDevices, e.From)
	}
	r.sayOf(c, fmt.Sprintf(".env[%d]", s.index), e.Line, text)
	if c.asksGPU() {
		r.fix("take it away: the plugin sets it for a container with a GPU limit")
	}
}

func (r *review) devicesFrom(c *Container) {
	vars := r.environment(c)
	for _, name := range []string{VisibleDevices, cudaVersion} {
		s, ok := vars[name]
		if !ok || s.index >= 0 || (name == VisibleDevices && Harmless(s.text)) || (name == cudaVersion && !r.legacy(c)) {
			continue
		}
		r.sayOf(c, ".envFrom", 0, fmt.Sprintf("takes %s=%s from %s: it shows GPUs that the container did not ask for", name, s.text, s.from))
	}
}

func (r *review) prefix(c *Container) {
	if _, _, ok := c.env(VisibleDevices); ok {
		return
	}
	for i, e := range c.EnvFrom {
		if e.Prefix == "" || !strings.HasPrefix(VisibleDevices, e.Prefix) {
			continue
		}
		r.sayOf(c, fmt.Sprintf(".envFrom[%d].prefix", i), 0, fmt.Sprintf("puts %s before the keys of %s %s: the key %s would show it GPUs",
			e.Prefix, e.Kind, e.Name, strings.TrimPrefix(VisibleDevices, e.Prefix)))
	}
}

// legacy reports whether the toolkit takes the container for one of an old CUDA
// image and shows it every GPU. A device plugin for NVIDIA's GPUs keeps that from
// happening by setting NVIDIA_VISIBLE_DEVICES; claims and other plugins do not.
func (r *review) legacy(c *Container) bool {
	vars := r.environment(c)
	version, ok := vars[cudaVersion]
	_, pinned := vars[VisibleDevices]
	required, set := vars[requireCUDA]
	return ok && !(version.known && version.text == "") && !pinned && !(set && (!required.known || required.text != "")) && !c.asks(nvidias)
}

func (r *review) cudaVersion(c *Container) {
	s, ok := r.environment(c)[cudaVersion]
	if !ok || s.index < 0 || !r.legacy(c) {
		return
	}
	r.sayOf(c, fmt.Sprintf(".env[%d]", s.index), c.Env[s.index].Line,
		"sets CUDA_VERSION and has no GPU limit: the runtime takes it for an old CUDA image and shows it every GPU of its node")
}

func (r *review) migDevices(c *Container) {
	for _, name := range []string{"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"} {
		if e, i, ok := c.env(name); ok {
			r.sayOf(c, fmt.Sprintf(".env[%d]", i), e.Line,
				fmt.Sprintf("sets %s, which is for MIG management: it fails to start without SYS_ADMIN and reaches every GPU with it", name))
			return
		}
	}
}

// enabling are variables that ask for more devices with the value "enabled".
var enabling = []string{"NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_NVSWITCH"}

func (r *review) extraDevices(c *Container) {
	if c.asksGPU() {
		return
	}
	for i, e := range c.Env {
		if e.Name == "NVIDIA_IMEX_CHANNELS" || strings.HasPrefix(e.Name, "DOCKER_RESOURCE_") || (slices.Contains(enabling, e.Name) && e.Value == "enabled") {
			r.sayOf(c, fmt.Sprintf(".env[%d]", i), e.Line, "sets "+e.Name+", which asks for devices of GPU nodes, and asks for no GPU")
			return
		}
	}
}

func (r *review) driverCapabilities(c *Container) {
	e, i, ok := c.env("NVIDIA_DRIVER_CAPABILITIES")
	if !ok {
		return
	}
	for part := range strings.SplitSeq(e.Value, ",") {
		switch part {
		case "all", "graphics", "display", "ngx":
			r.sayOf(c, fmt.Sprintf(".env[%d]", i), e.Line, "asks for the driver capabilities "+e.Value)
			return
		}
	}
}

func (r *review) preload(c *Container) {
	if !c.asksGPU() && !r.nvidiaRuntime() {
		return
	}
	for i, e := range c.Env {
		if e.Name == "LD_PRELOAD" || e.Name == "LD_AUDIT" {
			r.sayOf(c, fmt.Sprintf(".env[%d]", i), e.Line, "sets "+e.Name+": hooks of a toolkit before 1.17.8 load that library as root on the node")
			return
		}
	}
}

func (r *review) libraryPath(c *Container) {
	e, i, ok := c.env("LD_LIBRARY_PATH")
	if ok && (c.asksGPU() || r.nvidiaRuntime()) {
		r.sayOf(c, fmt.Sprintf(".env[%d]", i), e.Line, "sets LD_LIBRARY_PATH: hooks of a toolkit before 1.17.8 look for libraries there as root")
	}
}

// CUDAImages matches names of images that are known for naming every GPU in
// their environment: those built on nvidia/cuda, by their name or by a tag that
// tells them from a sister without CUDA. It is an expression of RE2, which
// policies use too.
const CUDAImages = `nvidia/cuda[:@]|nvcr\.io/nvidia/(?:cuda|k8s/cuda|pytorch|tensorflow|tritonserver|nemo|rapidsai|jax)|vllm/vllm-openai[:@]|/tritonserver[:@]|text-generation-inference[:@]|lmsysorg/sglang[:@]` +
	`|:[^/]*-(?:gpu|cuda|cu1[123])|:(?:gpu|cuda)[^/]*$`

var cudaImages = regexp.MustCompile(CUDAImages)

func (r *review) gpuImage(c *Container) {
	if c.asksGPU() || !cudaImages.MatchString(c.Image) {
		return
	}
	if _, _, pinned := c.env(VisibleDevices); pinned {
		return
	}
	r.sayOf(c, ".image", 0, "runs "+c.Image+" and asks for no GPU: such images name all GPUs by themselves, so that it sees every GPU of a GPU node")
}
