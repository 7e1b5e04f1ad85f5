package live_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/live"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// aCluster is what the API server of these tests holds.
const aCluster = `apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Node
metadata:
  name: node-1
  uid: n1
  annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}
  labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: spot}
spec: {providerID: "aws:///us-east-1a/i-1", taints: [{key: nvidia.com/gpu, effect: NoSchedule}]}
status:
  allocatable: {cpu: 3920m, memory: 14Gi, pods: "29", nvidia.com/gpu: "4"}
  conditions: [{type: Ready, status: "True"}]
  images: [{names: [huge]}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu, uid: np}
spec:
  template:
    metadata: {labels: {nvidia.com/device-plugin.config: shared}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: gpu-abc, uid: nc, labels: {karpenter.sh/nodepool: gpu}, annotations: {kerf.dev/pods: team-a/trainer-1}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.2xlarge]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, uid: ec}
spec: {role: r, userData: "export PASSWORD=hunter2", amiSelectorTerms: [{tags: {team: gpu}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvdp, namespace: kube-system, uid: ds}
spec:
  selector: {matchLabels: {app: nvdp}}
  template:
    metadata: {labels: {app: nvdp}}
    spec:
      tolerations: [{operator: Exists}]
      volumes: [{name: config, configMap: {name: plugin-configs}}, {name: token, secret: {secretName: s}}]
      initContainers: [{name: init, image: nvcr.io/nvidia/k8s-device-plugin:v0.20.0, command: [config-manager], env: [{name: DEFAULT_CONFIG, value: shared}], volumeMounts: [{name: config, mountPath: /c}]}]
      containers: [{name: plugin, image: nvcr.io/nvidia/k8s-device-plugin:v0.20.0, env: [{name: CONFIG_FILE, value: /config/config.yaml}], volumeMounts: [{name: config, mountPath: /c}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plugin-configs, namespace: kube-system, uid: cm}
data:
  shared: "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app-settings, namespace: team-a, uid: cm2}
data: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: trainer, namespace: team-a, uid: d, annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}
spec:
  replicas: 3
  selector: {matchLabels: {app: trainer}}
  template:
    metadata: {labels: {app: trainer}, annotations: {vault.example.com/token: hunter2, karpenter.sh/do-not-disrupt: "true"}}
    spec:
      containers:
      - name: c
        image: trainer:1
        command: [sh, -c, "login hunter2"]
        args: [--password=hunter2]
        env: [{name: PASSWORD, value: hunter2}, {name: NVIDIA_VISIBLE_DEVICES, value: all}]
        livenessProbe: {exec: {command: [check, hunter2]}}
        resources: {limits: {nvidia.com/gpu: 1}, requests: {cpu: "1"}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: trainer-old, namespace: team-a, uid: rs0, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: trainer, uid: d, controller: true}]}
spec: {replicas: 0, selector: {matchLabels: {app: trainer}}, template: {metadata: {labels: {app: trainer}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer-0, namespace: team-a, uid: p0, labels: {app: trainer}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: trainer-1, uid: rs, controller: true}]}
spec:
  nodeName: node-1
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers: [{name: c, image: i, env: [{name: PASSWORD, value: hunter2}], resources: {limits: {nvidia.com/gpu: "1"}, requests: {cpu: "1", nvidia.com/gpu: "1"}}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer-1, namespace: team-a, uid: p1, labels: {app: trainer}}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "1"}, requests: {cpu: "1", nvidia.com/gpu: "1"}}}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: team-a, uid: p2}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: team-a, uid: s}
stringData: {password: hunter2}
`

// A server answers lists as an API server does, a few objects a page.
type server struct {
	objects  map[string][]map[string]any // by path of their list
	refuse   map[string]int              // status codes by path
	asked    []string
	pageSize int
}

func serve(t *testing.T, text string) *server {
	t.Helper()
	s := &server{objects: map[string][]map[string]any{}, refuse: map[string]int{}, pageSize: 1}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		path := listPath(o["apiVersion"].(string), o["kind"].(string))
		s.objects[path] = append(s.objects[path], o)
	}
	return s
}

