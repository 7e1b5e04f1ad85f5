package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A Holding is a device that a container has.
type Holding struct {
	Resource string
	ID       string
	Pod      string // "namespace/name"
}

// A Holder knows which devices are in use.
type Holder interface {
	// Holdings lists the devices of every running container. An error means
	// that it cannot be known now.
	Holdings(ctx context.Context) ([]Holding, error)
}

// PodResources asks the kubelet over its pod-resources socket (API v1, GA since
// Kubernetes 1.28).
type PodResources struct{ Socket string }

// Holdings implements Holder.
func (p PodResources) Holdings(ctx context.Context) ([]Holding, error) {
	conn, err := dial(p.Socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	resp, err := v1.NewPodResourcesListerClient(conn).List(ctx, &v1.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet at %s for the devices in use: %w", p.Socket, err)
	}
	var out []Holding
	for _, pod := range resp.PodResources {
		for _, c := range pod.Containers {
			for _, d := range c.Devices {
				for _, id := range d.DeviceIds {
					out = append(out, Holding{Resource: d.ResourceName, ID: id, Pod: pod.Namespace + "/" + pod.Name})
				}
			}
		}
	}
	return out, nil
}

// split takes an id apart: the UUID, and whether it is a replica of it.
func split(id string) (uuid string, replica bool) {
	uuid, _, replica = strings.Cut(id, "::")
	return uuid, replica
}

// strays are the holdings of devices that the plan does not list as they are
// held: they were allocated under another config.
func (p *Plan) strays(held []Holding) []Holding {
	listed := map[[2]string]bool{}
	for _, r := range p.Resources {
		for _, d := range r.Devices {
			listed[[2]string{r.Name, d.ID}] = true
		}
	}
	var out []Holding
	for _, h := range held {
		uuid, _ := split(h.ID)
		if _, here := p.Parents[uuid]; here && !listed[[2]string{h.Resource, h.ID}] {
			out = append(out, h)
		}
	}
	return out
}

// withhold finds the devices that must not be handed out while some are held
// under the names of an earlier config, and says for each who holds it.
//
// A GPU that one container has to itself is withheld whole; so is one that is
// to be handed out whole while containers share it. A container that has one of
// ten replicas takes one of the new replicas with it.
func (p *Plan) withhold(held []Holding) map[string]string {
	inUse, out := map[string]bool{}, map[string]string{}
	for _, h := range held {
		inUse[h.Resource+" "+h.ID] = true
	}
	for _, h := range p.strays(held) {
		uuid, replica := split(h.ID)
		why := fmt.Sprintf("%s still holds %s as %s", h.Pod, h.ID, h.Resource)
		if replica && p.sharedAgain(uuid) {
			p.withholdOne(uuid, why, inUse, out)
			continue
		}
		for _, r := range p.Resources {
			for _, d := range r.Devices {
				if p.overlap(d, uuid) && out[d.ID] == "" {
					out[d.ID] = why
				}
			}
		}
	}
	return out
}

// overlap reports whether a device and the one with a UUID share hardware.
func (p *Plan) overlap(d Device, uuid string) bool {
	return d.UUID == uuid || d.GPU == uuid || d.UUID == p.Parents[uuid]
}

// sharedAgain reports whether what is listed of a device are replicas of it.
func (p *Plan) sharedAgain(uuid string) bool {
	found := false
	for _, r := range p.Resources {
		for _, d := range r.Devices {
			if !p.overlap(d, uuid) {
				continue
			}
			if d.UUID != uuid || d.ID == d.UUID {
				return false
			}
			found = true
		}
	}
	return found
}

// withholdOne withholds the last free replica of a device.
func (p *Plan) withholdOne(uuid, why string, inUse map[string]bool, out map[string]string) {
	for _, r := range p.Resources {
		for _, d := range slices.Backward(r.Devices) {
			if d.UUID == uuid && out[d.ID] == "" && !inUse[r.Name+" "+d.ID] {
				out[d.ID] = why
				return
			}
		}
	}
}
