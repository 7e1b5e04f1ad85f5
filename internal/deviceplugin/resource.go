package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// maxMessage is gRPC's default limit of a message, which the kubelet keeps: a
// longer list of devices is never received.
const maxMessage = 4 << 20

// A Device is one id that the kubelet may hand out.
type Device struct {
	ID    string // "GPU-…", "MIG-…", or "GPU-…::3" for a replica
	UUID  string // of the GPU or the MIG instance behind it
	Index string // the driver's: "0", or "0:1" for a MIG instance
	GPU   string // UUID of the physical GPU
	Place
}

// whole reports whether the device is a GPU as it is: neither cut nor shared.
func (d Device) whole() bool { return d.ID == d.GPU }

// A Place says where a GPU or MIG instance is on the machine.
type Place struct {
	NUMA  []int    // the NUMA node that it is near, none when not known
	Paths []string // device nodes in a container: "/dev/nvidia0", and the capabilities of a MIG instance
}

// A Resource is one extended resource with the devices behind it, in order.
type Resource struct {
	Name       string
	Devices    []Device
	MaxRequest int64 // the most that one container may get, 0 for no limit
	Kind       model.SharingKind
}

// Resources makes the resources of what a node serves. Places are by UUID; a
// device without one has no NUMA node and no device nodes. An error means that
// the kubelet could not receive a list as long as that.
func Resources(n gpu.Node, s gpu.Served, places map[string]Place) ([]Resource, error) {
	byName := map[string]*Resource{}
	for _, u := range s.Units {
		for name := range u.Resources {
			r := byName[name]
			if r == nil {
				r = &Resource{Name: name, MaxRequest: s.MaxRequest[name], Kind: s.Kind}
				byName[name] = r
			}
			for _, id := range u.IDs(name) {
				r.Devices = append(r.Devices, Device{ID: id, UUID: u.UUID, Index: u.Index, GPU: n.GPUs[u.GPU].UUID, Place: places[u.UUID]})
			}
		}
	}
	var out []Resource
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		r := *byName[name]
		if size := proto.Size(r.list(nil)); size > maxMessage {
			return nil, fmt.Errorf("%s: the list of %d devices takes %d bytes and the kubelet receives %d at most; ask for fewer replicas", name, len(r.Devices), size, maxMessage)
		}
		out = append(out, r)
	}
	return out, nil
}

// list is what the kubelet is told: every device, those in out unhealthy.
func (r Resource) list(out map[string]string) *v1beta1.ListAndWatchResponse {
	resp := &v1beta1.ListAndWatchResponse{Devices: make([]*v1beta1.Device, 0, len(r.Devices))}
	for _, d := range r.Devices {
		health := v1beta1.Healthy
		if _, bad := out[d.ID]; bad {
			health = v1beta1.Unhealthy
		}
		told := &v1beta1.Device{ID: d.ID, Health: health}
		for _, node := range d.NUMA {
			if told.Topology == nil {
				told.Topology = &v1beta1.TopologyInfo{}
			}
			told.Topology.Nodes = append(told.Topology.Nodes, &v1beta1.NUMANode{ID: int64(node)})
		}
		resp.Devices = append(resp.Devices, told)
	}
	return resp
}

// socket is the file name of the resource's socket: "nvidia-gpu.sock".
func (r Resource) socket() string {
	_, name, ok := strings.Cut(r.Name, "/")
	if !ok {
		name = r.Name
	}
	return "nvidia-" + name + ".sock"
}

// aligned reports whether devices are chosen by how they are linked: only whole
// GPUs are.
func (r Resource) aligned() bool {
	return !slices.ContainsFunc(r.Devices, func(d Device) bool { return !d.whole() })
}