func listPath(version, kind string) string {
	prefix := "/apis/"
	if !strings.Contains(version, "/") {
		prefix = "/api/"
	}
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(plural, "classs") {
		plural = strings.TrimSuffix(plural, "s") + "es"
	}
	return prefix + version + "/" + plural
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	list, served := s.objects[r.URL.Path]
	if code := s.refuse[r.URL.Path]; code != 0 || !served {
		if code == 0 {
			code = http.StatusNotFound
		}
		reason := map[int]string{404: "NotFound", 403: "Forbidden", 500: "InternalError"}[code]
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no"})
		return
	}
	from := 0
	if c := r.URL.Query().Get("continue"); c != "" {
		from = int(c[0])
	}
	meta := map[string]any{"resourceVersion": "1"}
	if from+s.pageSize < len(list) {
		meta["continue"] = string(rune(from + s.pageSize))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": meta, "items": list[from:min(len(list), from+s.pageSize)]})
}

// where starts the server and writes a kubeconfig for it.
func (s *server) where(t *testing.T) live.Where {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return live.Where{Kubeconfig: kubeconfig(t, h.URL)}
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: \"" + url + "\"}}]\nusers: [{name: a, user: {}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, s *server) live.Objects {
	t.Helper()
	got, err := s.where(t).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWhatIsSecretStaysInTheCluster(t *testing.T) {
	s := serve(t, aCluster)
	got := read(t, s)
	var b bytes.Buffer
	if err := live.WriteSnapshot(&b, got); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("the snapshot tells a secret:\n%s", b.String())
	}
	for _, want := range []string{"NVIDIA_VISIBLE_DEVICES", "timeSlicing", "DEFAULT_CONFIG", "karpenter.sh/do-not-disrupt", "kerf.dev/pods"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the snapshot lacks %s, which a plan reads", want)
		}
	}
	if slices.Contains(s.asked, "/api/v1/secrets") {
		t.Error("secrets were asked for")
	}
}

