package discovery

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
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

func recording(t *testing.T, name string) nvml.Inventory {
	t.Helper()
	inv, err := nvml.Recording(name)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func sliced(n int64, rename string) deviceconfig.Config {
	return deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: n, Rename: rename}}}}
}

// Every label that the real gpu-feature-discovery gave two mock GPUs, in the
// three configs that were recorded.
func TestLabelsAgreeWithRecordings(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "golden")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no recordings in " + dir)
	}
	for name, cfg := range map[string]deviceconfig.Config{
		"default": {}, "shared_gpu": sliced(10, ""), "renamed": sliced(10, "nvidia.com/gpu.shared"),
	} {
		data, err := os.ReadFile(filepath.Join(dir, "gfd-"+name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{LabelPresent: "true"} // the one that is ours
		for line := range strings.Lines(string(data)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			want[k] = v
		}
		got, _ := Labels(recording(t, "mock"), cfg, time.Time{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-recorded +got):\n%s", name, diff)
		}
	}
}

func TestLabels(t *testing.T) {
	since := time.Unix(1796040000, 0)
	lost := nvml.Inventory{Version: "v1", Unreadable: []nvml.Unreadable{{Index: 0, Why: "lost"}}}
	for name, test := range map[string]struct {
		inv  nvml.Inventory
		want map[string]string // some of them; "" = not set
		none bool
	}{
		"no GPU":                {inv: nvml.Inventory{}, none: true},
		"GPUs and none answers": {inv: lost, want: map[string]string{LabelPresent: "true", "nvidia.com/gpu.count": ""}},
		"since when":            {inv: recording(t, "t4"), want: map[string]string{LabelTimestamp: "1796040000", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.machine": "g4dn.xlarge"}},
		"memory not supported":  {inv: recording(t, "gb10"), want: map[string]string{"nvidia.com/gpu.memory": "", "nvidia.com/gpu.family": "blackwell", "nvidia.com/gpu.machine": "NVIDIA-DGX-Spark"}},
		"unlike models":         {inv: recording(t, "mixed"), want: map[string]string{"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Labels(test.inv, deviceconfig.Config{}, since)
			if (got == nil) != test.none {
				t.Errorf("labels %v", got)
			}
			for k, want := range test.want {
				if v, set := got[k]; v != want || set != (want != "") {
					t.Errorf("%s is %q, want %q", k, v, want)
				}
			}
		})
	}
}

// cluster is as much of an API server as a Node's labels, conditions and events
// need: server-side apply with owners of fields.
type cluster struct {
	t          *testing.T
	labels     map[string]string
	owner      map[string]string // of each label
	conditions map[string]condition
	events     []map[string]any
	refuse     int // HTTP status for every call
}

func newCluster(t *testing.T) (*cluster, *Client) {
	c := &cluster{t: t, labels: map[string]string{}, owner: map[string]string{}, conditions: map[string]condition{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, &Client{HTTP: server.Client(), Server: server.URL, Node: "node-1"}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	if c.refuse != 0 {
		w.WriteHeader(c.refuse)
		fmt.Fprintf(w, `{"kind":"Status","message":"nodes \"node-1\" is forbidden: no"}`)
		return
	}
	switch call := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type"); call {
	case "PATCH /api/v1/nodes/node-1 application/apply-patch+yaml":
		c.apply(body, r.URL.Query().Get("fieldManager"), r.URL.Query().Get("force") == "true", w)
	case "GET /api/v1/nodes/node-1 ":
		var node struct {
			Status struct {
				Conditions []condition `json:"conditions"`
			} `json:"status"`
		}
		node.Status.Conditions = slices.Collect(maps.Values(c.conditions))
		if err := json.NewEncoder(w).Encode(node); err != nil {
			c.t.Error(err)
		}
	case "PATCH /api/v1/nodes/node-1/status application/strategic-merge-patch+json":
		var patch struct {
			Status struct{ Conditions []condition }
		}
		if err := json.Unmarshal(body, &patch); err != nil {
			c.t.Error(err)
		}
		for _, to := range patch.Status.Conditions {
			c.conditions[to.Type] = to
		}
	case "POST /api/v1/namespaces/default/events application/json":
		var e map[string]any
		if err := json.Unmarshal(body, &e); err != nil {
			c.t.Error(err)
		}
		c.events = append(c.events, e)
	default:
		c.t.Errorf("unexpected call %s", call)
	}
}

func (c *cluster) apply(body []byte, manager string, force bool, w http.ResponseWriter) {
	var node struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(body, &node); err != nil {
		c.t.Error(err)
	}
	for k, owner := range c.owner {
		if _, kept := node.Metadata.Labels[k]; owner == manager && !kept {
			delete(c.labels, k)
			delete(c.owner, k)
		}
	}
	for k, v := range node.Metadata.Labels {
		if owner := c.owner[k]; owner != "" && owner != manager && c.labels[k] != v && !force {
			w.WriteHeader(http.StatusConflict)
			return
		}
		c.labels[k], c.owner[k] = v, manager
	}
}

func TestApplyLabelsLeavesOthersAlone(t *testing.T) {
	c, client := newCluster(t)
	c.labels["team"], c.owner["team"] = "a", "kubectl"
	c.labels["nvidia.com/gpu.count"], c.owner["nvidia.com/gpu.count"] = "9", "nfd-master"
	for _, step := range []struct{ set, want map[string]string }{
		{map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.mode": "compute"}, map[string]string{"team": "a", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.mode": "compute"}},
		{map[string]string{"nvidia.com/gpu.count": "1"}, map[string]string{"team": "a", "nvidia.com/gpu.count": "1"}},
		{nil, map[string]string{"team": "a"}},
	} {
		if err := client.ApplyLabels(t.Context(), step.set); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, c.labels); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", step.set, diff)
		}
	}
}

func TestRefusalsSayWhatIsMissing(t *testing.T) {
	c, client := newCluster(t)
	c.refuse = http.StatusForbidden
	err := client.ApplyLabels(t.Context(), nil)
	want := `label node node-1: nodes "node-1" is forbidden: no; the agent's ClusterRole must allow it`
	refused := (*StatusError)(nil)
	if err == nil || err.Error() != want || !errors.As(err, &refused) || refused.Code != http.StatusForbidden {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Since when a node is unhealthy is what repairs are decided by: neither a new
// reason nor a restart of the agent begins anew.
func TestSetConditionKeepsTheTimeOfTransition(t *testing.T) {
	c, client := newCluster(t)
	const name = "AcceleratedHardwareReady"
	before := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	c.conditions["Ready"] = condition{Type: "Ready", Status: "True"}
	set := func(ok bool, reason string) condition {
		t.Helper()
		if err := client.SetCondition(t.Context(), Condition{Type: name, True: ok, Reason: reason, Message: "m"}); err != nil {
			t.Fatal(err)
		}
		return c.conditions[name]
	}
	if got := set(false, "NvidiaXID48Error"); got.Status != "False" || got.Reason != "NvidiaXID48Error" || got.Message != "m" || got.Transition.Before(before) {
		t.Errorf("first: %+v", got)
	}
	old := c.conditions[name]
	old.Transition = before
	c.conditions[name] = old
	if got := set(false, "NvidiaXID79Error"); !got.Transition.Equal(before) || got.Heartbeat.Equal(before) || got.Reason != "NvidiaXID79Error" {
		t.Errorf("another reason: %+v", got)
	}
	if got := set(true, "NvidiaAcceleratedHardwareIsReady"); got.Status != "True" || got.Transition.Equal(before) {
		t.Errorf("recovered: %+v", got)
	}
	if c.conditions["Ready"].Status != "True" {
		t.Error("another condition was changed")
	}
}

func TestSendEvent(t *testing.T) {
	c, client := newCluster(t)
	if err := client.SendEvent(t.Context(), Event{Warning: true, Reason: "GPUUnhealthy", Message: strings.Repeat("é", 1000)}); err != nil {
		t.Fatal(err)
	}
	e := c.events[0]
	object := e["involvedObject"].(map[string]any)
	if e["type"] != "Warning" || e["reason"] != "GPUUnhealthy" || len(e["message"].(string)) > maxMessage || object["kind"] != "Node" || object["name"] != "node-1" {
		t.Errorf("event %v", e)
	}
}

// applier notes what is applied, and fails as often as it is told to.
type applier struct {
	applied []map[string]string
	at      []time.Time
	fail    int
}

func (a *applier) ApplyLabels(_ context.Context, labels map[string]string) error {
	a.at = append(a.at, time.Now())
	if a.fail > 0 {
		a.fail--
		return errors.New("the API server is away")
	}
	a.applied = append(a.applied, labels)
	return nil
}

func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &applier{fail: 3}
		p := NewPublisher(api, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Run(ctx); close(done) }()
		time.Sleep(time.Hour)
		if len(api.at) > 0 {
			t.Error("something is published before it is known")
		}
		begun := time.Now()
		p.Set(map[string]string{"a": "1"})
		time.Sleep(time.Minute)
		if len(api.at) != 4 || api.at[3].Sub(begun) != 7*time.Second || len(api.applied) != 1 {
			t.Errorf("%d calls, applied %v", len(api.at), api.applied)
		}
		p.Set(map[string]string{"a": "2"})
		p.Set(map[string]string{"a": "3"})
		synctest.Wait()
		if last := api.applied[len(api.applied)-1]; last["a"] != "3" {
			t.Errorf("the newest labels are not published: %v", api.applied)
		}
		n := len(api.applied)
		time.Sleep(resync + time.Second)
		if len(api.applied) != n+1 {
			t.Errorf("%d publications after a while, want one more than %d", len(api.applied), n)
		}
		cancel()
		<-done
	})
}
