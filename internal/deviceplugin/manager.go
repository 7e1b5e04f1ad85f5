package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"

	"github.com/kerfdev/kerf/internal/model"
)

// The manager's clockwork.
const (
	checkEvery   = 5 * time.Second // sockets and withheld devices are looked at, beside what fsnotify reports
	askTimeout   = 2 * time.Second // for the kubelet to name the devices in use
	crashWindow  = time.Hour
	maxCrashes   = 5           // of one server in a window, after which the process should end
	recentGrants = time.Minute // for how long an answer to Allocate counts as a holding of its own
)

// A Plan is everything to be served under one config.
type Plan struct {
	Config    string // name of the config, for messages
	Resources []Resource
	Options   Options
	Links     Links
	// Parents maps every GPU's and MIG instance's UUID to its physical GPU's.
	Parents map[string]string
	// Before is called when nothing stands in the way of the plan any more and
	// no device can be allocated meanwhile, before the plan is served: MPS
	// daemons begin and end in it. An error of it leaves the earlier plan; nil
	// does nothing.
	Before func(context.Context) error
}

// A Verdict says how a device is. The health checks give it; a MIG instance has
// one of its own, beside that of its GPU.
type Verdict struct {
	UUID    string // of a GPU or a MIG instance
	Healthy bool
	Reason  string // of one that is not: "Xid 79"
}

// Config is what a Manager needs. Dir, KubeletSocket and Log must be set.
type Config struct {
	Dir string // of the sockets
	// KubeletSocket is where the kubelet is registered with; "" serves without
	// registering.
	KubeletSocket string
	Log           *slog.Logger
	// Holder is asked who holds what when the devices change, so that no GPU is
	// handed out twice; nil switches without asking, as NVIDIA's plugin does.
	Holder Holder
	// Health brings what changed, and everything that is not healthy at the
	// start; nil for no checks.
	Health  <-chan []Verdict
	Metrics *Metrics // nil for none
	// LastXids says which Xid each GPU reported last, by UUID, for the metrics;
	// nil when nobody knows.
	LastXids func() map[string]uint64
}

// A Manager keeps the servers of a node's resources.
type Manager struct {
	Config
	log      *slog.Logger
	metrics  *Metrics
	listen   func(network, address string) (net.Listener, error)
	requests chan request
	crashes  chan crash
	done     chan struct{} // closed when Run has ended
	every    time.Duration // checkEvery
	gate     sync.RWMutex  // held by Allocate for reading, by a switch for writing

	mu     sync.Mutex
	grants map[Holding]time.Time
	status Status
	beat   time.Time // when Run last made the status

	// What follows belongs to Run.
	plan     *Plan
	servers  map[string]*server
	sick     map[string]string // by UUID, and why
	withheld map[string]string
	asked    bool        // the holdings under the plan are known
	settled  time.Time   // when the plan was applied
	ends     []time.Time // of servers that crashed lately
	past     map[string]past
}

// A request asks Run to change what is served.
type request struct {
	plan  *Plan
	ctx   context.Context
	reply chan error
}

// A crash is a server that ended by itself.
type crash struct {
	server *server
	grpc   *grpc.Server
	err    error
}

// New returns a manager that serves nothing yet.
func New(c Config) *Manager {
	m := &Manager{
		Config: c, log: c.Log, metrics: c.Metrics, listen: net.Listen, every: checkEvery,
		requests: make(chan request), crashes: make(chan crash), done: make(chan struct{}),
		grants: map[Holding]time.Time{}, servers: map[string]*server{}, past: map[string]past{}, sick: map[string]string{},
	}
	if c.Metrics != nil {
		c.Metrics.manager = m
	}
	return m
}

// Run serves what Apply gives until ctx ends; then it stops every server and
// removes the sockets. It must run for Apply to return. An error means that a
// server crashed too often to go on.
func (m *Manager) Run(ctx context.Context) error {
	defer close(m.done)
	defer m.stop()
	m.sweep()
	events := newWatch(m.Dir, m.log)
	defer events.close()
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		m.publish()
		select {
		case <-ctx.Done():
			return nil
		case r := <-m.requests:
			r.reply <- m.apply(r.ctx, r.plan)
		case v := <-m.Health:
			m.judge(v)
		case c := <-m.crashes:
			if err := m.restart(c); err != nil {
				return err
			}
		case e := <-events.changed():
			m.reconcile(ctx, e.Name == m.KubeletSocket && e.Has(fsnotify.Create))
		case err := <-events.failed():
			m.log.Warn("changes of the socket directory may have been missed", "error", err)
			m.reconcile(ctx, false)
		case <-tick.C:
			events.renew()
			m.reassess(ctx)
			m.reconcile(ctx, false)
		case <-m.due():
			m.reconcile(ctx, false)
		}
	}
}

