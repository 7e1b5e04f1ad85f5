package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	karpenterstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/kerfdev/kerf/internal/cloud"
)

// A Once is what a single decision is made on. Client and Cloud are required.
type Once struct {
	Client client.Client
	// Cloud is asked what it sells; nothing is launched.
	Cloud cloudprovider.CloudProvider
	// Configs are the device configs; nil is none.
	Configs cloud.Configs
	// Region as in Config.
	Region string
	Clock  clock.Clock
	Steps  int64
}

// Decide reads the cluster and makes the decision that a controller would make
// which has just started: see Read and Reading.Decide.
func (o Once) Decide(ctx context.Context) error {
	r, err := o.Read(ctx)
	if err != nil {
		return err
	}
	return r.Decide(ctx)
}

// Read reads the cluster, so that the decision itself waits for nothing that a
// running controller would know already.
func (o Once) Read(ctx context.Context) (*Reading, error) {
	p, err := o.provisioner()
	if err != nil {
		return nil, err
	}
	lists := []client.ObjectList{
		&corev1.NamespaceList{}, &storagev1.StorageClassList{}, &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.LimitRangeList{}, &nodev1.RuntimeClassList{}, &appsv1.DaemonSetList{}, &karpenter.NodePoolList{}, &karpenter.NodeClaimList{},
		&corev1.NodeList{}, &corev1.PodList{},
	}
	for _, class := range o.Cloud.GetSupportedNodeClasses() {
		list, err := listOf(class, o.Client.Scheme())
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	for _, list := range lists {
		if err := o.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("read the cluster: %w", err)
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			p.observer.store.Set(object.(client.Object))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the cluster: %w", err)
		}
	}
	return &Reading{p}, nil
}

// A Reading is a cluster as it was read at one moment.
type Reading struct{ provisioner *provisioner }

// Decide plans, and creates the NodeClaims and events of the decision. It
// neither launches nodes nor remembers anything.
func (r *Reading) Decide(ctx context.Context) error {
	p := r.provisioner
	if err := p.decide(ctx); err != nil {
		return err
	}
	p.said.settle = 0
	for w, more := p.said.next(); more; w, more = p.said.next() {
		if err := p.said.write(ctx, w); err != nil {
			return fmt.Errorf("write an event on pod %s: %w", keyOf(w.pod), err)
		}
	}
	return nil
}

func (o Once) provisioner() (*provisioner, error) {
	c := Config{Region: o.Region, Steps: o.Steps}.defaults()
	book, err := bookOf(c.Region)
	if err != nil {
		return nil, fmt.Errorf("load the book of instance types: %w", err)
	}
	if o.Client == nil || o.Cloud == nil {
		return nil, errors.New("decide once: Client and Cloud are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Configs == nil {
		o.Configs = cloud.Static(cloud.Installation{})
	}
	none := func() []offer { return nil }
	return &provisioner{
		client: o.Client, clock: o.Clock, steps: c.Steps, writers: writers, batch: newBatch(c.BatchIdle, c.BatchMax),
		observer: &observer{store: newStore(o.Clock, o.Client.Scheme()), shop: newShop(book, o.Cloud.GetInstanceTypes, none), configs: o.Configs, now: o.Clock.Now},
		state:    karpenterstate.NewCluster(o.Clock, o.Client, o.Cloud), recorder: unheard{}, said: newAnnouncer(o.Client, o.Clock),
		restock: func() time.Time { return time.Time{} },
	}, nil
}

// unheard is a recorder of events that nobody reads.
type unheard struct{}

// Publish implements events.Recorder.
func (unheard) Publish(...events.Event) {}

// listOf makes an empty list of an object's kind.
func listOf(o client.Object, s *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(o, s)
	if err != nil {
		return nil, fmt.Errorf("kind of a node class: %w", err)
	}
	gvk.Kind += "List"
	list, err := s.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("list of node classes: %w", err)
	}
	return list.(client.ObjectList), nil
}
