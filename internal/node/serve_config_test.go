package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/health"
	"github.com/kerfdev/kerf/internal/mps"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

const label = "nvidia.com/device-plugin.config"

func named(config string) map[string]string { return map[string]string{label: config} }

func TestLabelChoosesTheConfig(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	r.mount(map[string]string{"default": plain, "shared_gpu": sliced})
	r.start()
	r.sees("gpu 2/2") // no label: the config called default
	r.cluster.label(named("shared_gpu"))
	r.sees("gpu 20/20")
	r.says(ConfigCondition, "True DeviceConfigApplied: device config shared_gpu is served")
	r.cluster.label(nil)
	r.sees("gpu 2/2")
	if n := len(r.kubelet.Registrations()); n != 1 {
		t.Errorf("%d registrations; a config is applied without a restart", n)
	}
}

// A name that does not exist costs nobody a GPU.
func TestLabelNamesNoConfig(t *testing.T) {
	r := newRig(t, "mock")
	r.join(named("typo"))
	r.mount(map[string]string{"default": plain, "shared_gpu": sliced})
	r.start()
	r.sees("gpu 2/2") // to begin with, what nodes without a label get
	r.says(ConfigCondition, `False DeviceConfigNotFound: label nvidia.com/device-plugin.config names the device config "typo", which does not exist; there are default, shared_gpu`)
	r.cluster.label(named("typo2")) // the wrong is not taken for right in between
	r.says(ConfigCondition, `False DeviceConfigNotFound: label nvidia.com/device-plugin.config names the device config "typo2", which does not exist; there are default, shared_gpu; default stays in use`)
	r.awaits("no word of success", func(c *apiServer) bool {
		return !slices.ContainsFunc(c.events, func(e string) bool { return strings.HasPrefix(e, "Normal DeviceConfigApplied") })
	})
	r.cluster.label(named("shared_gpu"))
	r.sees("gpu 20/20")
	r.cluster.label(named("tpyo"))
	r.says(ConfigCondition, `False DeviceConfigNotFound: label nvidia.com/device-plugin.config names the device config "tpyo", which does not exist; there are default, shared_gpu; shared_gpu stays in use`)
	r.awaits("an event", func(c *apiServer) bool {
		for _, e := range c.events {
			if strings.HasPrefix(e, "Warning DeviceConfigNotFound: ") && strings.Contains(e, "tpyo") {
				return true
			}
		}
		return false
	})
	r.sees("gpu 20/20")
	r.mount(map[string]string{"default": plain, "tpyo": alone}) // it appears, and what was in use goes, in one edit
	r.sees("gpu.shared 20/20")
	r.says(ConfigCondition, "True DeviceConfigApplied")
}

// The API server is away when there is something to tell.
func TestConditionsAreToldLater(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	api := &refusing{API: r.serve.API, left: 1}
	r.serve.API = api
	r.config(plain)
	r.start()
	r.sees("gpu 2/2")
	r.says(ConfigCondition, "True DeviceConfigApplied")
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.left > 0 {
		t.Error("nothing was refused")
	}
}

// refusing is an API server that takes no condition at first.
type refusing struct {
	API
	mu   sync.Mutex
	left int
}

func (r *refusing) SetCondition(ctx context.Context, c discovery.Condition) error {
	r.mu.Lock()
	refused := c.Type == ConfigCondition && r.left > 0
	if refused {
		r.left--
	}
	r.mu.Unlock()
	if refused {
		return errors.New("the API server is away")
	}
	return r.API.SetCondition(ctx, c)
}

func TestConfigMapChangesAreApplied(t *testing.T) {
	r := newRig(t, "mock")
	r.join(named("shared_gpu"))
	r.mount(map[string]string{"default": plain, "shared_gpu": sliced})
	r.start()
	r.sees("gpu 20/20")
	r.mount(map[string]string{"default": plain, "shared_gpu": strings.Replace(sliced, "replicas: 10", "replicas: 4", 1)})
	r.sees("gpu 8/8")
	r.mount(map[string]string{"default": plain, "shared_gpu": strings.Replace(sliced, "replicas:", "replica:", 1)})
	r.says(ConfigCondition, "False DeviceConfigInvalid")
	r.sees("gpu 8/8") // the last good one
	r.mount(map[string]string{"default": plain})
	r.says(ConfigCondition, "False DeviceConfigNotFound")
	r.sees("gpu 8/8")
}