// Apply changes what is served to a plan, in place: a resource that stays keeps
// its registration and only its list changes; one that goes first gets an empty
// list, so that the kubelet offers it no longer.
//
// Devices that pods hold under another name are withheld until those pods end.
// A *BusyError means that the change has to wait for them altogether, and that
// the earlier plan is still served.
func (m *Manager) Apply(ctx context.Context, p Plan) error {
	r := request{plan: &p, ctx: ctx, reply: make(chan error, 1)}
	select {
	case m.requests <- r:
	case <-m.done:
		return errors.New("the device plugin has stopped")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.reply:
		return err
	case <-m.done:
		return errors.New("the device plugin has stopped")
	}
}

// A BusyError says that a plan cannot be applied while pods hold devices.
type BusyError struct {
	Config  string
	Holders []string // "namespace/name", sorted; none when it could not be known
	Err     error    // why it could not be known
}

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("config %q waits: which pods hold GPUs is not known: %v", e.Config, e.Err)
	}
	return fmt.Sprintf("config %q waits for the pods that hold GPUs to end, since MPS cannot begin or end under them: %s", e.Config, strings.Join(e.Holders, ", "))
}

// Unwrap returns why the holders are not known.
func (e *BusyError) Unwrap() error { return e.Err }

func (m *Manager) apply(ctx context.Context, p *Plan) error {
	ended, err := m.change(ctx, p)
	if err != nil {
		return err
	}
	for _, s := range ended {
		m.end(s)
		m.log.Info("no longer served", "resource", s.name)
	}
	m.reconcile(ctx, true)
	return nil
}

// change replaces what the servers say, while no device can be allocated. It
// returns the servers that have nothing to serve any more.
func (m *Manager) change(ctx context.Context, p *Plan) (ended []*server, err error) {
	m.gate.Lock()
	defer m.gate.Unlock()
	held, err := m.holdings(ctx)
	if err != nil && m.plan != nil && !m.plan.alike(p) {
		return nil, &BusyError{Config: p.Config, Err: err}
	}
	if pods := m.plan.blockedBy(p, held); len(pods) > 0 {
		return nil, &BusyError{Config: p.Config, Holders: pods}
	}
	if p.Before != nil {
		if err := p.Before(ctx); err != nil {
			return nil, err
		}
	}
	m.plan, m.asked, m.settled = p, err == nil, time.Now()
	if err == nil {
		m.withheld = p.withhold(held)
		m.logWithheld()
	} else { // the devices are those of before, or there was nothing before
		m.log.Warn("serving without knowing which devices are in use", "error", err)
	}
	keep := map[string]bool{}
	for _, r := range p.Resources {
		keep[r.Name] = true
		m.put(r)
	}
	for _, name := range slices.Sorted(maps.Keys(m.servers)) {
		if s := m.servers[name]; !keep[name] {
			// The kubelet is to see the resource empty before its stream ends.
			s.set(newState(Resource{Name: name}, p.Options, nil, nil, nil))
			ended = append(ended, s)
			delete(m.servers, name)
		}
	}
	return ended, nil
}

// logWithheld says for whom devices are withheld, one line a reason.
func (m *Manager) logWithheld() {
	count := map[string]int{}
	for _, why := range m.withheld {
		count[why]++
	}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		m.log.Info("devices withheld", "number", count[why], "reason", why)
	}
}

// put serves a resource, by the server that it has or by a new one.
func (m *Manager) put(r Resource) {
	s := m.state(r)
	if sv := m.servers[r.Name]; sv != nil {
		sv.set(s)
		return
	}
	m.servers[r.Name] = newServer(m, r.Name, s)
}

func (m *Manager) state(r Resource) *state {
	return newState(r, m.plan.Options, m.plan.Links, m.sick, m.withheld)
}