// A plan from a snapshot is the plan from the cluster.
func TestASnapshotIsTheCluster(t *testing.T) {
	got := read(t, serve(t, aCluster))
	var b bytes.Buffer
	if err := live.WriteSnapshot(&b, got); err != nil {
		t.Fatal(err)
	}
	fromCluster, err := intake.LoadOver(got.Documents(), nil, intake.Options{Now: got.Taken.UTC().Truncate(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := intake.Load([]source.File{{Name: "snapshot.yaml", Data: b.Bytes()}}, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	places := cmp.Options{
		cmpopts.IgnoreTypes(model.Place{}), cmpopts.IgnoreFields(model.Env{}, "Line"), cmpopts.IgnoreFields(model.Requirement{}, "Line"), cmpopts.EquateEmpty(),
		cmpopts.IgnoreMapEntries(func(_ string, v model.Place) bool { return true }),
	}
	if diff := cmp.Diff(fromCluster.Snapshot, fromFile.Snapshot, places); diff != "" {
		t.Errorf("(-cluster +file):\n%s", diff)
	}
}

func TestTheClusterAsAPlanSeesIt(t *testing.T) {
	got := read(t, serve(t, aCluster))
	loaded, err := intake.LoadOver(got.Documents(), nil, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := loaded.Snapshot
	var pods []string
	for _, p := range s.Pods {
		pods = append(pods, p.Namespace+"/"+p.Name+" on "+p.Node)
	}
	// The third replica does not exist yet; trainer-1 has a node in flight.
	want := []string{"team-a/trainer-0 on node-1", "team-a/trainer-1 on gpu-abc"}
	for _, w := range want {
		if !slices.Contains(pods, w) {
			t.Errorf("%q is not among the pods: %q", w, pods)
		}
	}
	at := slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == "gpu-abc" })
	if at < 0 {
		t.Fatal("the node in flight is missing")
	}
	if n := s.Nodes[at]; n.Allocatable[model.NvidiaGPU] != 4 || n.Unready != "" || n.Allocatable[model.CPU] == 0 {
		t.Errorf("the node in flight, of which only the types are known, is seen as %+v", n)
	}
	if place := s.Pools[0].Place; place.String() != "NodePool gpu" {
		t.Errorf("the pool's place reads %q", place)
	}
}

// "What if I applied this": where the cluster's guard would refuse a pod, no node
// is planned for it.
func TestAPlanGoesByTheGuardOfTheCluster(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: sly, namespace: team-a}
spec: {containers: [{name: c, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}
`
	const hook = `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kerf-guard, uid: vw}
webhooks: [{name: pods.guard.kerf.dev, failurePolicy: Ignore}]
`
	for name, c := range map[string]struct {
		cluster string
		refused bool
	}{"with a guard": {aCluster + hook, true}, "without": {aCluster, false}} {
		t.Run(name, func(t *testing.T) {
			loaded, err := intake.LoadOver(read(t, serve(t, c.cluster)).Documents(), []source.File{{Name: "sly.yaml", Data: []byte(pod)}}, intake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(loaded.Snapshot.Pods, func(p model.Pod) bool { return p.Name == "sly" })
			if i < 0 || len(loaded.Snapshot.Pods[i].Spec.Refused) > 0 != c.refused {
				t.Errorf("the pod is at %d of %+v", i, loaded.Snapshot.Pods)
			}
		})
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		code int
		fail string
		note string
	}{
		"a kind that a plan needs":      {"/api/v1/pods", 403, "list pods: no", ""},
		"a kind that it can do without": {"/api/v1/configmaps", 403, "", "the cluster does not let you list configmaps, so the plan is made without them"},
		"a kind that is not served":     {"/apis/karpenter.k8s.aws/v1/ec2nodeclasses", 404, "", ""},
		"an API server that is broken":  {"/api/v1/namespaces", 500, "list namespaces: no", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, aCluster)
			s.refuse[c.path] = c.code
			got, err := s.where(t).Read(t.Context())
			if text := message(err); text != c.fail {
				t.Errorf("error %q, want %q", text, c.fail)
			}
			var notes []string
			for _, n := range got.Notes {
				notes = append(notes, n.Text)
			}
			if text := strings.Join(notes, "; "); text != c.note {
				t.Errorf("notes %q, want %q", text, c.note)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A scan reads more kinds than a plan, and does with pods alone where it must.
func TestWhatAScanReads(t *testing.T) {
	s := serve(t, aCluster+`---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: team-a, uid: cj}
spec: {schedule: "0 1 * * *", jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: i, args: [hunter2], env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}}}}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: monitor, namespace: team-a, uid: rc}
spec: {devices: {requests: [{name: all, adminAccess: true}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kerf-guard, uid: wh}
webhooks: [{name: pods.guard.kerf.dev, clientConfig: {caBundle: aHVudGVyMg==}}]
`)
	s.refuse["/api/v1/nodes"], s.refuse["/apis/karpenter.sh/v1/nodepools"], s.refuse["/apis/karpenter.sh/v1/nodeclaims"] = 403, 403, 403
	got, err := s.where(t).ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	docs := got.Documents()
	for _, f := range guard.Scan(guard.Read(docs), guard.DefaultExemptions()).Findings {
		found = append(found, f.Rule+" "+f.Place.File)
	}
	want := []string{"env-visible-devices CronJob team-a/nightly", "env-visible-devices Deployment team-a/trainer", "dra-admin-access ResourceClaim team-a/monitor"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if sign := guard.Sign(docs); sign != "ValidatingWebhookConfiguration kerf-guard" {
		t.Errorf("what enforces the guard is %q", sign)
	}
	if len(got.Notes) != 2 || got.Notes[0].Text != "the cluster does not let you list nodes, so the scan is made without them" {
		t.Errorf("notes %+v", got.Notes)
	}
	s.refuse["/api/v1/pods"] = 403
	if _, err := s.where(t).ReadAll(t.Context()); message(err) != "list pods: no" {
		t.Errorf("without pods: %v", err)
	}
	clear(s.refuse)
	if plan := read(t, s); slices.ContainsFunc(plan.List, func(o map[string]any) bool { return o["kind"] == "CronJob" }) {
		t.Error("a plan reads CronJobs")
	}
}

func TestOldVersionsAreNamed(t *testing.T) {
	s := serve(t, strings.ReplaceAll(aCluster, "apiVersion: karpenter.sh/v1\nkind: NodePool", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool"))
	got := read(t, s)
	if len(got.Notes) != 1 || got.Notes[0].Text != "the cluster has 1 nodepools of karpenter.sh/v1beta1, which karpenter 1.15 does not serve" ||
		got.Notes[0].Fix != "kubectl get nodepools.karpenter.sh -o yaml | kerf migrate -f -" {
		t.Errorf("notes %+v", got.Notes)
	}
}

func TestNoCluster(t *testing.T) {
	none := live.Where{Getenv: func(string) string { return "" }}
	if _, err := none.Read(t.Context()); !errors.Is(err, live.ErrNoCluster) {
		t.Errorf("without a kubeconfig: %v", err)
	}
	h := httptest.NewServer(nil)
	h.Close()
	_, err := live.Where{Kubeconfig: kubeconfig(t, h.URL)}.Read(t.Context())
	if why, ok := live.Unreachable(err); !ok || why != h.URL+": connection refused" {
		t.Errorf("nobody listens: %q, %v (%v)", why, ok, err)
	}
	if _, err := (live.Where{Kubeconfig: "no/such/file"}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "no/such/file") {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
	if _, err := (live.Where{Kubeconfig: kubeconfig(t, h.URL), Context: "b"}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a context that is not there: %v", err)
	}
}