func TestNodeWithoutAnyUsableConfigIsNotReady(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	r.listens()
	r.mount(map[string]string{"a": plain, "b": sliced}) // none of them is the default
	r.start()
	r.says(ConfigCondition, "False DeviceConfigNotFound: of the device configs a, b none is the default")
	if code, body := r.get("/readyz"); code != http.StatusServiceUnavailable || body != "no device config is applied yet\n" {
		t.Errorf("readyz says %d %s", code, body)
	}
	r.mount(map[string]string{"a": plain, "default": sliced})
	r.sees("gpu 20/20")
	r.says(ConfigCondition, "True DeviceConfigApplied")
	if code, body := r.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz says %d %s", code, body)
	}
	if code, _ := r.get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz says %d", code)
	}
	if _, body := r.get("/metrics"); !strings.Contains(body, `kerf_node_resource_devices{health="healthy",resource="nvidia.com/gpu"} 20`) || !strings.Contains(body, `kerf_node_config_info{config="default"} 1`) {
		t.Errorf("metrics:\n%s", body)
	}
}

// listens gives the agent a free port.
func (r *rig) listens() {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.serve.Listen = l.Addr().String()
	if err := l.Close(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) get(path string) (code int, body string) {
	r.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + r.serve.Listen + path)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// kubeletPods is the kubelet's pod-resources API with pods of the test's making.
type kubeletPods struct {
	v1.UnimplementedPodResourcesListerServer
	mu   sync.Mutex
	pods []*v1.PodResources
}

func (k *kubeletPods) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &v1.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// holds makes one pod hold devices; without any no pod runs.
func (k *kubeletPods) holds(resource string, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = nil
	if len(ids) > 0 {
		k.pods = []*v1.PodResources{{Name: "train", Namespace: "team", Containers: []*v1.ContainerResources{{Name: "main", Devices: []*v1.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}}}}}
	}
}

// pods serves the pod-resources API to the agent.
func (r *rig) pods() *kubeletPods {
	r.Helper()
	r.serve.PodResources = filepath.Join(r.dir, "pods.sock")
	l, err := net.Listen("unix", r.serve.PodResources)
	if err != nil {
		r.Fatal(err)
	}
	k, server := &kubeletPods{}, grpc.NewServer()
	v1.RegisterPodResourcesListerServer(server, k)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	r.Cleanup(func() { server.Stop(); <-done })
	return k
}

// A GPU that a pod has to itself is not shared under it: its slices wait.
func TestLiveSwitchUnderAnExclusivePod(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	pods := r.pods()
	r.mount(map[string]string{"default": plain, "shared_gpu": sliced})
	r.start()
	r.sees("gpu 2/2")
	if _, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{gpu0}); err != nil {
		t.Fatal(err)
	}
	pods.holds("nvidia.com/gpu", gpu0)
	r.cluster.label(named("shared_gpu"))
	r.sees("gpu 20/10")
	if _, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{gpu0 + "::0"}); err == nil || !strings.Contains(err.Error(), "team/train still holds") {
		t.Errorf("a slice of a GPU that is held alone: %v", err)
	}
	if _, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{gpu1 + "::0"}); err != nil {
		t.Errorf("a slice of the other GPU: %v", err)
	}
}

// noMPS is an MPS without daemons.
type noMPS struct {
	mu    sync.Mutex
	plans int
	err   error
}

func (m *noMPS) Apply(_ context.Context, plans []mps.Plan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(plans) > 0 && m.err != nil {
		return m.err
	}
	m.plans = len(plans)
	return nil
}

func (m *noMPS) Run(ctx context.Context) { <-ctx.Done() }
func (m *noMPS) Ready() error            { return nil }

func TestMPSWaitsForPodsAndDaemons(t *testing.T) {
	r := newRig(t, "a100")
	r.join(nil)
	pods, daemons := r.pods(), &noMPS{err: errors.New("nvidia-cuda-mps-control: not found")}
	r.serve.MPS = daemons
	r.serve.Given["mps-root"] = "/run/nvidia/mps"
	r.mount(map[string]string{"default": plain, "mps": "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}\n"})
	r.start()
	r.sees("gpu 8/8")
	inv, err := r.lib.Inventory(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	pods.holds("nvidia.com/gpu", inv.GPUs[3].UUID)
	r.cluster.label(named("mps"))
	r.says(ConfigCondition, `False DeviceConfigWaiting: config "mps" waits for the pods that hold GPUs to end, since MPS cannot begin or end under them: team/train; default stays in use`)
	pods.holds("")
	r.cluster.label(map[string]string{label: "mps", "again": "1"})
	r.says(ConfigCondition, "False DeviceConfigInvalid: nvidia-cuda-mps-control: not found; default stays in use")
	r.sees("gpu 8/8")
	daemons.mu.Lock()
	daemons.err = nil
	daemons.mu.Unlock()
	r.cluster.label(map[string]string{label: "mps", "again": "2"})
	r.sees("gpu 32/32")
	got, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{inv.GPUs[0].UUID + "::3"})
	if err != nil || got.Envs["CUDA_MPS_PIPE_DIRECTORY"] != "/mps/nvidia.com/gpu/pipe" {
		t.Errorf("a client is told %v, %v", got, err)
	}
}