// judge takes verdicts to the devices that they are about.
func (m *Manager) judge(verdicts []Verdict) {
	changed := false
	for _, v := range verdicts {
		before, sick := m.sick[v.UUID]
		why := cmp.Or(v.Reason, "unhealthy")
		if v.Healthy && !sick || !v.Healthy && sick && why == before {
			continue // as it was
		}
		if changed = true; v.Healthy {
			delete(m.sick, v.UUID)
		} else {
			m.sick[v.UUID] = why
		}
		m.log.Info("health changed", "device", v.UUID, "healthy", v.Healthy, "reason", v.Reason)
	}
	if changed {
		m.refresh()
	}
}

// refresh makes every server's list anew.
func (m *Manager) refresh() {
	if m.plan == nil {
		return
	}
	for _, r := range m.plan.Resources {
		m.put(r)
	}
}

// reassess asks again who holds what, while devices are withheld or the last
// switch is so recent that a grant may not show yet.
func (m *Manager) reassess(ctx context.Context) {
	if m.plan == nil || m.Holder == nil || (m.asked && len(m.withheld) == 0 && time.Since(m.settled) > recentGrants) {
		return
	}
	held, err := m.holdings(ctx)
	if err != nil {
		m.log.Warn("devices stay withheld", "error", err)
		return
	}
	m.asked = true
	if next := m.plan.withhold(held); !maps.Equal(next, m.withheld) {
		m.log.Info("withheld devices changed", "before", len(m.withheld), "now", len(next))
		m.withheld = next
		m.logWithheld()
		m.refresh()
	}
}

// holdings are the devices in use: those that the kubelet names, and those
// granted so lately that it may not name them yet.
func (m *Manager) holdings(ctx context.Context) ([]Holding, error) {
	if m.Holder == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	held, err := m.Holder.Holdings(ctx)
	if err != nil {
		return nil, err
	}
	known := map[[2]string]bool{}
	for _, h := range held {
		known[[2]string{h.Resource, h.ID}] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, when := range m.grants {
		switch {
		case time.Since(when) > recentGrants:
			delete(m.grants, h)
		case !known[[2]string{h.Resource, h.ID}]:
			held = append(held, h)
		}
	}
	return held, nil
}

// granted remembers an answer to Allocate.
func (m *Manager) granted(resource string, ids []string) {
	if m.Holder == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.grants[Holding{Resource: resource, ID: id, Pod: "a pod that is just starting"}] = time.Now()
	}
}

// alike reports whether two plans list the same ids, shared in the same way.
func (p *Plan) alike(q *Plan) bool {
	return p.mps() == q.mps() && slices.EqualFunc(p.Resources, q.Resources, func(a, b Resource) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Devices, b.Devices, func(d, e Device) bool { return d.ID == e.ID })
	})
}

// blockedBy names the pods under which MPS cannot begin or end.
func (p *Plan) blockedBy(next *Plan, held []Holding) []string {
	if p == nil || p.mps() == next.mps() {
		return nil
	}
	var out []string
	for _, h := range held {
		if uuid, _ := split(h.ID); next.Parents[uuid] != "" {
			out = append(out, h.Pod)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *Plan) mps() bool {
	return slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.Kind == model.MPS })
}

// report takes a crash to Run, unless the server is being stopped anyway.
func (m *Manager) report(c crash, gone <-chan struct{}) {
	select {
	case m.crashes <- c:
	case <-gone:
	}
}

// restart brings a crashed server back, unless it crashes without end.
func (m *Manager) restart(c crash) error {
	if m.servers[c.server.name] != c.server || c.server.grpc != c.grpc {
		return nil // it has been replaced since
	}
	now := time.Now()
	m.ends = append(slices.DeleteFunc(m.ends, func(t time.Time) bool { return now.Sub(t) > crashWindow }), now)
	m.log.Error("server crashed", "resource", c.server.name, "error", c.err, "times", len(m.ends))
	if len(m.ends) > maxCrashes {
		return fmt.Errorf("the server of %s crashed %d times within an hour: %w", c.server.name, len(m.ends), c.err)
	}
	m.end(c.server)
	c.server.wait.failed(m.every)
	return nil
}

// stop ends every server.
func (m *Manager) stop() {
	var all sync.WaitGroup
	for _, s := range m.servers {
		all.Go(s.stop)
	}
	all.Wait()
}
