package deviceplugin

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kerfdev/kerf/internal/model"
)

// The ways in which a container gets its devices.
const (
	EnvVar         = "envvar"          // NVIDIA_VISIBLE_DEVICES, read by NVIDIA's runtime
	VolumeMounts   = "volume-mounts"   // the same, as mounts that an image cannot fake
	CDIAnnotations = "cdi-annotations" // names of CDI devices in an annotation
	CDICRI         = "cdi-cri"         // names of CDI devices in the CRI's own field
)

// CDIVendor is the vendor of the CDI kinds that Allocate names:
// "k8s.device-plugin.nvidia.com/gpu".
const CDIVendor = "k8s.device-plugin.nvidia.com"

// mountRoot is where NVIDIA's runtime looks for devices that come as mounts.
const mountRoot = "/var/run/nvidia-container-devices"

// controlNodes are the device nodes that every GPU container needs; one that
// the machine does not have is left out.
var controlNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// Options say how containers get their devices; the zero value is NVIDIA's
// default but for the strategies, of which there must be one.
type Options struct {
	Strategies      []string // of EnvVar, VolumeMounts, CDIAnnotations, CDICRI
	ByIndex         bool     // devices are named by index and not by UUID
	PassDeviceSpecs bool     // also name device nodes, so that the CPU manager's cgroup updates keep them
	DevRoot         string   // root of the device nodes on the host; "" is /
	CDIPrefix       string   // of annotation keys; "" is cdi.k8s.io/
	GDRCopy         bool
	GDS             bool
	MOFED           bool
	IMEXChannels    []int
	MPSRoot         string // host directory of the MPS daemons
	Packed          bool   // fill one shared GPU before the next, and not all alike
	// Exists reports whether the machine has a device node, by its path in a
	// container; nil means that it has all.
	Exists func(path string) bool
}

func (o Options) uses(strategies ...string) bool {
	return slices.ContainsFunc(o.Strategies, func(s string) bool { return slices.Contains(strategies, s) })
}

// check refuses what a container may not get. The texts are those of NVIDIA's
// plugin, which people search for.
func (s *state) check(ids []string) ([]Device, error) {
	devices, unknown := s.find(ids)
	switch {
	case unknown != "":
		return nil, fmt.Errorf("invalid allocation request for %q: invalid request: unknown device: %s", s.resource.Name, unknown)
	case s.resource.MaxRequest > 0 && int64(len(ids)) > s.resource.MaxRequest:
		return nil, fmt.Errorf("invalid allocation request for %q: invalid request: maximum request size for shared resources is %d; found %d", s.resource.Name, s.resource.MaxRequest, len(ids))
	}
	for _, id := range ids {
		if why, ok := s.withheld[id]; ok {
			return nil, fmt.Errorf("invalid allocation request for %q: invalid request: device %s is withheld: %s", s.resource.Name, id, why)
		}
	}
	return devices, nil
}

// answer is what one container gets for its devices.
func (s *state) answer(devices []Device) *v1beta1.ContainerAllocateResponse {
	o, out := s.options, &v1beta1.ContainerAllocateResponse{Envs: map[string]string{}}
	ids := o.names(devices)
	if o.uses(CDIAnnotations, CDICRI) {
		o.cdi(out, ids)
	}
	if s.resource.Kind == model.MPS && slices.ContainsFunc(devices, func(d Device) bool { return d.ID != d.UUID }) {
		o.mps(out, s.resource.Name)
	}
	if !o.uses(EnvVar, VolumeMounts) {
		return out
	}
	if o.uses(EnvVar) {
		out.Envs["NVIDIA_VISIBLE_DEVICES"] = strings.Join(ids, ",")
		if len(o.IMEXChannels) > 0 {
			out.Envs["NVIDIA_IMEX_CHANNELS"] = strings.Join(o.channels(), ",")
		}
	}
	if o.uses(VolumeMounts) {
		o.mounts(out, ids)
	}
	if o.PassDeviceSpecs {
		o.nodes(out, devices)
	}
	for name, on := range map[string]bool{"NVIDIA_GDRCOPY": o.GDRCopy, "NVIDIA_GDS": o.GDS, "NVIDIA_MOFED": o.MOFED} {
		if on {
			out.Envs[name] = "enabled"
		}
	}
	return out
}

// names are what the runtime calls the devices, each once.
func (o Options) names(devices []Device) []string {
	var out []string
	for _, d := range devices {
		name := d.UUID
		if o.ByIndex {
			name = d.Index
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (o Options) channels() []string {
	var out []string
	for _, c := range o.IMEXChannels {
		out = append(out, strconv.Itoa(c))
	}
	return out
}

// cdi names the devices to a runtime that reads CDI specs.
func (o Options) cdi(out *v1beta1.ContainerAllocateResponse, ids []string) {
	var names []string
	add := func(class, name string) { names = append(names, CDIVendor+"/"+class+"="+name) }
	for _, id := range ids {
		add("gpu", id)
	}
	for _, c := range o.channels() {
		add("imex-channel", c)
	}
	for _, extra := range []struct {
		class string
		on    bool
	}{{"gdrcopy", o.GDRCopy}, {"gds", o.GDS}, {"mofed", o.MOFED}} {
		if extra.on {
			add(extra.class, "all")
		}
	}
	if len(names) == 0 {
		return
	}
	if o.uses(CDIAnnotations) {
		prefix := o.CDIPrefix
		if prefix == "" {
			prefix = "cdi.k8s.io/"
		}
		out.Annotations = map[string]string{prefix + "nvidia-device-plugin_" + uuid.NewString(): strings.Join(names, ",")}
	}
	if o.uses(CDICRI) {
		for _, name := range names {
			out.CdiDevices = append(out.CdiDevices, &v1beta1.CDIDevice{Name: name})
		}
	}
}

// mps connects the container to the MPS daemon of the resource.
func (o Options) mps(out *v1beta1.ContainerAllocateResponse, resource string) {
	pipe := path.Join("/mps", resource, "pipe")
	out.Envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe
	out.Mounts = append(out.Mounts,
		&v1beta1.Mount{ContainerPath: pipe, HostPath: path.Join(o.MPSRoot, resource, "pipe")},
		&v1beta1.Mount{ContainerPath: "/dev/shm", HostPath: path.Join(o.MPSRoot, "shm")},
	)
}

// mounts names the devices by mounts, which only the kubelet can add.
func (o Options) mounts(out *v1beta1.ContainerAllocateResponse, ids []string) {
	out.Envs["NVIDIA_VISIBLE_DEVICES"] = mountRoot
	add := func(name string) {
		out.Mounts = append(out.Mounts, &v1beta1.Mount{HostPath: "/dev/null", ContainerPath: path.Join(mountRoot, name)})
	}
	for _, id := range ids {
		add(id)
	}
	for _, c := range o.channels() {
		add(path.Join("imex", c))
	}
}

// nodes names the device nodes, so that the kubelet's own cgroup rules allow them.
func (o Options) nodes(out *v1beta1.ContainerAllocateResponse, devices []Device) {
	root := o.DevRoot
	if root == "" {
		root = "/"
	}
	seen := map[string]bool{}
	add := func(p string) {
		if !seen[p] {
			seen[p] = true
			out.Devices = append(out.Devices, &v1beta1.DeviceSpec{ContainerPath: p, HostPath: path.Join(root, p), Permissions: "rw"})
		}
	}
	for _, p := range controlNodes {
		if o.Exists == nil || o.Exists(p) {
			add(p)
		}
	}
	for _, d := range devices {
		for _, p := range d.Paths {
			add(p)
		}
	}
}