func TestHealthReachesKubeletAndNode(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	policy, err := health.NewPolicy("", "", "")
	if err != nil {
		t.Fatal(err)
	}
	r.serve.Policy = policy
	r.config(sliced)
	r.start()
	r.sees("gpu 20/20")
	r.says(health.ConditionType, "True")
	if err := r.lib.Do("xid 79 1"); err != nil {
		t.Fatal(err)
	}
	r.sees("gpu 20/10") // every slice of the GPU, and only those
	for _, d := range r.kubelet.Devices("nvidia.com/gpu") {
		if (d.Health == "Healthy") != strings.HasPrefix(d.ID, gpu0) {
			t.Errorf("%s is %s", d.ID, d.Health)
		}
	}
	r.says(health.ConditionType, "False NvidiaXID79Error")
	r.awaits("an event", func(c *apiServer) bool {
		for _, e := range c.events {
			if strings.HasPrefix(e, "Warning GPUHealthChanged: GPU 1") {
				return true
			}
		}
		return false
	})
	// A driver that fails as a whole takes everything out, until it works again.
	if err := r.lib.Do("break unknown error"); err != nil {
		t.Fatal(err)
	}
	r.sees("gpu 20/0")
	if err := r.lib.Do("mend"); err != nil {
		t.Fatal(err)
	}
	r.sees("gpu 20/10")
	// One GPU that is lost does not stand in the way of the others.
	if err := r.lib.Do("lose 1"); err != nil {
		t.Fatal(err)
	}
	got, err := r.kubelet.Prefer(r.ctx, "nvidia.com/gpu", []string{gpu0 + "::1", gpu0 + "::2"}, nil, 1)
	if err != nil || len(got) != 1 {
		t.Errorf("preferred %v, %v", got, err)
	}
}

// A config that these GPUs cannot have is refused with the GPU's name.
func TestMIGLayoutDoesNotFitTheStrategy(t *testing.T) {
	r := newRig(t, "a100-mig") // one GPU is cut into unlike instances, one is whole
	r.join(nil)
	r.mount(map[string]string{"default": "flags: {migStrategy: mixed}\n", "single": "flags: {migStrategy: single}\n"})
	r.start()
	const all = "gpu 1/1, mig-1g.5gb 2/2, mig-2g.10gb 1/1, mig-3g.20gb 1/1"
	r.sees(all)
	r.cluster.label(named("single"))
	r.says(ConfigCondition, "False DeviceConfigInvalid: device config single: migStrategy single needs")
	r.awaits("the GPU's name", func(c *apiServer) bool { return strings.Contains(c.conditions[ConfigCondition], "GPU 0") })
	r.sees(all)
}

// A driver that is not there is an error, or something to wait for.
func TestDriverMissing(t *testing.T) {
	r := newRig(t, "mock")
	missing := &nvml.NotFoundError{Tried: []string{"/driver-root/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.1"}}
	r.serve.Open = func(nodeconfig.Settings) (nvml.Library, error) { return nil, missing }
	if got := r.fails(); !strings.Contains(got, "/driver-root/usr/lib64/libnvidia-ml.so.1") || !strings.Contains(got, "runtimeClassName") || !strings.Contains(got, "--driver-root-ctr-path") {
		t.Errorf("ended with %q", got)
	}
	var mu sync.Mutex
	tries := 0
	r.serve.Open = func(nodeconfig.Settings) (nvml.Library, error) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 1 {
			return nil, missing
		}
		return r.lib, nil
	}
	r.serve.Given["fail-on-init-error"] = "false"
	r.listens()
	r.start()
	for { // until it listens
		if conn, err := net.Dial("tcp", r.serve.Listen); err == nil {
			_ = conn.Close()
			break
		}
		if r.ctx.Err() != nil {
			t.Fatal("it does not listen")
		}
	}
	if code, body := r.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz says %d %s", code, body)
	}
	r.sees("gpu 2/2") // once the driver is there
}

// An enumeration that fails at first is tried again, and a GPU that does not
// answer costs the others nothing.
func TestDriverHiccup(t *testing.T) {
	r := newRig(t, "mock")
	if err := errors.Join(r.lib.Do("break unknown error"), r.lib.Do("lose 0")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tries := 0
	r.serve.Open = func(nodeconfig.Settings) (nvml.Library, error) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 2 {
			_ = r.lib.Do("mend")
		}
		return unclosed{r.lib}, nil
	}
	r.start()
	r.sees("gpu 1/1")
}

// unclosed is a library that can be opened again.
type unclosed struct{ *nvml.Recorded }

func (unclosed) Close() error { return nil }

