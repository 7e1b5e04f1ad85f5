package guard

import (
	"fmt"

	"github.com/kerfdev/kerf/internal/model"
)

var volumeRules = []Rule{
	{
		Name: "host-devices", Severity: model.Warning, Row: 8, PodSecurity: true, Title: "the node's GPU devices or driver files",
		Doc: "A mount of /dev, of a GPU's device file or of the driver's folders. The device cgroup keeps an unprivileged container from opening the device, " +
			"a privileged one opens it (which privileged refuses).",
		Fix: "take the volume away and ask for nvidia.com/gpu in limits", Source: "Kubernetes 1.37; Linux device cgroup",
		Except: "driver containers, validators, node-problem-detector", pod: func(r *review) { r.mounts("host-devices") },
	},
	{
		Name: "device-list-mount", Severity: model.Error, Row: 9, PodSecurity: true, Title: "GPUs asked for by a mount",
		Doc: "Where the toolkit takes its device list from mounts, /dev/null mounted at /var/run/nvidia-container-devices/ID shows the GPU ID, and at .../cdi/VENDOR/CLASS/NAME any CDI device. " +
			"The kubelet adds such mounts for the device plugin itself; no pod needs to.",
		Fix: "take the mount away and ask for nvidia.com/gpu in limits", Source: toolkitImage + " (requestsFromMounts)",
		pod: func(r *review) { r.each(r.deviceList) },
	},
	{
		Name: "kubelet-sockets", Severity: model.Error, Row: 10, PodSecurity: true, Title: "the kubelet's device plugin sockets",
		Doc: "Whoever can write to /var/lib/kubelet/device-plugins can register a plugin of its own for nvidia.com/gpu, read who holds which device, and ask the real plugin for more.",
		Fix: "take the volume away", Source: "kubelet 1.37, device manager",
		Except: "device plugins, DRA plugins, CSI drivers", pod: func(r *review) { r.mounts("kubelet-sockets") },
	},
	{
		Name: "pod-resources", Severity: model.Info, Row: 10, PodSecurity: true, Title: "the kubelet's list of who holds which device",
		Doc: "/var/lib/kubelet/pod-resources tells which pod has which GPU. It gives none.",
		Fix: "", Source: "kubelet 1.37, pod resources API",
		Except: "DCGM exporter and other monitors", pod: func(r *review) { r.mounts("pod-resources") },
	},
	{
		Name: "runtime-files", Severity: model.Error, Row: 11, PodSecurity: true, Title: "the container runtime's socket or configuration",
		Doc: "With the runtime's socket a pod starts containers of its own, with GPUs and without the API server. In the folders of CDI and of the NVIDIA toolkit it can write that any " +
			"container is given any device. Folders that are of use only to who can write may be mounted read-only.",
		Fix: "take the volume away", Source: "containerd 2.2, CRI-O, NRI 0.12, CDI 1.1; docker run --gpus is on ACK's list of what must not be done",
		Except: "the NVIDIA toolkit, the device plugin, DRA drivers, CNI and CSI DaemonSets", pod: func(r *review) { r.mounts("runtime-files") },
	},
	{
		Name: "host-root", Severity: model.Error, Row: 11, PodSecurity: true, Title: "a folder of the node that holds all of these, writable",
		Doc: "/, /etc, /run, /var and /var/lib hold the runtime's sockets, the CDI folder or the kubelet's sockets.",
		Fix: "mount the one folder that is needed, read-only", Source: "as runtime-files and kubelet-sockets",
		Except: "CNI installers, host agents", pod: func(r *review) { r.mounts("host-root") },
	},
	{
		Name: "host-root-read-only", Severity: model.Info, Row: 11, PodSecurity: true, Title: "a folder of the node that holds all of these, read-only",
		Doc: "As host-root. Read-only keeps a pod from writing files, not from connecting to sockets, for which it must be root.",
		Fix: "mount the folder that is needed", Source: "Linux: a read-only mount does not keep from connecting to a socket",
		Except: "node exporters", pod: func(r *review) { r.mounts("host-root-read-only") },
	},
	{
		Name: "mps-pipe", Severity: model.Warning, Row: 19, PodSecurity: true, Title: "the pipes of the MPS control daemon",
		Doc: "/run/nvidia/mps leads to the daemon that shares GPUs by MPS. The device plugin mounts what a container needs of it by itself.",
		Fix: "take the volume away and ask for the shared resource", Source: "k8s-device-plugin 0.20.0",
		Except: "the MPS control daemon and the device plugin", pod: func(r *review) { r.mounts("mps-pipe") },
	},
}

// An access is how the containers of a pod mount one volume.
type access struct{ reads, writes bool }

// readOnly reports whether every mount of a volume is read-only; a volume that
// nothing mounts is not.
func (r *review) readOnly(volume string) bool {
	if r.mounted == nil {
		r.mounted = map[string]access{}
		r.each(func(c *Container) {
			for _, m := range c.Mounts {
				a := r.mounted[m.Volume]
				r.mounted[m.Volume] = access{reads: a.reads || m.ReadOnly, writes: a.writes || !m.ReadOnly}
			}
		})
	}
	a := r.mounted[volume]
	return a.reads && !a.writes
}

// mounts reports the volumes that reach what a rule is about.
func (r *review) mounts(rule string) {
	for i, v := range r.pod.Volumes {
		if v.Kind != "hostPath" || reachOf(v.HostPath, r.readOnly(v.Name)) != rule {
			continue
		}
		text := fmt.Sprintf("volume %s is %s of the node", v.Name, v.HostPath)
		switch rule {
		case "host-devices":
			text += ": it shows the GPUs of a GPU node, or what runs them"
		case "kubelet-sockets":
			text += ": it leads to the sockets by which the kubelet hands out devices"
		case "pod-resources":
			text += ": it tells which pod holds which device"
		case "runtime-files":
			text += ": who has it can give GPUs to any container"
		case "host-root":
			text += ", writable: it holds the sockets and files by which GPUs are given out"
		case "host-root-read-only":
			text += ", read-only: it holds the sockets by which GPUs are given out"
		case "mps-pipe":
			text += ": it leads to the daemon that shares GPUs"
		}
		r.say(fmt.Sprintf("volumes[%d]", i), text)
	}
}

// plain are kinds of volumes whose mount has a source of its own on the node,
// never /dev/null.
var plain = map[string]bool{"emptyDir": true, "configMap": true, "secret": true, "downwardAPI": true, "projected": true}

func (r *review) deviceList(c *Container) {
	for i, m := range c.Mounts {
		if asksByMount(m.Path) && r.special(m.Volume) {
			r.sayOf(c, fmt.Sprintf(".volumeMounts[%d]", i), 0, "mounts "+m.Path+": the runtime takes such a mount for a demand for GPUs")
		}
	}
}

// special reports whether a volume of a name may be /dev/null of the node.
func (r *review) special(name string) bool {
	if r.specials == nil {
		r.specials = map[string]bool{}
		for _, v := range r.pod.Volumes {
			r.specials[v.Name] = r.specials[v.Name] || !plain[v.Kind]
		}
	}
	return r.specials[name]
}
