// Package node holds the checks of kerf-node against the device manager of a
// real kubelet.
package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/mps"
	"github.com/kerfdev/kerf/internal/node"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
	"github.com/kerfdev/kerf/lab/kubelet"
)

func TestMain(m *testing.M) {
	code, err := kubelet.Private(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "skipped:", err)
	}
	os.Exit(code)
}

// An agent is a running kerf-node of which the test sets the node's label.
type agent struct {
	t      *testing.T
	lib    *nvml.Recorded
	dir    string // of the configs
	mu     sync.Mutex
	label  string
	change chan struct{}
	said   discovery.Condition // of the device config
	log    strings.Builder
	stop   func() error
}

// Write keeps the agent's log for a test that fails.
func (a *agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(p)
}

// SetCondition, SendEvent and ApplyLabels are the API server's side.
func (a *agent) SetCondition(_ context.Context, c discovery.Condition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Type == node.ConfigCondition {
		a.said = c
	}
	return nil
}

func (a *agent) SendEvent(context.Context, discovery.Event) error     { return nil }
func (a *agent) ApplyLabels(context.Context, map[string]string) error { return nil }

// says waits until the node's condition has such a message.
func (a *agent) says(ok bool, part string) {
	a.t.Helper()
	await(a.t, fmt.Sprintf("the condition %v: %s", ok, part), func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.said.True == ok && strings.Contains(a.said.Message, part)
	})
}

// daemons stands for MPS daemons that answer.
type daemons struct{}

func (daemons) Apply(context.Context, []mps.Plan) error { return nil }
func (daemons) Run(ctx context.Context)                 { <-ctx.Done() }
func (daemons) Ready() error                            { return nil }

// serve runs kerf-node on an inventory, with configs by name.
func serve(t *testing.T, inv nvml.Inventory, configs map[string]string) *agent {
	t.Helper()
	a := &agent{t: t, lib: nvml.NewRecorded(inv), dir: t.TempDir(), change: make(chan struct{})}
	for name, text := range configs {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.start()
	t.Cleanup(func() {
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(a.log.String())
		}
	})
	return a
}

func (a *agent) start() {
	s := node.Serve{
		Given:  map[string]string{"mps-root": "/run/nvidia/mps"},
		Env:    func(string) (string, bool) { return "", false },
		Source: nodeconfig.Source{Dir: a.dir, Lenient: true}, Watch: a.watch, API: a, MPS: daemons{},
		Open:   func(nodeconfig.Settings) (nvml.Library, error) { return kept{a.lib}, nil },
		CDIDir: filepath.Join(a.dir, "cdi"), Log: slog.New(slog.NewTextHandler(a, nil)),
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	a.stop = sync.OnceValue(func() error { end(); return <-done })
}

// kept is a driver that outlives the agent.
type kept struct{ *nvml.Recorded }

func (kept) Close() error { return nil }

// watch reports the node with the label that the test has set.
func (a *agent) watch(ctx context.Context, seen func(nodeconfig.Node)) {
	for {
		a.mu.Lock()
		label, change := a.label, a.change
		a.mu.Unlock()
		seen(nodeconfig.Node{Name: "here", Labels: map[string]string{model.LabelDeviceConfig: label}})
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
}

// use labels the node with the name of a config.
func (a *agent) use(config string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.label = config
	close(a.change)
	a.change = make(chan struct{})
}

// start starts the kubelet's device manager.
func start(t *testing.T) *kubelet.Manager {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(kubelet.Dir, "kubelet_internal_checkpoint")); err != nil {
		t.Fatal(err)
	}
	m, err := kubelet.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// await waits until ok, and says what was waited for when it never is.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// sees waits until the kubelet has so many devices, as many of them healthy.
func sees(t *testing.T, m *kubelet.Manager, name string, capacity, allocatable int64) {
	t.Helper()
	await(t, fmt.Sprintf("%s %d/%d", name, capacity, allocatable), func() bool {
		c, a := m.Capacity(name)
		return c == capacity && a == allocatable
	})
}

func pod(name, resourceName, amount string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID(name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)},
		}}}},
	}
}

const sliced = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 10}]}}\n"

func TestTwoBecomeTwenty(t *testing.T) {
	const name = "nvidia.com/gpu"
	inv, err := nvml.Recording("mock")
	if err != nil {
		t.Fatal(err)
	}
	m := start(t)
	a := serve(t, inv, map[string]string{
		"default": "", "shared_gpu": sliced, "renamed": "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 10}]}}\n",
	})
	sees(t, m, name, 2, 2)
	a.use("shared_gpu")
	sees(t, m, name, 20, 20)

	grants := map[string]kubelet.Grant{}
	for i := range 10 {
		p := pod(fmt.Sprint("p", i), name, "1")
		g, err := m.Allocate(t.Context(), p, "c")
		if err != nil {
			t.Fatal(err)
		}
		grants[p.Name] = g
	}
	perGPU := map[string]int{}
	for _, g := range grants {
		uuid, _, _ := strings.Cut(g.Devices[name][0], "::")
		perGPU[uuid]++
		if g.Env["NVIDIA_VISIBLE_DEVICES"] != uuid {
			t.Errorf("holds %v and is told %v", g.Devices, g.Env)
		}
	}
	if diff := cmp.Diff(map[string]int{inv.GPUs[0].UUID: 5, inv.GPUs[1].UUID: 5}, perGPU); diff != "" {
		t.Errorf("slices by GPU (-want +got):\n%s", diff)
	}

	if err := m.Restart(); err != nil { // the kubelet
		t.Fatal(err)
	}
	sees(t, m, name, 20, 20)
	again, err := m.Allocate(t.Context(), pod("p0", name, "1"), "c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(grants["p0"], again); diff != "" {
		t.Errorf("p0 after the kubelet's restart (-before +after):\n%s", diff)
	}

	if err := a.stop(); err != nil { // the agent
		t.Fatal(err)
	}
	sees(t, m, name, 20, 0)
	a.start()
	sees(t, m, name, 20, 20)

	if err := a.lib.Do("xid 79 1"); err != nil {
		t.Fatal(err)
	}
	a.use("renamed")
	sees(t, m, name, 0, 0) // at once, not only unhealthy
	if c, _ := m.Capacity("nvidia.com/gpu.shared"); c != 20 {
		await(t, "the new name", func() bool { c, _ := m.Capacity("nvidia.com/gpu.shared"); return c == 20 })
	}
}

