package deviceplugin

import (
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A state is all that one server answers from. It is replaced as a whole and
// never changed.
type state struct {
	resource Resource
	options  Options
	links    Links
	withheld map[string]string // ids not to be handed out although well, and why
	byID     map[string]int
	list     *v1beta1.ListAndWatchResponse
}

// newState joins a resource with what is known of its devices: those that are
// sick, by UUID, and those that are withheld, by id.
func newState(r Resource, o Options, links Links, sick, withheld map[string]string) *state {
	s := &state{resource: r, options: o, links: links, withheld: withheld, byID: make(map[string]int, len(r.Devices))}
	out := map[string]string{}
	for i, d := range r.Devices {
		s.byID[d.ID] = i
		if why, bad := sick[d.UUID]; bad {
			out[d.ID] = why
		}
		if why, held := withheld[d.ID]; held {
			out[d.ID] = why
		}
	}
	s.list = r.list(out)
	return s
}

// find returns the devices of some ids, in their order; unknown is the first id
// that is none.
func (s *state) find(ids []string) (devices []Device, unknown string) {
	for _, id := range ids {
		i, ok := s.byID[id]
		if !ok {
			return nil, id
		}
		devices = append(devices, s.resource.Devices[i])
	}
	return devices, ""
}
