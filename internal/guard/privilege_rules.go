package guard

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

var privilegeRules = []Rule{
	{
		Name: "privileged", Severity: model.Error, Row: 6, PodSecurity: true, Title: "a privileged container that is written to land on GPU nodes",
		Doc: "A privileged container sees all devices of its node, GPUs among them, with or without a limit, and no runtime can isolate it. This is refused where the pod asks for GPUs, " +
			"tolerates the taint of GPU nodes, selects them, takes their runtime class, names its node, or mounts their devices.",
		Fix: "drop privileged; a GPU needs only its limit", Source: "Kubernetes 1.37; on ACK's list of what must not be done",
		Except: "the device plugin, drivers, validators, the MIG manager, node-problem-detector, CNI and CSI DaemonSets", pod: func(r *review) { r.each(r.privileged) },
	},
	{
		Name: "privileged-anywhere", Severity: model.Warning, Row: 6, PodSecurity: true, Title: "a privileged container that could land on a GPU node without a taint",
		Doc:    "As privileged, for a pod that does not say that it wants GPU nodes: it lands on one where GPU nodes have no taint that keeps it off.",
		Fix:    "drop privileged, or taint the GPU nodes",
		Source: "Kubernetes 1.37", Except: "builders and the like on nodes without GPUs", pod: func(r *review) { r.each(r.privilegedAnywhere) },
	},
	{
		Name: "sys-admin-gpu-env", Severity: model.Error, Row: 7, PodSecurity: true, Title: "SYS_ADMIN beside GPUs named in the environment",
		Doc: "The toolkit takes a container with SYS_ADMIN for a privileged one, so that the variables that name GPUs work even on nodes that refuse them to others " +
			"(accept-nvidia-visible-devices-envvar-when-unprivileged=false).",
		Fix: "drop the capability, or the variable", Source: "nvidia-container-toolkit 1.20.2, internal/config/image/privileged.go; run",
		Except: "DCGM exporter, and the device plugin and GPU Feature Discovery on MIG nodes", pod: func(r *review) { r.each(r.sysAdminEnv) },
	},
	{
		Name: "sys-admin", Severity: model.Warning, Row: 7, PodSecurity: true, Title: "a container with SYS_ADMIN",
		Doc: "By itself the capability shows no GPU, but any image that sets NVIDIA_VISIBLE_DEVICES then shows its GPUs even on hardened nodes.",
		Fix: "drop the capability, or set NVIDIA_VISIBLE_DEVICES: void", Source: "nvidia-container-toolkit 1.20.2, internal/config/image/privileged.go; run",
		Except: "DCGM exporter; FUSE mounts", pod: func(r *review) { r.each(r.sysAdmin) },
	},
	{
		Name: "ephemeral-privileged", Severity: model.Error, Row: 20, PodSecurity: true, Title: "a privileged debug container",
		Doc: "kubectl debug --profile=sysadmin adds a container that sees all devices of the node. Debug containers can have no resources, so that none of them can use a GPU legitimately.",
		Fix: "debug with --profile=general or restricted", Source: "Kubernetes 1.37, ephemeral containers",
		Except: "people who may break the glass, by a namespace that is exempt", pod: func(r *review) { r.each(r.ephemeralPrivileged) },
	},
	{
		Name: "host-pid-privileged", Severity: model.Error, Row: 19, PodSecurity: true, Title: "the node's processes with the right to enter them",
		Doc: "With hostPID and a privileged container, SYS_ADMIN or SYS_PTRACE, nsenter puts a process into any other on the node, those that hold GPUs among them.",
		Fix: "drop hostPID or the capability", Source: "Kubernetes 1.37",
		Except: "node-problem-detector, drivers, the MPS control daemon", pod: func(r *review) { r.hostPID(true) },
	},
	{
		Name: "host-pid", Severity: model.Info, Row: 19, PodSecurity: true, Title: "the node's processes",
		Doc: "With hostPID a pod sees the processes that hold GPUs, and can end those of its own user.",
		Fix: "drop hostPID", Source: "Kubernetes 1.37", Except: "node exporters and the like", pod: func(r *review) { r.hostPID(false) },
	},
	{
		Name: "host-ipc", Severity: model.Warning, Row: 19, PodSecurity: true, Title: "the node's shared memory",
		Doc: "With hostIPC a pod can talk to the node's MPS control daemon, and so use GPUs that it did not ask for.",
		Fix: "drop hostIPC; for shared memory between containers mount an emptyDir of medium Memory at /dev/shm", Source: "NVIDIA MPS documentation; Kubernetes 1.37",
		Except: "the MPS control daemon", pod: (*review).hostIPC,
	},
}

func (r *review) privileged(c *Container) {
	if c.Privileged && r.aims && !c.ephemeral() {
		r.sayOf(c, ".securityContext.privileged", 0, "is privileged: it sees every GPU of a GPU node, whatever it asks for")
	}
}

func (r *review) privilegedAnywhere(c *Container) {
	if c.Privileged && !r.aims && !c.ephemeral() {
		r.sayOf(c, ".securityContext.privileged", 0, "is privileged: on a GPU node without a taint it sees every GPU")
	}
}

// showsGPUs reports whether the variables of a container, or the name of its
// image, show it GPUs.
func (r *review) showsGPUs(c *Container) bool {
	s, ok := r.environment(c)[VisibleDevices]
	if ok {
		return !s.known || !Harmless(s.text)
	}
	return r.legacy(c)
}

func (r *review) sysAdminEnv(c *Container) {
	if c.sysAdmin() && !c.Privileged && r.showsGPUs(c) {
		r.sayOf(c, ".securityContext.capabilities.add", 0, "has SYS_ADMIN and names GPUs in its environment: it gets them even on nodes that refuse this to unprivileged containers")
	}
}

func (r *review) sysAdmin(c *Container) {
	if !c.sysAdmin() || c.Privileged || c.ephemeral() || r.showsGPUs(c) {
		return
	}
	if _, _, pinned := c.env(VisibleDevices); !pinned {
		r.sayOf(c, ".securityContext.capabilities.add", 0, "has SYS_ADMIN: an image that names GPUs then gets them even on nodes that refuse this to unprivileged containers")
	}
}

func (r *review) ephemeralPrivileged(c *Container) {
	if c.ephemeral() && (c.Privileged || c.sysAdmin()) {
		r.sayOf(c, ".securityContext", 0, "debugs with all rights: it sees every GPU of its node")
	}
}

func (r *review) hostPID(enters bool) {
	if !r.pod.HostPID {
		return
	}
	able := slices.ContainsFunc(r.pod.Containers, func(c Container) bool { return c.Privileged || c.sysAdmin() || c.hasCap("SYS_PTRACE") })
	switch {
	case able && enters:
		r.say("hostPID", "the pod sees the node's processes and may enter them, those that hold GPUs among them")
	case !able && !enters:
		r.say("hostPID", "the pod sees the node's processes, those that hold GPUs among them")
	}
}

func (r *review) hostIPC() {
	if r.pod.HostIPC {
		r.say("hostIPC", "the pod shares the node's memory segments, by which the MPS control daemon hands out GPUs")
	}
}
