package health

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	interval    = 10 * time.Second // between two probes of a GPU
	slow        = 5 * time.Second  // a probe that takes longer has failed
	rescan      = time.Minute      // between two inventories, while every GPU answers
	retell      = time.Minute      // between two calls of Tell without news
	firstPause  = time.Second      // before the driver is tried again
	longestWait = time.Minute
)

// A Driver is what a Monitor needs of a driver; an nvml.Library is one.
type Driver interface {
	Inventory(ctx context.Context) (nvml.Inventory, error)
	Probe(ctx context.Context, uuid string) (nvml.Probe, error)
	Watch(ctx context.Context) (nvml.Events, error)
}

// A Config says what a Monitor watches and whom it tells.
type Config struct {
	Driver    Driver
	Policy    Policy
	Inventory nvml.Inventory // what is served at the start
	// OnReport is told when a device changed, and once at the start. It must
	// return soon and not call the Monitor back. May be nil.
	OnReport func(Report, []Change)
	// Tell is told the same, and once a minute besides, in case an earlier call
	// could not tell whom it should. It may take long: what changes meanwhile
	// comes with the next call. May be nil.
	Tell func(context.Context, Report, []Change)
	// OnInventory is told when GPUs or MIG instances appeared or went. A GPU that
	// only does not answer any more stays in the inventory. May be nil.
	OnInventory func(nvml.Inventory)
	Log         *slog.Logger // nil = slog.Default()
	// Fences is the file in which fences outlive the agent; "" for none. Boot is
	// the kernel's boot id (/proc/sys/kernel/random/boot_id).
	Fences string
	Boot   string
}

// A Monitor keeps the health of a node's GPUs.
type Monitor struct {
	cfg       Config
	mu        sync.Mutex
	machine   *Machine
	inventory nvml.Inventory
	fences    []Fence       // as they are in the file
	untold    []Change      // since the last call of Tell
	news      chan struct{} // holds a token when Tell is to be called
}

// NewMonitor starts nothing yet. Fences of before are put back; a file of them
// that cannot be read is said and left alone.
func NewMonitor(cfg Config) *Monitor {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	m := &Monitor{cfg: cfg, inventory: cfg.Inventory, news: make(chan struct{}, 1), machine: NewMachine(cfg.Policy, time.Now(), cfg.Inventory)}
	fences, err := loadFences(cfg.Fences)
	if err != nil {
		cfg.Log.Warn("fences of before are not known", "error", err)
	}
	m.machine.Restore(time.Now(), fences, cfg.Boot)
	m.fences = m.machine.Fences(cfg.Boot)
	return m
}

// Report says how every device is.
func (m *Monitor) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.machine.Report()
}

// LastXids says which Xid each GPU reported last, by UUID.
func (m *Monitor) LastXids() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.machine.LastXids()
}

// Run watches until the context ends, and returns when everything it started
// has ended. With health checks off it only looks for GPUs that appear.
func (m *Monitor) Run(ctx context.Context) {
	r := &run{Monitor: m, events: make(chan arrival), probes: make(chan answer), probing: map[string]bool{}}
	r.tell(nil, true)
	if !m.cfg.Policy.Off() {
		r.tasks.Go(func() { r.listen(ctx) })
	}
	r.tasks.Go(func() { r.scan(ctx) })
	if m.cfg.Tell != nil {
		r.tasks.Go(func() { r.teller(ctx) })
	}
	r.loop(ctx)
	r.tasks.Wait()
}

// run is one Run.
type run struct {
	*Monitor
	tasks   sync.WaitGroup
	events  chan arrival
	probes  chan answer
	probing map[string]bool // probes under way, by GPU
}

// An arrival is what came of listening to the driver.
type arrival struct {
	event   nvml.Event
	watched map[string]error // set when a delivery began
	err     error            // the driver failed
}

// An answer is that of one probe.
type answer struct {
	gpu   string
	probe nvml.Probe
	err   error
}

// loop is where all that happens meets.
func (r *run) loop(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-r.events:
			r.heard(ctx, a)
		case a := <-r.probes:
			delete(r.probing, a.gpu)
			r.note(func(m *Machine, now time.Time) []Change { return m.Probe(now, a.gpu, a.probe, a.err) })
		case <-tick.C:
			if !r.cfg.Policy.Off() {
				r.probeAll(ctx)
			}
		}
	}
}

// heard takes what came of listening. Whenever something is wrong the GPUs are
// probed at once, to find out which.
func (r *run) heard(ctx context.Context, a arrival) {
	switch {
	case a.err != nil:
		r.cfg.Log.Error("the driver delivers no events", "error", a.err)
		if !errors.Is(a.err, nvml.ErrLost) {
			r.note(func(m *Machine, now time.Time) []Change { return m.Broken(now, a.err) })
		}
	case a.watched != nil:
		r.note(func(m *Machine, now time.Time) []Change { return m.Watched(now, a.watched) })
		return
	default:
		class := r.cfg.Policy.Class(a.event.Xid)
		r.cfg.Log.Info("Xid", "xid", a.event.Xid, "gpu", a.event.UUID, "class", class)
		r.note(func(m *Machine, now time.Time) []Change { return m.Event(now, a.event) })
	}
	r.probeAll(ctx)
}

