package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/deviceplugin"
	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/health"
	"github.com/kerfdev/kerf/internal/mps"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	retryConfig    = 10 * time.Second // for a switch that waits for pods, and for what failed
	retryDriver    = 30 * time.Second // at most, for a driver that does not answer
	firstInventory = time.Second
	slowWatch      = 5 * time.Second
)

// A Serve is what the node agent is started with.
type Serve struct {
	// Given are the flags of NVIDIA's device plugin that stand on the command
	// line, by their names in nodeconfig.Flags; Env is the environment.
	Given map[string]string
	Env   func(string) (string, bool)

	Source nodeconfig.Source // of the device config
	// Watch reports the node now and whenever it changes, until its context
	// ends, and API tells the cluster about it; both are nil without a cluster.
	Watch func(ctx context.Context, seen func(nodeconfig.Node))
	API   API

	// Open loads the driver; it is called again when it failed.
	Open func(nodeconfig.Settings) (nvml.Library, error)
	// Specs makes CDI specs for a real driver; nil makes plain ones from the
	// inventory.
	Specs Specs

	// MPS runs the daemons of configs that share by MPS; nil refuses such configs.
	MPS MPS

	PodResources string // the kubelet's pod-resources socket; "" = it is not asked
	CDIDir       string // where CDI specs are put
	Listen       string // address of /metrics, /healthz and /readyz; "" = none
	Policy       health.Policy
	Fences       string // file in which health fences outlive a restart, "" for none
	Boot         string // the kernel's boot id
	Reload       <-chan struct{}
	Log          *slog.Logger
}

// An MPS runs MPS daemons; a *mps.Supervisor is one.
type MPS interface {
	// Apply makes the plans' daemons the ones that run, and waits until they answer.
	Apply(ctx context.Context, plans []mps.Plan) error
	// Run looks after them until ctx ends.
	Run(ctx context.Context)
	// Ready reports as an error what keeps clients from their daemon.
	Ready() error
}

