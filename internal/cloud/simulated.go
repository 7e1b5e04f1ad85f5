package cloud

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/catalog"
)

// Config sets a simulated cloud up. Client and Book are required.
type Config struct {
	// Client reads and writes NodeClaims, Nodes, Leases, Pods and node classes:
	// that of the manager to which Register adds the machines. They write
	// through it, so with many of them it should not be bound to a few requests
	// a second.
	Client client.Client
	// Book is the region that the cloud sells, with its prices.
	Book catalog.Book
	// Configs are the device configs that nodes may select; nil is none, so
	// that every GPU is advertised whole.
	Configs Configs
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Speed divides every delay, the interruption notice and grace periods of
	// pods included: 60 makes a minute of the cloud a second. 0 is 1.
	Speed float64
	// Delays of the machines, before Speed.
	Delays Delays
	// Seed of Faults.Random.
	Seed uint64
}

// Delays say how long machines take. A zero field is the default in its
// comment, a negative one no delay at all.
type Delays struct {
	Launch    time.Duration // until Create answers; none
	Register  time.Duration // from the launch until the Node exists; 25 s
	Ready     time.Duration // from there until it is Ready; 5 s
	GPU       time.Duration // from Ready, or the start of the plugin's pod, until GPUs are advertised; 15 s
	Pod       time.Duration // from a pod's binding until it runs; 2 s
	Run       time.Duration // how long pods run that may end and do not say when; 10 s
	Terminate time.Duration // from Delete until the instance is gone; 5 s
	Notice    time.Duration // from a spot interruption's notice until the instance is gone; 2 min, as EC2 gives
	Stock     time.Duration // how long an offering found out of stock is shown as unavailable; 3 min, as the AWS provider v1.15 does
}

// defaults are typical of EC2 with an EKS GPU image.
var defaults = Delays{
	Register: 25 * time.Second, Ready: 5 * time.Second, GPU: 15 * time.Second, Pod: 2 * time.Second, Run: 10 * time.Second,
	Terminate: 5 * time.Second, Notice: 2 * time.Minute, Stock: 3 * time.Minute,
}

// scaled fills the defaults in and divides by the speed.
func (d Delays) scaled(speed float64) Delays {
	one := func(given, standard time.Duration) time.Duration {
		switch {
		case given < 0:
			return 0
		case given > 0:
			standard = given
		}
		return time.Duration(float64(standard) / speed)
	}
	return Delays{
		Launch: one(d.Launch, defaults.Launch), Register: one(d.Register, defaults.Register), Ready: one(d.Ready, defaults.Ready),
		GPU: one(d.GPU, defaults.GPU), Pod: one(d.Pod, defaults.Pod), Run: one(d.Run, defaults.Run),
		Terminate: one(d.Terminate, defaults.Terminate), Notice: one(d.Notice, defaults.Notice), Stock: one(d.Stock, defaults.Stock),
	}
}

// Simulated is a cloud without machines of its own. Its methods may be called
// from several goroutines.
type Simulated struct {
	client   client.Client
	clock    clock.Clock
	configs  Configs
	speed    float64
	delays   Delays
	shelf    *shelf
	classes  []schema.GroupVersionKind
	kubelets memory
	faults   *Faults

	mu        sync.Mutex
	recovered bool
	launches  int
	machines  map[string]*machine // by instance id
	byNode    map[string]string   // instance id by node name
	wake      func(id string, after time.Duration)
}

var _ cloudprovider.CloudProvider = (*Simulated)(nil)

// NewSimulated returns a cloud that sells the book. It tells Karpenter's
// library of the book's labels and of the node classes that it supports, which
// the library keeps in variables of its packages; so the first one of a process
// must not be made while controllers run. An error means that the Config is
// incomplete.
func NewSimulated(c Config) (*Simulated, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("simulated cloud: Client is missing")
	case len(c.Book.Types) == 0:
		return nil, errors.New("simulated cloud: Book has no instance types")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Speed <= 0 {
		c.Speed = 1
	}
	if c.Configs == nil {
		c.Configs = noConfigs{}
	}
	s := &Simulated{
		client: c.Client, clock: c.Clock, configs: c.Configs, speed: c.Speed, delays: c.Delays.scaled(c.Speed),
		machines: map[string]*machine{}, byNode: map[string]string{},
		wake: func(string, time.Duration) {},
	}
	s.shelf = newShelf(c.Book)
	s.classes = registerClasses(c.Client)
	s.faults = newFaults(s, c.Seed)
	return s, nil
}

// Name names the provider in Karpenter's metrics.
func (*Simulated) Name() string { return "simulated" }

// Faults returns the switches that break things.
func (s *Simulated) Faults() *Faults { return s.faults }

// GetSupportedNodeClasses returns an empty object of each kind of node class
// whose CRD is installed, EC2NodeClass first.
func (s *Simulated) GetSupportedNodeClasses() []status.Object {
	out := make([]status.Object, 0, len(s.classes))
	for _, gvk := range s.classes {
		out = append(out, newClass(gvk))
	}
	return out
}

// Reboot is not simulated.
func (*Simulated) Reboot(context.Context, *karpenter.NodeClaim, string) error {
	return cloudprovider.NewNodeRebootNotImplementedError()
}

// RepairPolicies are those of the AWS provider v1.15 for the kubelet's
// condition and for dead GPUs, at the cloud's speed. Exactly one policy, the
// first, is for every reason.
func (s *Simulated) RepairPolicies() []cloudprovider.RepairPolicy {
	at := func(d time.Duration) time.Duration { return time.Duration(float64(d) / s.speed) }
	none := time.Duration(0)
	policy := func(kind corev1.NodeConditionType, is corev1.ConditionStatus, reason string, after time.Duration) cloudprovider.RepairPolicy {
		return cloudprovider.RepairPolicy{
			ConditionType: kind, ConditionStatus: is, ReasonRegex: reason, TolerationDuration: at(after),
			TerminationGracePeriod: &none, Action: cloudprovider.ReplaceNode,
		}
	}
	return []cloudprovider.RepairPolicy{
		policy(corev1.NodeReady, corev1.ConditionFalse, "", 30*time.Minute),
		policy(corev1.NodeReady, corev1.ConditionUnknown, ".*", 30*time.Minute),
		policy(hardwareReady, corev1.ConditionFalse, ".*", 10*time.Minute),
	}
}