// A row is what is taken of internal/gpu's table: configs.
type row struct {
	Name   string
	Config any
}

// What the planner says of a node before it exists is what the kubelet reports
// of it: for every recorded inventory and every config of the table by which
// internal/gpu is tested.
func TestPlannerPredictsWhatTheKubeletReports(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "gpu", "testdata", "sharing.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	// Between two configs comes one that gives what no other does, so that
	// nothing of the one before is taken for the next one's.
	const between = "nvidia.com/gpu.between"
	texts := map[string]string{"default": "sharing: {timeSlicing: {resources: [{name: gpu, rename: gpu.between, replicas: 3}]}}\n"}
	for i, r := range rows {
		text, err := json.Marshal(r.Config)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(slices.Collect(maps.Values(texts)), string(text)) {
			texts[fmt.Sprint("row-", i)] = string(text)
		}
	}
	compared, refused := 0, 0
	for _, name := range nvml.Recordings() {
		t.Run(name, func(t *testing.T) {
			inv, err := nvml.Recording(name)
			if err != nil {
				t.Fatal(err)
			}
			m := start(t)
			a := serve(t, inv, texts)
			for _, config := range slices.Sorted(maps.Keys(texts)) {
				a.use("default")
				sees(t, m, between, 3*int64(len(inv.GPUs)), 3*int64(len(inv.GPUs)))
				want, err := predicted(t, inv, config, texts[config])
				a.use(config)
				if err != nil {
					refused++
					a.says(false, onTheNode(err))
					sees(t, m, between, 3*int64(len(inv.GPUs)), 3*int64(len(inv.GPUs)))
					continue
				}
				compared++
				a.says(true, "device config "+config+" is served")
				await(t, fmt.Sprintf("%v under %s, %s", want, config, texts[config]), func() bool { return cmp.Equal(want, reported(m, want, between)) })
			}
		})
	}
	t.Logf("%d nodes compared, %d configs refused by the planner", compared, refused)
	if compared < 200 {
		t.Errorf("%d nodes were compared, expected hundreds", compared)
	}
}

// onTheNode is how the node says what the planner said: it knows UUIDs.
func onTheNode(err error) string {
	if before, _, ok := strings.Cut(err.Error(), " is named by its UUID"); ok {
		return strings.Replace(before, ": device ", ": the node has no device ", 1)
	}
	return err.Error()
}

// reported is what the kubelet has of the resources that the table can give.
func reported(m *kubelet.Manager, want map[string]int64, more ...string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(want)), more, []string{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpu.small", "nvidia.com/gpu.tiny", "nvidia.com/mig.half"}) {
		if _, n := m.Capacity(name); n > 0 {
			out[name] = n
		}
	}
	return out
}

// predicted asks the planner, which knows the models and the MIG layout of the
// node and nothing of its driver.
func predicted(t *testing.T, inv nvml.Inventory, name, text string) (map[string]int64, error) {
	t.Helper()
	cfg, _, err := nodeconfig.Decode(name, []byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	var machine model.InstanceType
	var layout deviceconfig.MIGConfig
	for i, g := range inv.GPUs {
		product := strings.ReplaceAll(strings.TrimSpace(g.Name), " ", "-")
		machine.GPUs = append(machine.GPUs, model.GPU{Manufacturer: "nvidia", Model: gpu.ModelOf(product), Product: product, MemoryMiB: g.MemoryMiB, Count: 1, Compute: g.Compute})
		entry := deviceconfig.MIGEntry{Devices: deviceconfig.Devices{List: []string{fmt.Sprint(i)}}, Enabled: g.MIG == nvml.MIGEnabled, MIGDevices: map[string]int64{}}
		for _, in := range g.Instances {
			entry.MIGDevices[in.Profile]++
		}
		layout = append(layout, entry)
	}
	sharing := model.Sharing{Configs: map[string]deviceconfig.Config{name: cfg}, MIG: map[string]deviceconfig.MIGConfig{"here": layout}}
	ad, err := gpu.ForNode(machine, sharing, map[string]string{model.LabelDeviceConfig: name, model.LabelMIGConfig: "here"})
	out := map[string]int64{}
	for r, n := range ad.Resources {
		out[r] = n
	}
	return out, err
}