// Run serves the node's GPUs until ctx ends; then it takes its sockets away and
// returns nil. An error means that the node cannot be served as it is asked:
// wrong flags, a wrong config file, a driver that is missing while
// failOnInitError is set, servers that crash without end.
func (s Serve) Run(ctx context.Context) error {
	early, err := s.early()
	if err != nil {
		return err
	}
	if err := errors.Join(s.Source.Check(), modelled(early)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := newAgent(s, early)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	web, err := a.listen()
	if err != nil {
		return err
	}
	tasks.Go(func() { web.run(ctx) })
	lib, inv, err := a.driver(ctx)
	if lib == nil {
		return err
	}
	defer func() { // after the tasks, which use it
		if err := lib.Close(); err != nil {
			s.Log.Warn("the driver was not closed", "error", err)
		}
	}()
	defer tasks.Wait()
	defer cancel()
	return a.run(ctx, &tasks, lib, inv)
}

// early resolves the flags that count before the node's config is known: by the
// config file when there is only one, else by the config of nodes without a
// label, if that can be read.
func (s Serve) early() (nodeconfig.Settings, error) {
	sel, err := s.Source.Select(nil)
	if err != nil && s.Source.File != "" {
		return nodeconfig.Settings{}, err
	}
	settings, err := nodeconfig.Resolve(s.Given, s.Env, sel.Config)
	if err != nil && s.Source.File == "" {
		return nodeconfig.Resolve(s.Given, s.Env, deviceconfig.Config{})
	}
	return settings, err
}

// An agent is one Run of a Serve.
type agent struct {
	Serve
	flags   nodeconfig.Settings // as far as they are known without a config
	manager *deviceplugin.Manager
	metrics *deviceplugin.Metrics
	labels  *discovery.Publisher // nil without a cluster
	began   time.Time
	changes chan []deviceplugin.Verdict
	wake    chan struct{} // something changed

	mu       sync.Mutex
	node     *nodeconfig.Node // nil until it was seen
	inv      nvml.Inventory
	links    deviceplugin.Links
	monitor  *health.Monitor
	blocked  error                          // what keeps the driver from being used
	reported map[string]discovery.Condition // the last one of each type
	late     map[string]bool                // types of those that the API server has not taken

	applied *applied   // belongs to the loop, as the next one
	daemons []mps.Plan // what MPS runs
}

func newAgent(s Serve, early nodeconfig.Settings) *agent {
	a := &agent{
		Serve: s, flags: early, metrics: deviceplugin.NewMetrics(),
		changes: make(chan []deviceplugin.Verdict), wake: make(chan struct{}, 1), began: time.Now(), reported: map[string]discovery.Condition{}, late: map[string]bool{},
	}
	if s.API != nil {
		a.labels = discovery.NewPublisher(s.API, s.Log)
	}
	cfg := deviceplugin.Config{
		Dir: v1beta1.DevicePluginPath, KubeletSocket: early.KubeletSocket, Log: s.Log,
		Health: a.changes, Metrics: a.metrics, LastXids: a.lastXids,
	}
	if early.KubeletSocket != "" {
		cfg.Dir = filepath.Dir(early.KubeletSocket)
	}
	if s.PodResources != "" {
		cfg.Holder = deviceplugin.PodResources{Socket: s.PodResources}
	}
	a.manager = deviceplugin.New(cfg)
	return a
}

// driver opens the driver and takes the first inventory. It tries again until
// that succeeds or ctx ends (then there is no library), unless the driver cannot
// be opened and that is to be an error.
func (a *agent) driver(ctx context.Context) (nvml.Library, nvml.Inventory, error) {
	delay := firstInventory
	for ctx.Err() == nil {
		lib, inv, err := a.look(ctx)
		if err == nil {
			a.block(nil)
			return lib, inv, nil
		}
		var missing *nvml.NotFoundError
		if a.flags.FailOnInitError && (lib == nil || errors.As(err, &missing)) {
			return nil, inv, err
		}
		a.block(err)
		a.Log.Error("the driver does not answer", "error", err, "retry", delay)
		a.condition(ctx, discovery.Condition{Type: ConfigCondition, Reason: "DriverNotReady", Message: err.Error()})
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, retryDriver)
	}
	return nil, nvml.Inventory{}, nil
}

// look opens the driver and lists the GPUs; the library is returned, closed,
// when only the list failed.
func (a *agent) look(ctx context.Context) (nvml.Library, nvml.Inventory, error) {
	lib, err := a.Open(a.flags)
	if err != nil {
		return nil, nvml.Inventory{}, err
	}
	inv, err := lib.Inventory(ctx)
	if err != nil {
		return lib, inv, errors.Join(fmt.Errorf("list the GPUs: %w", err), lib.Close())
	}
	return lib, inv, nil
}

func (a *agent) block(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocked = err
}

// run starts everything that goes on beside the loop, and the loop.
func (a *agent) run(ctx context.Context, tasks *sync.WaitGroup, lib nvml.Library, inv nvml.Inventory) error {
	a.inv = inv
	for _, g := range inv.Unreadable {
		a.Log.Warn("a GPU does not answer; the others are served", "index", g.Index, "uuid", g.UUID, "reason", g.Why)
	}
	ended := make(chan error, 1)
	tasks.Go(func() { ended <- a.manager.Run(ctx) })
	watched := &watched{Library: lib, begun: make(chan struct{})}
	monitor := health.NewMonitor(health.Config{
		Driver: watched, Policy: a.Policy, Inventory: inv, Log: a.Log, Fences: a.Fences, Boot: a.Boot,
		OnReport:    func(r health.Report, _ []health.Change) { a.judged(ctx, r) },
		Tell:        a.tell,
		OnInventory: func(next nvml.Inventory) { a.appeared(ctx, tasks, lib, next) },
	})
	a.mu.Lock()
	a.monitor = monitor
	a.mu.Unlock()
	tasks.Go(func() { monitor.Run(ctx) })
	tasks.Go(func() { a.readLinks(ctx, lib) })
	tasks.Go(func() { a.Source.WatchFiles(ctx, a.Log, a.changed) })
	if a.Watch != nil {
		tasks.Go(func() { a.Watch(ctx, a.saw) })
	}
	if a.MPS != nil {
		tasks.Go(func() { a.MPS.Run(ctx) })
	}
	if a.labels != nil {
		tasks.Go(func() { a.labels.Run(ctx) })
	}
	if !a.Policy.Off() {
		watched.wait(ctx)
	}
	a.changed()
	return a.loop(ctx, ended)
}