func TestStrategyFollowsTheRuntime(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet, runtime string
		want             bool
	}{
		"containerd 2":           {"v1.37.2", "containerd://2.1.4", true},
		"containerd 1.7":         {"v1.37.2", "containerd://1.7.28", false},
		"an old kubelet":         {"v1.28.9", "containerd://2.0.0", false},
		"the first kubelet":      {"v1.29.0-eks-5e0fdde", "containerd://2.0.0-rc1", true},
		"CRI-O":                  {"v1.37.2", "cri-o://1.28.0", true},
		"an old CRI-O":           {"v1.37.2", "cri-o://1.27.9", false},
		"another runtime":        {"v1.37.2", "docker://29.0.0", false},
		"nothing is known":       {"", "", false},
		"a version without dots": {"v2", "containerd://2", false},
	} {
		if got := takesCDI(nodeconfig.Node{Kubelet: test.kubelet, Runtime: test.runtime}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	r := newRig(t, "mock")
	r.join(nil)
	r.cluster.info["containerRuntimeVersion"] = "containerd://2.1.4"
	r.start()
	r.sees("gpu 2/2")
	got, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{gpu0})
	if err != nil || len(got.CdiDevices) != 1 || got.Envs["NVIDIA_VISIBLE_DEVICES"] != "" {
		t.Errorf("containerd 2 is told %v, %v", got, err)
	}
}

// Without a place for its spec CDI is no default.
func TestStrategyFallsBackWhenSpecsCannotBeWritten(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	r.cluster.info["containerRuntimeVersion"] = "containerd://2.1.4"
	r.write(filepath.Join(r.dir, "file"), "")
	r.serve.CDIDir = filepath.Join(r.dir, "file", "cdi")
	r.start()
	r.sees("gpu 2/2")
	got, err := r.kubelet.Allocate(r.ctx, "nvidia.com/gpu", []string{gpu0})
	if err != nil || len(got.CdiDevices) != 0 || got.Envs["NVIDIA_VISIBLE_DEVICES"] != gpu0 {
		t.Errorf("the container is told %v, %v", got, err)
	}
}

// Eight GPUs of 48 slices are there within a second of the start, and how the
// GPUs are linked, which takes the driver far longer, keeps nobody waiting.
func TestManySlicesAndASlowDriver(t *testing.T) {
	r := newRig(t, "dgx1-v100")
	r.config(strings.Replace(sliced, "replicas: 10", "replicas: 48", 1))
	began := time.Now()
	r.start()
	r.sees("gpu 384/384")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("registered after %s", took)
	}
	t.Logf("registered after %s", time.Since(began))
}

func TestSlowLinksKeepNobodyWaiting(t *testing.T) {
	r := newRig(t, "dgx1-v100")
	var asked sync.Map
	r.serve.Open = func(nodeconfig.Settings) (nvml.Library, error) { return slowLinks{r.lib, &asked}, nil }
	r.start()
	r.sees("gpu 8/8")
	var all []string
	for _, d := range r.kubelet.Devices("nvidia.com/gpu") {
		all = append(all, d.ID)
	}
	for range 100 {
		got, err := r.kubelet.Prefer(r.ctx, "nvidia.com/gpu", all, nil, 2)
		if err != nil || len(got) != 2 {
			t.Fatalf("preferred %v, %v", got, err)
		}
	}
	n := 0
	asked.Range(func(any, any) bool { n++; return true })
	if n > 1 {
		t.Errorf("the driver was asked %d times how the GPUs are linked", n)
	}
}

// slowLinks is a driver that does not say how GPUs are linked before it ends.
type slowLinks struct {
	*nvml.Recorded
	asked *sync.Map
}

func (s slowLinks) Links(ctx context.Context) ([]nvml.Link, error) {
	s.asked.Store(time.Now(), true)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLinksAreUsedOnceKnown(t *testing.T) {
	r := newRig(t, "dgx1-v100")
	r.start()
	r.sees("gpu 8/8")
	inv, err := r.lib.Inventory(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, g := range inv.GPUs {
		all = append(all, g.UUID)
	}
	for { // the first pair of a DGX-1 with Volta is 0 and 3, once the links are known
		got, err := r.kubelet.Prefer(r.ctx, "nvidia.com/gpu", all, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got[0] == all[0] && got[1] == all[3] {
			return
		}
	}
}

// What happens with a folder of configs that is missing is said.
func TestConfigFolderMissing(t *testing.T) {
	r := newRig(t, "mock")
	r.join(nil)
	r.serve.Source.Dir = filepath.Join(r.dir, "nowhere")
	r.start()
	r.says(ConfigCondition, "False DeviceConfigInvalid: read the folder of configs")
	if err := os.Mkdir(r.serve.Source.Dir, 0o750); err != nil {
		t.Fatal(err)
	}
}
