package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kerfdev/kerf/internal/deviceplugin/fakekubelet"
	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a node agent on a recorded machine, with a fake kubelet and, if
// asked for, a fake API server.
type rig struct {
	*testing.T
	ctx     context.Context
	dir     string // of the sockets; configs are in dir/configs
	lib     *nvml.Recorded
	kubelet *fakekubelet.Kubelet
	cluster *apiServer
	reload  chan struct{}
	log     *logs
	serve   Serve
	stop    func() error
}

// logs keeps what was logged, for assertions and for failures.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newRig prepares an agent on a recording and starts nothing but the kubelet.
func newRig(t *testing.T, recording string) *rig {
	t.Helper()
	inv, err := nvml.Recording(recording)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "kerf") // socket paths have to be short
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r := &rig{T: t, ctx: ctx, dir: dir, lib: nvml.NewRecorded(inv), reload: make(chan struct{}), log: &logs{}}
	r.boot()
	r.serve = Serve{
		Given: map[string]string{"kubelet-socket": filepath.Join(dir, "kubelet.sock")}, Env: func(string) (string, bool) { return "", false },
		Open:   func(nodeconfig.Settings) (nvml.Library, error) { return r.lib, nil },
		CDIDir: filepath.Join(dir, "cdi"), Reload: r.reload, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	t.Cleanup(func() {
		if r.stop != nil {
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}
		if r.cluster != nil {
			r.cluster.Close()
		}
		r.kubelet.Stop()
		cancel()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

func (r *rig) boot() {
	r.Helper()
	k, err := fakekubelet.Start(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	r.kubelet = k
}

// start runs the agent.
func (r *rig) start() {
	ctx, end := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- r.serve.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { end(); return <-done })
}

// fails runs the agent and returns the error with which it ends.
func (r *rig) fails() string {
	r.Helper()
	err := r.serve.Run(r.ctx)
	if err == nil {
		r.Fatal("the agent ended without an error")
	}
	return err.Error()
}

// config writes a config file and makes it the agent's only one.
func (r *rig) config(text string) {
	r.Helper()
	r.serve.Source.File = filepath.Join(r.dir, "config.yaml")
	r.write(r.serve.Source.File, text)
}

func (r *rig) write(file, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// mount puts configs into a folder as the kubelet mounts a ConfigMap: files are
// links to ..data, which is a link to a folder that is swapped as a whole.
func (r *rig) mount(configs map[string]string) {
	r.Helper()
	dir := filepath.Join(r.dir, "configs")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		r.Fatal(err)
	}
	r.serve.Source.Dir = dir
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		r.Fatal(err)
	}
	for name, text := range configs {
		r.write(filepath.Join(version, name), text)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			r.Fatal(err)
		}
	}
	tmp := filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(version), tmp), os.Rename(tmp, filepath.Join(dir, "..data"))); err != nil {
		r.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries { // what is no config any more
		if _, ok := configs[e.Name()]; !ok && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// sees waits until the kubelet has these devices: "gpu 20/18" for 20, 18 of
// them healthy.
func (r *rig) sees(want string) {
	r.Helper()
	if err := r.kubelet.Await(r.ctx, func(k *fakekubelet.Kubelet) bool { return devices(k) == want }); err != nil {
		r.Fatalf("waiting for %s: %v, so %s", want, err, devices(r.kubelet))
	}
}

func devices(k *fakekubelet.Kubelet) string {
	capacity, well := k.Capacity(), k.Allocatable()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		out = append(out, fmt.Sprintf("%s %d/%d", strings.TrimPrefix(name, "nvidia.com/"), capacity[name], well[name]))
	}
	return strings.Join(out, ", ")
}

// An apiServer is the part of an API server that the agent talks to.
type apiServer struct {
	*httptest.Server
	mu         sync.Mutex
	changed    chan struct{}
	version    int
	labels     map[string]string // set by people
	info       map[string]string
	applied    map[string]string // set by the agent
	conditions map[string]string // by type: "True Reason: message"
	events     []string
}

// join gives the rig an API server with the node "here".
func (r *rig) join(labels map[string]string) {
	r.Helper()
	c := &apiServer{changed: make(chan struct{}), labels: labels, conditions: map[string]string{}, info: map[string]string{"kubeletVersion": "v1.37.2", "containerRuntimeVersion": "containerd://1.7.2"}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	r.cluster = c
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r.serve.API = &discovery.Client{HTTP: client, Server: c.URL, Node: "here"}
	r.serve.Watch = nodeconfig.API{HTTP: client, Server: c.URL, Node: "here", Log: r.serve.Log}.Watch
}

// label changes the labels that people set.
func (c *apiServer) label(labels map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.labels = labels
	c.wake()
}

func (c *apiServer) wake() {
	c.version++
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *apiServer) node() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "here", "labels": c.labels, "resourceVersion": fmt.Sprint(c.version)},
		"status":   map[string]any{"nodeInfo": c.info},
	}
}

func (c *apiServer) serve(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.Method == "GET" && q.URL.Query().Get("watch") != "":
		c.watch(w, q)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case q.Method == "GET" && q.URL.Path == "/api/v1/nodes":
		if q.URL.Query().Get("fieldSelector") != "metadata.name=here" {
			http.Error(w, `{"message": "all nodes are asked for"}`, http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(c.version)}, "items": []any{c.node()}})
	case q.Method == "GET":
		_ = json.NewEncoder(w).Encode(c.node())
	default:
		c.take(q)
		_, _ = w.Write([]byte("{}"))
	}
}

// take records what the agent writes.
func (c *apiServer) take(q *http.Request) {
	var body struct {
		Metadata struct{ Labels map[string]string }
		Status   struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
		Type, Reason, Message string
	}
	data, _ := io.ReadAll(q.Body)
	_ = json.Unmarshal(data, &body)
	switch {
	case strings.HasSuffix(q.URL.Path, "/events"):
		c.events = append(c.events, body.Type+" "+body.Reason+": "+body.Message)
	case strings.HasSuffix(q.URL.Path, "/status"):
		for _, s := range body.Status.Conditions {
			c.conditions[s.Type] = s.Status + " " + s.Reason + ": " + s.Message
		}
	default:
		c.applied = body.Metadata.Labels
	}
	c.wake()
}

// watch streams the node until the agent goes away.
func (c *apiServer) watch(w http.ResponseWriter, q *http.Request) {
	w.WriteHeader(http.StatusOK)
	sent := q.URL.Query().Get("resourceVersion")
	for {
		c.mu.Lock()
		changed, now := c.changed, fmt.Sprint(c.version)
		event := map[string]any{"type": "MODIFIED", "object": c.node()}
		c.mu.Unlock()
		if now != sent {
			_ = json.NewEncoder(w).Encode(event)
			w.(http.Flusher).Flush()
			sent = now
			continue
		}
		select {
		case <-changed:
		case <-q.Context().Done():
			return
		}
	}
}

// awaits waits until ok is true of the cluster.
func (r *rig) awaits(what string, ok func(c *apiServer) bool) {
	r.Helper()
	for {
		r.cluster.mu.Lock()
		done, changed := ok(r.cluster), r.cluster.changed
		r.cluster.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			r.Fatalf("waiting for %s; conditions %v, events %q, labels %v", what, r.cluster.conditions, r.cluster.events, r.cluster.applied)
		}
	}
}

// says waits for a condition that begins so.
func (r *rig) says(kind, want string) {
	r.Helper()
	r.awaits(kind+" "+want, func(c *apiServer) bool { return strings.HasPrefix(c.conditions[kind], want) })
}
