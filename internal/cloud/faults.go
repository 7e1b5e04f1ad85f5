package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// An Offering names a type in a zone with a capacity type. As a pattern, an
// empty field stands for everything.
type Offering struct {
	Type, Zone, CapacityType string
}

// String writes the offering as messages do: "g5.xlarge spot us-east-1a".
func (o Offering) String() string {
	return cmp.Or(o.Type, "any type") + " " + cmp.Or(o.CapacityType, "any capacity type") + " " + cmp.Or(o.Zone, "any zone")
}

func (o Offering) covers(c Offering) bool {
	return (o.Type == "" || o.Type == c.Type) && (o.Zone == "" || o.Zone == c.Zone) && (o.CapacityType == "" || o.CapacityType == c.CapacityType)
}

// A Fate is what is wrong with a machine from its launch on.
type Fate struct {
	NeverRegisters bool
	NoGPUs         bool // they never come up
	MissingGPUs    int  // so many physical GPUs fewer than the type has
	KeepsTaints    bool // the startup taints of its pool are never taken off
}

// Rates are probabilities, 0 to 1, of what goes wrong at a launch.
type Rates struct {
	LaunchError    float64 // the API answers with an error
	NeverRegisters float64
	NoGPUs         float64
	MissingGPU     float64 // one GPU fewer
}

// Faults are what is broken. The zero state is that nothing is.
type Faults struct {
	cloud *Simulated
	seed  uint64

	mu       sync.Mutex
	stock    []shortage
	fates    []*doom
	failures []error
	rates    Rates
	calls    uint64      // of Create that reached the API
	limit    int         // launches a second; 0 = no limit
	recent   []time.Time // launches of the last second
}

// A shortage is a pattern without stock.
type shortage struct {
	of    Offering
	until time.Time // zero = until restocked
}

// doom is a fate that waits for launches.
type doom struct {
	of   Offering
	fate Fate
	left int // launches; negative = all
}

func newFaults(s *Simulated, seed uint64) *Faults { return &Faults{cloud: s, seed: seed} }

// OutOfStock takes the offerings of a pattern out of stock, for a time of the
// clock or, with 0, until Restock. The cloud notices at the next launch, as one
// does with EC2; until then instance types show them as available.
func (f *Faults) OutOfStock(of Offering, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := shortage{of: of}
	if d > 0 {
		s.until = f.cloud.clock.Now().Add(d)
	}
	f.stock = append(f.stock, s)
}

// Restock ends the shortages of exactly this pattern.
func (f *Faults) Restock(of Offering) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.stock[:0:0]
	for _, s := range f.stock {
		if s.of != of {
			kept = append(kept, s)
		}
	}
	f.stock = kept
}

// soldOut reports whether an offering is out of stock.
func (f *Faults) soldOut(o Offering, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.stock {
		if s.of.covers(o) && (s.until.IsZero() || now.Before(s.until)) {
			return true
		}
	}
	return false
}

// Doom gives the next n launches of a pattern a fate; a negative n all of them.
// Earlier calls come first.
func (f *Faults) Doom(of Offering, n int, fate Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fates = append(f.fates, &doom{of, fate, n})
}

// FailLaunches has the next n calls that would launch answered with an error.
func (f *Faults) FailLaunches(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.failures = append(f.failures, err)
	}
}

// RateLimit has launches beyond so many in a second answered with EC2's
// RequestLimitExceeded; 0 ends it.
func (f *Faults) RateLimit(perSecond int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = perSecond
}

// Random breaks launches by chance from now on; the zero Rates end it.
func (f *Faults) Random(r Rates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates = r
}

// Clear ends everything that would go wrong with launches to come. What has
// befallen machines stays.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stock, f.fates, f.failures, f.rates, f.limit = nil, nil, nil, Rates{}, 0
}

var (
	errLaunch    = errors.New("operation error EC2: CreateFleet, InternalError: an internal error has occurred")
	errRateLimit = errors.New("operation error EC2: CreateFleet, RequestLimitExceeded: request limit exceeded")
)

// launch says how the API answers a call: nil lets it through.
func (f *Faults) launch() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.failures) > 0 {
		err := f.failures[0]
		f.failures = f.failures[1:]
		return err
	}
	f.calls++
	if f.chance(f.calls, 0) < f.rates.LaunchError {
		return cloudprovider.NewCreateError(errLaunch, "LaunchFailed", errLaunch.Error())
	}
	if f.limit == 0 {
		return nil
	}
	now := f.cloud.clock.Now()
	for len(f.recent) > 0 && now.Sub(f.recent[0]) >= time.Second {
		f.recent = f.recent[1:]
	}
	if len(f.recent) >= f.limit {
		return cloudprovider.NewCreateError(errRateLimit, "RequestLimitExceeded", errRateLimit.Error())
	}
	f.recent = append(f.recent, now)
	return nil
}

// chance is a number from 0 to 1 that follows from the seed, a counter and what
// it is asked for.
func (f *Faults) chance(number, about uint64) float64 {
	return rand.New(rand.NewPCG(f.seed, number<<8|about)).Float64()
}

// fate decides what becomes of an instance.
func (f *Faults) fate(i Instance) Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.fates {
		if d.left != 0 && d.of.covers(Offering{i.Type, i.Zone, i.CapacityType}) {
			d.left--
			return d.fate
		}
	}
	n := uint64(i.Number)
	out := Fate{NeverRegisters: f.chance(n, 1) < f.rates.NeverRegisters, NoGPUs: f.chance(n, 2) < f.rates.NoGPUs}
	if f.chance(n, 3) < f.rates.MissingGPU {
		out.MissingGPUs = 1
	}
	return out
}

// Interrupt gives notice that a spot instance is taken back: its node gets the
// taint and the condition of InterruptionTaint, its NodeClaim is deleted as the
// AWS provider's interruption controller would, and after Delays.Notice the
// instance is gone. An error means that there is no such running instance.
func (f *Faults) Interrupt(id string) error {
	now := f.cloud.clock.Now()
	return f.befall(id, func(m *machine) {
		if m.noticed.IsZero() {
			m.noticed, m.ends = now, now.Add(f.cloud.delays.Notice)
		}
	})
}

// Kill stops a machine's heartbeats for good; EC2 goes on showing the instance
// as running, and billing it.
func (f *Faults) Kill(id string) error { return f.befall(id, func(m *machine) { m.dead = true }) }

// BreakGPUs takes n physical GPUs from a machine that may have advertised them
// already; it stops at none, and a negative n takes all. The node says so in
// its condition AcceleratedHardwareReady, as one with kerf-node does.
func (f *Faults) BreakGPUs(id string, n int) error {
	return f.befall(id, func(m *machine) {
		if n < 0 {
			n = f.cloud.physical(m.Type)
		}
		m.broken, m.fate.MissingGPUs = true, m.fate.MissingGPUs+n
	})
}

// Drift has the instance reported as drifted; "" ends it.
func (f *Faults) Drift(id string, reason cloudprovider.DriftReason) error {
	return f.befall(id, func(m *machine) { m.drift = reason })
}

func (f *Faults) befall(id string, what func(*machine)) error {
	if m, ok := f.cloud.look(id); !ok || m.State != Running {
		return fmt.Errorf("instance %s is not running", id)
	}
	f.cloud.change(id, what)
	return nil
}

// InterruptionTaint is on a node whose spot instance is about to be taken back;
// its key is the condition's type too.
var InterruptionTaint = corev1.Taint{Key: "kerf.dev/spot-interruption", Effect: corev1.TaintEffectNoSchedule}