// A watched is a library of which one can wait for the delivery of events to
// begin, so that no GPU is handed out of which nobody would hear.
type watched struct {
	nvml.Library
	once  sync.Once
	begun chan struct{}
}

// Watch implements nvml.Library.
func (w *watched) Watch(ctx context.Context) (nvml.Events, error) {
	events, err := w.Library.Watch(ctx)
	w.once.Do(func() { close(w.begun) })
	return events, err
}

// wait returns once the first delivery began or failed; a driver that is too
// slow is not waited for.
func (w *watched) wait(ctx context.Context) {
	select {
	case <-w.begun:
	case <-ctx.Done():
	case <-time.After(slowWatch):
	}
}

// loop considers the config whenever something changed.
func (a *agent) loop(ctx context.Context, ended <-chan error) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-a.Reload:
			a.Log.Info("told to reload")
			a.applied = a.applied.forget()
		case <-a.wake:
		case <-again:
		}
		retry, err := a.consider(ctx)
		if err != nil {
			return err
		}
		again = nil
		if retry {
			again = time.After(retryConfig)
		}
	}
}

// changed wakes the loop.
func (a *agent) changed() {
	select {
	case a.wake <- struct{}{}:
	default: // it is awake already
	}
}

// saw takes in the node; only its labels and versions matter.
func (a *agent) saw(n nodeconfig.Node) {
	a.mu.Lock()
	before := a.node
	a.node = &n
	a.mu.Unlock()
	if before == nil || before.Runtime != n.Runtime || before.Kubelet != n.Kubelet || !sameLabels(before.Labels, n.Labels) {
		a.changed()
	}
}

// appeared takes in GPUs or MIG instances that came or went.
func (a *agent) appeared(ctx context.Context, tasks *sync.WaitGroup, lib nvml.Library, inv nvml.Inventory) {
	a.mu.Lock()
	a.inv = inv
	a.mu.Unlock()
	tasks.Go(func() { a.readLinks(ctx, lib) })
	a.changed()
}

// readLinks asks how the GPUs are linked, which may take long; until it is
// known they are chosen in their order.
func (a *agent) readLinks(ctx context.Context, lib nvml.Library) {
	links, err := lib.Links(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.Log.Warn("how the GPUs are linked is not known; they are handed out in their order", "error", err)
		}
		return
	}
	a.mu.Lock()
	a.links = scores(a.inv, links)
	a.mu.Unlock()
	a.changed()
}

// judged takes health to the device plugin.
func (a *agent) judged(ctx context.Context, r health.Report) {
	var verdicts []deviceplugin.Verdict
	for _, v := range r.Verdicts {
		verdicts = append(verdicts, deviceplugin.Verdict{UUID: v.UUID, Healthy: v.Healthy, Reason: reasonOf(v)})
	}
	select {
	case a.changes <- verdicts:
	case <-ctx.Done():
	}
}

// tell takes health to the node, which may have to wait for an API server.
func (a *agent) tell(ctx context.Context, r health.Report, changes []health.Change) {
	if a.Policy.Off() {
		return // nobody knows how the GPUs are
	}
	a.condition(ctx, discovery.Condition{Type: health.ConditionType, True: r.Condition.Ready, Reason: r.Condition.Reason, Message: r.Condition.Message})
	for _, line := range health.Summary(changes) {
		a.event(ctx, discovery.Event{Warning: !r.Condition.Ready, Reason: "GPUHealthChanged", Message: line})
	}
}

func reasonOf(v health.Verdict) string {
	if v.Healthy {
		return ""
	}
	return v.Fault.String()
}

func (a *agent) lastXids() map[string]uint64 {
	a.mu.Lock()
	m := a.monitor
	a.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.LastXids()
}
