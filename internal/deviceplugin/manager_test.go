package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kerfdev/kerf/internal/deviceplugin/fakekubelet"
	"github.com/kerfdev/kerf/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench is a manager with a fake kubelet on real sockets.
type bench struct {
	*testing.T
	ctx     context.Context
	dir     string
	kubelet *fakekubelet.Kubelet
	manager *Manager
	holder  *holder
	health  chan []Verdict
	stop    func() error
}

// holder says what the test wants it to say.
type holder struct {
	mu   sync.Mutex
	held []Holding
	err  error
}

func (h *holder) Holdings(context.Context) ([]Holding, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.held), h.err
}

func (h *holder) set(err error, held ...Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held, h.err = held, err
}

// start runs a manager; tune may change its config.
func start(t *testing.T, tune func(*bench, *Config)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "kerf") // socket paths have to be short
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b := &bench{T: t, ctx: ctx, dir: dir, holder: &holder{}, health: make(chan []Verdict)}
	b.boot()
	cfg := Config{Dir: dir, KubeletSocket: filepath.Join(dir, "kubelet.sock"), Log: slog.New(slog.DiscardHandler), Health: b.health}
	if tune != nil {
		tune(b, &cfg)
	}
	b.manager = New(cfg)
	b.manager.every = 20 * time.Millisecond
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.manager.Run(running) }()
	b.stop = sync.OnceValue(func() error { end(); return <-done })
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		b.kubelet.Stop()
		cancel()
		_ = os.RemoveAll(dir)
	})
	return b
}

func (b *bench) boot() {
	b.Helper()
	k, err := fakekubelet.Start(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	b.kubelet = k
}

func (b *bench) apply(resources ...Resource) {
	b.Helper()
	if err := b.manager.Apply(b.ctx, plan(resources...)); err != nil {
		b.Fatal(err)
	}
}

func plan(resources ...Resource) Plan {
	p := Plan{Config: "test", Resources: resources, Options: Options{Strategies: []string{EnvVar}}, Parents: map[string]string{}}
	for _, r := range resources {
		for _, d := range r.Devices {
			p.Parents[d.UUID], p.Parents[d.GPU] = d.GPU, d.GPU
		}
	}
	return p
}

func (b *bench) await(what string, ok func(*fakekubelet.Kubelet) bool) {
	b.Helper()
	if err := b.kubelet.Await(b.ctx, ok); err != nil {
		b.Fatalf("waiting for %s: %v", what, err)
	}
}

// sees waits until the kubelet has these devices, healthy ones after the slash.
func (b *bench) sees(want string) {
	b.Helper()
	b.await(want, func(k *fakekubelet.Kubelet) bool { return view(k) == want })
}

func view(k *fakekubelet.Kubelet) string {
	capacity, well := k.Capacity(), k.Allocatable()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		out = append(out, fmt.Sprintf("%s %d/%d", strings.TrimPrefix(name, "nvidia.com/"), capacity[name], well[name]))
	}
	return strings.Join(out, ", ")
}

