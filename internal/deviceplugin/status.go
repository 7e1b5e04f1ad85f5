package deviceplugin

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A Status is what a Manager serves at a moment.
type Status struct {
	Config    string // name of the config, "" before the first
	Served    bool   // a plan has been applied
	Resources []ResourceStatus
	Devices   []DeviceStatus
}

// A ResourceStatus counts the devices of a resource.
type ResourceStatus struct {
	Name       string
	Registered bool // with the kubelet, or no kubelet was to be told
	Devices    int
	Healthy    int
	Withheld   int // of the unhealthy ones: they wait for pods of an earlier config
}

// A DeviceStatus is the health of a GPU or MIG instance.
type DeviceStatus struct {
	UUID, Index, GPU string
	Resources        []string // under which it is advertised
	Reason           string   // why it is unhealthy, "" when it is not
}

// Status returns what is served now.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Ready reports as an error what keeps the node's GPUs from pods.
func (m *Manager) Ready() error {
	st := m.Status()
	if !st.Served {
		return errors.New("no device config is applied yet")
	}
	for _, r := range st.Resources {
		if !r.Registered {
			return fmt.Errorf("%s is not registered with the kubelet", r.Name)
		}
	}
	return nil
}

// silence is how long Run may be without a sign of life.
const silence = time.Minute

// Alive reports as an error that Run is stuck or has ended.
func (m *Manager) Alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if quiet := time.Since(m.beat); !m.beat.IsZero() && quiet > silence {
		return fmt.Errorf("the device plugin has not moved for %s", quiet.Round(time.Second))
	}
	return nil
}

// publish makes the status from what Run knows.
func (m *Manager) publish() {
	var st Status
	if m.plan != nil {
		st.Config, st.Served = m.plan.Config, true
		at := map[string]int{}
		for _, r := range m.plan.Resources {
			st.Resources = append(st.Resources, m.resourceStatus(r))
			for _, d := range r.Devices {
				i, seen := at[d.UUID]
				if !seen {
					i = len(st.Devices)
					at[d.UUID] = i
					st.Devices = append(st.Devices, DeviceStatus{UUID: d.UUID, Index: d.Index, GPU: d.GPU, Reason: m.sick[d.UUID]})
				}
				if names := st.Devices[i].Resources; !slices.Contains(names, r.Name) {
					st.Devices[i].Resources = append(names, r.Name)
				}
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status, m.beat = st, time.Now()
}

func (m *Manager) resourceStatus(r Resource) ResourceStatus {
	out := ResourceStatus{Name: r.Name, Devices: len(r.Devices)}
	s := m.servers[r.Name]
	if s == nil {
		return out
	}
	now, _, _ := s.get()
	out.Registered = s.registered || (m.KubeletSocket == "" && s.grpc != nil)
	for _, d := range now.list.Devices {
		if d.Health == v1beta1.Healthy {
			out.Healthy++
		}
		if _, held := now.withheld[d.ID]; held {
			out.Withheld++
		}
	}
	return out
}
