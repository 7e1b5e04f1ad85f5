package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/model"
)

// A State is how an instance is, by EC2's names.
type State string

// The states of an instance. One that is gone is not listed any more.
const (
	Running      State = "running"
	ShuttingDown State = "shutting-down"
	terminated   State = "terminated"
)

// An Instance is a machine that was launched and is billed.
type Instance struct {
	ID           string // "i-" and 17 hexadecimal digits
	ProviderID   string // "sim:///us-east-1a/i-..."
	Number       int    // of the launch, from 1
	Claim        string // name of the NodeClaim
	Node         string // name that its Node has or will have
	Pool         string
	Type         string
	Zone         string
	CapacityType string
	Price        float64 // $/h
	Launched     time.Time
	State        State
}

const providerPrefix = "sim:///"

// machine is an instance with what only the simulation knows of it.
type machine struct {
	Instance
	uid       types.UID // of the NodeClaim
	labels    map[string]string
	taints    []corev1.Taint
	startup   []corev1.Taint
	class     string // hash of the node class at launch
	kubelet   model.Kubelet
	fate      Fate
	drift     cloudprovider.DriftReason
	dead      bool      // heartbeats have stopped
	broken    bool      // GPUs broke while it ran
	noticed   time.Time // of an interruption
	warned    bool      // its NodeClaim was deleted for it
	ends      time.Time // when it will be gone; zero = it stays
	readyAt   time.Time // when its node became Ready
	pluginAt  time.Time // when the plugin's pod started on it
	madeAt    time.Time // when its kubelet made its Node
	node      types.UID // of its Node, "" until it registered
	forgotten bool      // its Node was deleted under it
}

// alive reports whether its kubelet works.
func (m *machine) alive() bool { return m.State == Running && !m.dead }

// Instances lists what is running or shutting down, in the order of launch.
func (s *Simulated) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Instance
	for _, m := range s.machines {
		if m.State != terminated {
			out = append(out, m.Instance)
		}
	}
	slices.SortFunc(out, func(a, b Instance) int { return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.ID, b.ID)) })
	return out
}

// look returns a copy of a machine. Its maps are never written to.
func (s *Simulated) look(id string) (machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.machines[id]
	if !ok {
		return machine{}, false
	}
	return *m, true
}

// lookNode returns a copy of the machine behind a node.
func (s *Simulated) lookNode(name string) (machine, bool) {
	s.mu.Lock()
	id, ok := s.byNode[name]
	s.mu.Unlock()
	if !ok {
		return machine{}, false
	}
	return s.look(id)
}

// change alters a machine, if it is still there, and has it looked after.
func (s *Simulated) change(id string, f func(*machine)) bool {
	s.mu.Lock()
	m, ok := s.machines[id]
	if ok {
		f(m)
	}
	wake := s.wake
	s.mu.Unlock()
	if ok {
		wake(id, 0)
	}
	return ok
}

// add takes a machine into the books. The caller holds the lock.
func (s *Simulated) add(m *machine) {
	s.launches++
	m.Number = s.launches
	s.machines[m.ID] = m
	s.byNode[m.Node] = m.ID
}

// idOf is the instance of a NodeClaim, whoever launches it and however often.
func idOf(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return "i-" + hex.EncodeToString(sum[:])[:17]
}

// idIn is the instance id in a provider id of this cloud.
func idIn(providerID string) (string, bool) {
	rest, ok := strings.CutPrefix(providerID, providerPrefix)
	if !ok {
		return "", false
	}
	_, id, ok := strings.Cut(rest, "/")
	return id, ok
}

// Get returns the instance as a NodeClaim. Once it is gone the error is a
// NodeClaimNotFoundError.
func (s *Simulated) Get(ctx context.Context, providerID string) (*karpenter.NodeClaim, error) {
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	m, err := s.find(providerID)
	if err != nil {
		return nil, err
	}
	return s.claimOf(&m), nil
}

func (s *Simulated) find(providerID string) (machine, error) {
	if id, ok := idIn(providerID); ok {
		if m, ok := s.look(id); ok && m.State != terminated {
			return m, nil
		}
	}
	return machine{}, cloudprovider.NewNodeClaimNotFoundError(fmt.Errorf("no instance has the provider id %q", providerID))
}

// List returns every instance as a NodeClaim; those that shut down carry a
// deletion timestamp.
func (s *Simulated) List(ctx context.Context) ([]*karpenter.NodeClaim, error) {
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	var out []*karpenter.NodeClaim
	for _, i := range s.Instances() {
		if m, ok := s.look(i.ID); ok {
			out = append(out, s.claimOf(&m))
		}
	}
	return out, nil
}

// Delete starts to shut an instance down; once it is gone the error is a
// NodeClaimNotFoundError.
func (s *Simulated) Delete(ctx context.Context, claim *karpenter.NodeClaim) error {
	if err := s.recover(ctx); err != nil {
		return err
	}
	m, err := s.find(claim.Status.ProviderID)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	if m.State == ShuttingDown && !now.Before(m.ends) || s.delays.Terminate == 0 {
		s.end(m.ID)
		return cloudprovider.NewNodeClaimNotFoundError(errors.New("instance terminated"))
	}
	if m.State == Running {
		s.change(m.ID, func(m *machine) { m.State, m.ends = ShuttingDown, now.Add(s.delays.Terminate) })
	}
	return nil
}

// end makes an instance gone.
func (s *Simulated) end(id string) {
	s.change(id, func(m *machine) { m.State = terminated })
}

// IsDrifted reports NodeClassDrift when the spec of the node class differs from
// that at launch, or what Faults.Drift set.
func (s *Simulated) IsDrifted(ctx context.Context, claim *karpenter.NodeClaim) (cloudprovider.DriftReason, error) {
	if err := s.recover(ctx); err != nil {
		return "", err
	}
	m, err := s.find(claim.Status.ProviderID)
	if err != nil {
		return "", err
	}
	if m.drift != "" {
		return m.drift, nil
	}
	if claim.Spec.NodeClassRef == nil {
		return "", nil
	}
	c, err := s.class(ctx, claim.Spec.NodeClassRef)
	if err != nil {
		return "", fmt.Errorf("resolve node class of nodeclaim %s: %w", claim.Name, err)
	}
	if was := claim.Annotations[ClassHashAnnotation]; was != "" && was != c.hash {
		return "NodeClassDrift", nil
	}
	return "", nil
}

// ClassHashAnnotation keeps on a NodeClaim a hash of its node class's spec at launch.
const ClassHashAnnotation = "kerf.dev/nodeclass-hash"

// claimOf is an instance in the form in which Karpenter wants to hear of it.
func (s *Simulated) claimOf(m *machine) *karpenter.NodeClaim {
	out := &karpenter.NodeClaim{}
	out.Name = m.Claim
	out.Labels = maps.Clone(m.labels)
	out.CreationTimestamp.Time = m.Launched
	if m.class != "" {
		out.Annotations = map[string]string{ClassHashAnnotation: m.class}
	}
	if m.State != Running {
		ends := out.CreationTimestamp
		ends.Time = m.ends
		out.DeletionTimestamp = &ends
	}
	out.Status.ProviderID, out.Status.ImageID = m.ProviderID, "ami-simulated"
	if t, ok := s.shelf.kubernetesType(m.Type, m.kubelet); ok {
		out.Status.Capacity, out.Status.Allocatable = present(t.Capacity), present(t.Allocatable())
	}
	return out
}

// present leaves the resources out of which there is nothing.
func present(r corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range r {
		if !q.IsZero() {
			out[name] = q.DeepCopy()
		}
	}
	return out
}