// listen delivers events, and begins again with growing pauses when the driver
// fails.
func (r *run) listen(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		begun := time.Now()
		err := r.deliver(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > longestWait {
			pause = firstPause
		}
		r.send(ctx, arrival{err: err})
		sleep(ctx, pause)
		pause = min(2*pause, longestWait)
	}
}

// deliver passes events on until the driver fails.
func (r *run) deliver(ctx context.Context) error {
	events, err := r.cfg.Driver.Watch(ctx)
	if err != nil {
		return err
	}
	unwatched := events.Unwatched()
	if unwatched == nil {
		unwatched = map[string]error{}
	}
	r.send(ctx, arrival{watched: unwatched})
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return errors.Join(err, events.Close())
		}
		r.send(ctx, arrival{event: e})
	}
}

func (r *run) send(ctx context.Context, a arrival) {
	select {
	case <-ctx.Done():
	case r.events <- a:
	}
}

// probeAll probes every GPU, each on its own: one that hangs costs the others
// nothing, and is not asked again before it answered.
func (r *run) probeAll(ctx context.Context) {
	r.mu.Lock()
	gpus := r.inventory.GPUs
	r.mu.Unlock()
	for _, g := range gpus {
		if r.probing[g.UUID] {
			r.note(func(m *Machine, now time.Time) []Change { return m.Probe(now, g.UUID, nvml.Probe{}, errSlow) })
			continue
		}
		r.probing[g.UUID] = true
		r.tasks.Go(func() {
			limited, cancel := context.WithTimeout(ctx, slow)
			defer cancel()
			p, err := r.cfg.Driver.Probe(limited, g.UUID)
			if errors.Is(err, context.DeadlineExceeded) {
				err = errSlow
			}
			select {
			case <-ctx.Done():
			case r.probes <- answer{g.UUID, p, err}:
			}
		})
	}
}

var errSlow = errors.New("no answer within 5 s")

// scan reads the inventory again and again: often while a GPU does not answer.
func (r *run) scan(ctx context.Context) {
	known := r.cfg.Inventory
	for {
		pause := rescan
		if len(known.Unreadable) > 0 {
			pause = interval
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return
		}
		inv, err := r.cfg.Driver.Inventory(ctx)
		if err != nil {
			continue // listening finds out
		}
		inv = merge(known, inv)
		changed := !reflect.DeepEqual(known.GPUs, inv.GPUs)
		known = inv
		r.mu.Lock()
		r.inventory = inv
		r.mu.Unlock()
		r.note(func(m *Machine, now time.Time) []Change { return m.Update(now, inv) })
		if !changed {
			continue
		}
		r.cfg.Log.Info("the GPUs of the node changed", "gpus", len(inv.GPUs), "unreadable", len(inv.Unreadable))
		if r.cfg.OnInventory != nil {
			r.cfg.OnInventory(inv)
		}
	}
}

// merge keeps in an inventory the GPUs that were known before and only do not
// answer now.
func merge(before, now nvml.Inventory) nvml.Inventory {
	for _, g := range before.GPUs {
		silent := slices.ContainsFunc(now.Unreadable, func(u nvml.Unreadable) bool {
			return u.UUID == g.UUID || u.UUID == "" && u.Index == g.Index
		})
		if silent && !slices.ContainsFunc(now.GPUs, func(o nvml.GPU) bool { return o.UUID == g.UUID }) {
			now.GPUs = append(now.GPUs, g)
		}
	}
	slices.SortFunc(now.GPUs, func(a, b nvml.GPU) int { return a.Index - b.Index })
	return now
}

// note makes something known to the machine, and tells who is to be told.
func (m *Monitor) note(f func(*Machine, time.Time) []Change) {
	m.mu.Lock()
	changes := f(m.machine, time.Now())
	m.mu.Unlock()
	if len(changes) > 0 {
		m.tell(changes, false)
	}
}

// tell passes a report on and keeps the fences. The lock is held meanwhile, so
// that reports do not overtake each other.
func (m *Monitor) tell(changes []Change, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range Summary(changes) {
		m.cfg.Log.Warn(line)
	}
	if fences := m.machine.Fences(m.cfg.Boot); !first && !reflect.DeepEqual(fences, m.fences) {
		if err := saveFences(m.cfg.Fences, fences); err != nil {
			m.cfg.Log.Warn("fences would not outlive the agent", "error", err)
		}
		m.fences = fences
	}
	if m.cfg.OnReport != nil {
		m.cfg.OnReport(m.machine.Report(), changes)
	}
	m.untold = append(m.untold, changes...)
	select {
	case m.news <- struct{}{}:
	default: // it is to be called anyway
	}
}

// teller calls Tell.
func (m *Monitor) teller(ctx context.Context) {
	tick := time.NewTicker(retell)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.news:
		case <-tick.C:
		}
		m.mu.Lock()
		report, changes := m.machine.Report(), m.untold
		m.untold = nil
		m.mu.Unlock()
		m.cfg.Tell(ctx, report, changes)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