func (b *bench) files() []string {
	b.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func renamed(r Resource, name string) Resource { r.Name = name; return r }

func TestManagerRegistersAndAnswers(t *testing.T) {
	b := start(t, nil)
	devices := whole(2)
	devices.Devices[1].NUMA = []int{1}
	b.apply(devices)
	b.sees("gpu 2/2")
	reg := b.kubelet.Registrations()
	if len(reg) != 1 || reg[0].ResourceName != "nvidia.com/gpu" || reg[0].Endpoint != "nvidia-gpu.sock" || reg[0].Version != "v1beta1" || !reg[0].Options.GetPreferredAllocationAvailable || reg[0].Options.PreStartRequired {
		t.Errorf("registrations %v", reg)
	}
	if got := b.kubelet.Devices("nvidia.com/gpu"); got[0].Topology != nil || got[1].Topology.Nodes[0].ID != 1 {
		t.Errorf("topology %v, want that of the second GPU only", got)
	}
	options, err := b.kubelet.Options(b.ctx, "nvidia.com/gpu")
	if err != nil || !options.GetPreferredAllocationAvailable || options.PreStartRequired {
		t.Errorf("options %v, %v", options, err)
	}
	got, err := b.kubelet.Allocate(b.ctx, "nvidia.com/gpu", []string{"GPU-1"})
	if err != nil || got.Envs["NVIDIA_VISIBLE_DEVICES"] != "GPU-1" {
		t.Errorf("allocated %v, %v", got, err)
	}
	if _, err := b.kubelet.Allocate(b.ctx, "nvidia.com/gpu", []string{"GPU-nope"}); err == nil || err.Error() != `rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-nope` {
		t.Errorf("an unknown device gives %v", err)
	}
	if err := b.manager.Ready(); err != nil {
		t.Error(err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"kubelet.sock"}, b.files()); diff != "" {
		t.Errorf("files left behind (-want +got):\n%s", diff)
	}
}

func TestManagerSwitchesInPlace(t *testing.T) {
	b := start(t, nil)
	b.apply(whole(2))
	b.sees("gpu 2/2")
	b.apply(shared(2, 10))
	b.sees("gpu 20/20")
	if n := len(b.kubelet.Registrations()); n != 1 {
		t.Errorf("%d registrations, a resource that stays needs one only", n)
	}
	var last []int // what the kubelet saw of the old name, up to the end
	b.apply(renamed(shared(2, 10), "nvidia.com/gpu.shared"))
	b.await("the old name to be empty before it ends", func(k *fakekubelet.Kubelet) bool {
		last = append(last, len(k.Devices("nvidia.com/gpu")))
		return k.Ended("nvidia.com/gpu")
	})
	if last[len(last)-1] != 0 {
		t.Errorf("the old name went away with %d devices", last[len(last)-1])
	}
	b.sees("gpu.shared 20/20")
	if diff := cmp.Diff([]string{"kubelet.sock", "nvidia-gpu.shared.sock"}, b.files()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
}

// A kubelet that has not noticed yet that a socket ended refuses it.
func TestManagerComesBackUnderAnotherSocket(t *testing.T) {
	b := start(t, nil)
	for range 5 {
		b.apply(whole(2))
		b.apply(renamed(shared(2, 3), "nvidia.com/gpu.shared"))
	}
	b.await("the last one", func(k *fakekubelet.Kubelet) bool {
		return k.Ended("nvidia.com/gpu") && len(k.Devices("nvidia.com/gpu.shared")) == 6 && !k.Ended("nvidia.com/gpu.shared")
	})
	reg := b.kubelet.Registrations()
	seen := map[string]bool{}
	for _, r := range reg {
		if seen[r.Endpoint] {
			t.Errorf("%s is registered twice within moments", r.Endpoint)
		}
		seen[r.Endpoint] = true
	}
	if len(reg) != 10 || reg[0].Endpoint != "nvidia-gpu.sock" || reg[2].Endpoint != "nvidia-gpu~2.sock" {
		t.Errorf("registrations %v", reg)
	}
	if diff := cmp.Diff([]string{"kubelet.sock", reg[9].Endpoint}, b.files()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
}

// Sockets of an agent that was killed are swept away, and one that the kubelet
// holds on to is given up.
func TestManagerAfterAnAgentThatWasKilled(t *testing.T) {
	b := start(t, func(b *bench, _ *Config) {
		for _, name := range []string{"nvidia-gpu.sock", "nvidia-gpu~2.sock", "other.sock"} {
			if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.manager.past[filepath.Join(b.dir, "nvidia-gpu.sock")] = past{kubelet: b.manager.kubelet(), stuck: true}
	b.apply(whole(1))
	b.sees("gpu 1/1")
	if diff := cmp.Diff([]string{"kubelet.sock", "nvidia-gpu.sock", "nvidia-gpu~2.sock", "other.sock"}, b.files()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
}

func TestManagerSurvivesWhatHappensToSockets(t *testing.T) {
	b := start(t, nil)
	b.apply(renamed(shared(2, 10), "nvidia.com/gpu.shared"))
	b.sees("gpu.shared 20/20")

	// The kubelet restarts: it removes every socket and makes its own anew.
	b.kubelet.Stop()
	if err := os.Remove(filepath.Join(b.dir, "nvidia-gpu.shared.sock")); err != nil {
		t.Fatal(err)
	}
	b.boot()
	b.sees("gpu.shared 20/20")

	// A second kubelet takes over the path and leaves our socket alone.
	old := b.kubelet
	b.boot()
	b.sees("gpu.shared 20/20")
	old.Stop() // removes the path of the new one with it
	b.kubelet.Stop()
	b.boot()
	b.sees("gpu.shared 20/20")

	// Our socket alone is deleted.
	before := len(b.kubelet.Registrations())
	if err := os.Remove(filepath.Join(b.dir, "nvidia-gpu.shared.sock")); err != nil {
		t.Fatal(err)
	}
	b.await("a new registration", func(k *fakekubelet.Kubelet) bool { return len(k.Registrations()) > before })
	b.sees("gpu.shared 20/20")

	// The folder is replaced by an empty one.
	b.kubelet.Stop()
	if err := os.Rename(b.dir, b.dir+".old"); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(b.dir + ".old")
	if err := os.Mkdir(b.dir, 0o750); err != nil {
		t.Fatal(err)
	}
	b.boot()
	b.sees("gpu.shared 20/20")
}

func TestManagerWaitsForKubeletAndFolder(t *testing.T) {
	b := start(t, func(b *bench, _ *Config) {
		b.kubelet.Stop()
		if err := os.RemoveAll(b.dir); err != nil {
			b.Fatal(err)
		}
	})
	b.apply(whole(1))
	if err := b.manager.Ready(); err == nil || err.Error() != "nvidia.com/gpu is not registered with the kubelet" {
		t.Errorf("ready without a kubelet: %v", err)
	}
	if err := os.Mkdir(b.dir, 0o750); err != nil {
		t.Fatal(err)
	}
	b.boot()
	b.sees("gpu 1/1")
}

func TestManagerServesWithoutRegistering(t *testing.T) {
	b := start(t, func(_ *bench, c *Config) { c.KubeletSocket = "" })
	b.apply(whole(1))
	if err := b.manager.Ready(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"kubelet.sock", "nvidia-gpu.sock"}, b.files()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
	if n := len(b.kubelet.Registrations()); n != 0 {
		t.Errorf("%d registrations", n)
	}
}

func TestManagerTellsHealth(t *testing.T) {
	b := start(t, nil)
	slices := shared(2, 10)
	mig := Resource{Name: "nvidia.com/mig-3g.20gb", Devices: []Device{{ID: "MIG-a", UUID: "MIG-a", GPU: "GPU-2"}, {ID: "MIG-b", UUID: "MIG-b", GPU: "GPU-2"}}}
	b.apply(slices, mig)
	b.sees("gpu 20/20, mig-3g.20gb 2/2")
	for _, step := range []struct {
		verdicts []Verdict
		want     string
	}{
		{[]Verdict{{UUID: "GPU-0", Reason: "Xid 48"}}, "gpu 20/10, mig-3g.20gb 2/2"},                                    // every replica
		{[]Verdict{{UUID: "MIG-a", Reason: "Xid 63"}, {UUID: "GPU-2", Reason: "Xid 63"}}, "gpu 20/10, mig-3g.20gb 2/1"}, // the instance alone
		{[]Verdict{{UUID: "MIG-b", Reason: "lost"}}, "gpu 20/10, mig-3g.20gb 2/0"},
		{[]Verdict{{UUID: "GPU-0", Healthy: true}}, "gpu 20/20, mig-3g.20gb 2/0"},
		{[]Verdict{{UUID: "MIG-b", Healthy: true}}, "gpu 20/20, mig-3g.20gb 2/1"},
		{[]Verdict{{UUID: "GPU-0"}, {UUID: "GPU-1"}, {UUID: "MIG-b"}}, "gpu 20/0, mig-3g.20gb 2/0"},
		{[]Verdict{{UUID: "GPU-0", Healthy: true}, {UUID: "GPU-1", Healthy: true}, {UUID: "MIG-b", Healthy: true}}, "gpu 20/20, mig-3g.20gb 2/1"},
	} {
		b.health <- step.verdicts
		b.sees(step.want)
	}
	b.apply(whole(1), mig) // what is sick stays so under another config
	b.sees("gpu 1/1, mig-3g.20gb 2/1")
}

// A whole GPU that a pod holds is not cut up under it.
func TestManagerNeverBooksTwice(t *testing.T) {
	b := start(t, func(b *bench, c *Config) { c.Holder = b.holder })
	b.apply(whole(2))
	b.sees("gpu 2/2")
	b.holder.set(nil, Holding{Resource: "nvidia.com/gpu", ID: "GPU-0", Pod: "team/train"})
	b.apply(shared(2, 10))
	b.sees("gpu 20/10")
	for _, d := range b.kubelet.Devices("nvidia.com/gpu") {
		if d.Health == v1beta1.Healthy && strings.HasPrefix(d.ID, "GPU-0") {
			t.Errorf("%s is offered while team/train has the GPU to itself", d.ID)
		}
	}
	if _, err := b.kubelet.Allocate(b.ctx, "nvidia.com/gpu", []string{"GPU-0::1"}); err == nil || !strings.Contains(err.Error(), "team/train still holds GPU-0") {
		t.Errorf("a slice of a GPU that is held: %v", err)
	}
	b.holder.set(errors.New("away"))
	b.apply(shared(2, 10)) // what is withheld stays so
	b.sees("gpu 20/10")
	b.holder.set(nil) // the pod ends
	b.sees("gpu 20/20")
}

func TestManagerCountsWhatItHasJustGranted(t *testing.T) {
	b := start(t, func(b *bench, c *Config) { c.Holder = b.holder })
	b.apply(whole(2))
	b.sees("gpu 2/2")
	if _, err := b.kubelet.Allocate(b.ctx, "nvidia.com/gpu", []string{"GPU-1"}); err != nil {
		t.Fatal(err)
	}
	b.apply(shared(2, 3)) // although the kubelet does not name the pod yet
	b.sees("gpu 6/3")
}

func TestManagerKeepsWhatItServesWhenInDoubt(t *testing.T) {
	b := start(t, func(b *bench, c *Config) { c.Holder = b.holder })
	b.holder.set(errors.New("no such socket"))
	b.apply(whole(2)) // the first config has nothing to lose
	b.sees("gpu 2/2")
	var busy *BusyError
	if err := b.manager.Apply(b.ctx, plan(shared(2, 10))); !errors.As(err, &busy) || !strings.Contains(err.Error(), "no such socket") {
		t.Fatalf("switched without knowing who holds what: %v", err)
	}
	b.apply(whole(2)) // the same devices are no switch
	same := whole(2)
	same.Kind = model.MPS
	if err := b.manager.Apply(b.ctx, plan(same)); !errors.As(err, &busy) {
		t.Fatalf("MPS began without knowing who holds what: %v", err)
	}
	mps := shared(2, 10)
	mps.Kind = model.MPS
	b.holder.set(nil, Holding{Resource: "nvidia.com/gpu", ID: "GPU-0", Pod: "team/train"})
	if err := b.manager.Apply(b.ctx, plan(mps)); !errors.As(err, &busy) || !cmp.Equal(busy.Holders, []string{"team/train"}) {
		t.Fatalf("MPS began under a pod: %v", err)
	}
	b.sees("gpu 2/2")
	b.holder.set(nil)
	b.apply(mps)
	b.sees("gpu 20/20")
}

// A full disk, as far as a socket needs one.
func TestManagerTriesAgainWhenSocketsCannotBeMade(t *testing.T) {
	b := start(t, nil)
	var mu sync.Mutex
	left := 2
	b.manager.listen = func(network, address string) (net.Listener, error) {
		mu.Lock()
		defer mu.Unlock()
		if left--; left >= 0 {
			return nil, &net.OpError{Op: "listen", Net: network, Err: syscall.ENOSPC}
		}
		return net.Listen(network, address)
	}
	b.apply(whole(1))
	if err := b.manager.Ready(); err == nil {
		t.Error("ready without a socket")
	}
	b.sees("gpu 1/1")
}

// flaky is a listener that ends by itself.
type flaky struct {
	net.Listener
	fail chan struct{}
}

func (f flaky) Accept() (net.Conn, error) {
	<-f.fail
	return nil, errors.New("broken")
}

func TestManagerGivesUpOnAServerThatCrashesWithoutEnd(t *testing.T) {
	b := start(t, func(_ *bench, c *Config) { c.KubeletSocket = "" })
	broken := make(chan struct{})
	close(broken)
	b.manager.listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return flaky{l, broken}, err
	}
	b.apply(whole(1))
	select {
	case <-b.manager.done:
	case <-b.ctx.Done():
		t.Fatal("the manager goes on")
	}
	if err := b.stop(); err == nil || !strings.Contains(err.Error(), "crashed 6 times within an hour") {
		t.Errorf("ended with %v", err)
	}
	b.stop = func() error { return nil } // it has been judged
}

func TestManagerCountsForPrometheus(t *testing.T) {
	metrics := NewMetrics()
	b := start(t, func(b *bench, c *Config) {
		c.Holder, c.Metrics = b.holder, metrics
		c.LastXids = func() map[string]uint64 { return map[string]uint64{"GPU-1": 48} }
	})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics)
	b.apply(shared(2, 4))
	b.sees("gpu 8/8")
	b.health <- []Verdict{{UUID: "GPU-1", Reason: "Xid 48"}}
	b.sees("gpu 8/4")
	if _, err := b.kubelet.Allocate(b.ctx, "nvidia.com/gpu", []string{"GPU-0::1"}); err != nil {
		t.Fatal(err)
	}
	b.holder.set(nil, Holding{Resource: "nvidia.com/gpu", ID: "GPU-0::1", Pod: "a/b"})
	want := `
# HELP kerf_node_config_info the device config that is served
# TYPE kerf_node_config_info gauge
kerf_node_config_info{config="test"} 1
# HELP kerf_node_device_allocated allocations of a device under a resource, as the kubelet reports them
# TYPE kerf_node_device_allocated gauge
kerf_node_device_allocated{resource="nvidia.com/gpu",uuid="GPU-0"} 1
kerf_node_device_allocated{resource="nvidia.com/gpu",uuid="GPU-1"} 0
# HELP kerf_node_device_healthy 1 when the device is offered as healthy, 0 when not; the reason says why
# TYPE kerf_node_device_healthy gauge
kerf_node_device_healthy{gpu="GPU-0",index="0",reason="",uuid="GPU-0"} 1
kerf_node_device_healthy{gpu="GPU-1",index="1",reason="Xid 48",uuid="GPU-1"} 0
# HELP kerf_node_device_last_xid last Xid error of a GPU; absent when it had none
# TYPE kerf_node_device_last_xid gauge
kerf_node_device_last_xid{uuid="GPU-1"} 48
# HELP kerf_node_resource_devices devices of a resource, by what the kubelet is told
# TYPE kerf_node_resource_devices gauge
kerf_node_resource_devices{health="healthy",resource="nvidia.com/gpu"} 4
kerf_node_resource_devices{health="unhealthy",resource="nvidia.com/gpu"} 4
# HELP kerf_node_resource_withheld devices of a resource that wait for pods of an earlier config to end
# TYPE kerf_node_resource_withheld gauge
kerf_node_resource_withheld{resource="nvidia.com/gpu"} 0
`
	got, latencies := scrape(reg)
	if diff := cmp.Diff(strings.TrimSpace(want), got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if latencies != `kerf_node_allocate_seconds_count{resource="nvidia.com/gpu"} 1` {
		t.Errorf("latency figures: %s", latencies)
	}
}

// scrape returns what Prometheus would read, and apart from it the count of
// answers to Allocate.
func scrape(reg *prometheus.Registry) (rest, count string) {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	var out []string
	for line := range strings.Lines(rec.Body.String()) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "kerf_node_allocate_seconds_count"):
			count = line
		case !strings.Contains(line, "kerf_node_allocate_seconds"):
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n"), count
}
