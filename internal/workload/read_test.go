package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// everything is one object of every kind, with pods, owners and references.
var everything = deployments(3, 7) + dump(2) + workload("StatefulSet", "s", "  replicas: 2\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: gp3}}]\n"+forever) +
	workload("DaemonSet", "d", forever) + workload("Job", "j", once) + workload("CronJob", "c", "  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n    "+once) +
	"---\n" + table("count, cpu, nvidia.com/gpu, gpu-milli", "3, 1, 1, 500") +
	boundClaim + ebs + class("Immediate", "") + `---
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {tier: gold}}
---
apiVersion: v1
kind: Node
metadata: {name: node-0}
status: {allocatable: {cpu: 4, nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: team-1}
spec: {limits: [{type: Container, max: {nvidia.com/gpu: 2}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: team-1}
spec: {hard: {nvidia.com/gpu: 2}, scopes: [Terminating]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}, annotations: {karpenter.sh/do-not-evict: "true"}}
spec:
  runtimeClassName: kata
  priorityClassName: high
  nodeSelector: {karpenter.sh/provisioner-name: gpu}
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {matchLabels: {tier: gold}}, labelSelector: {}, matchLabelKeys: [app]}]}}
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000}}}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {kata: "yes"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: t}
template: {}
`

func TestReadGivesTheSameTwiceAndLeavesItsInputAlone(t *testing.T) {
	docs := parse(t, everything)
	var before []string
	for _, d := range docs {
		before = append(before, string(d.Root.JSON()))
	}
	first, firstNotes := Read(docs, Options{})
	second, secondNotes := Read(docs, Options{})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
	if diff := cmp.Diff(firstNotes, secondNotes); diff != "" {
		t.Errorf("the notes of two runs differ:\n%s", diff)
	}
	for i, d := range docs {
		if diff := cmp.Diff(before[i], string(d.Root.JSON())); diff != "" {
			t.Errorf("%s was written to:\n%s", d.Title(), diff)
		}
	}
	if len(first.Pods) == 0 || len(first.Nodes) == 0 || len(first.DaemonSets) == 0 {
		t.Errorf("%d pods, %d nodes, %d daemonsets", len(first.Pods), len(first.Nodes), len(first.DaemonSets))
	}
}

// manyPods reports whether a fuzzed number would make so many pods that they
// take all the time.
func manyPods(n *manifest.Node) bool {
	if n == nil {
		return false
	}
	if n.Kind == manifest.Number && len(n.Text) > 3 {
		return true
	}
	for _, f := range n.Fields {
		if manyPods(f.Value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Items, manyPods)
}

// FuzzRead feeds Read whatever parses: it must not panic, must name the place
// of every note, and must give every pod a spec that counts for something.
func FuzzRead(f *testing.F) {
	for _, text := range strings.Split(everything, "---\n") {
		f.Add([]byte(text))
	}
	f.Add([]byte(pod(gpus("nvidia.com/gpu: 0.5"))))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","spec":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, _ := source.Parse(source.File{Name: "in.yaml", Data: data})
		for i := range docs {
			if manyPods(docs[i].Root) {
				return
			}
		}
		r, notes := Read(docs, Options{})
		for _, n := range notes {
			if n.Code == "" || n.Text == "" || n.Place.File == "" || n.Place.Object == "" {
				t.Errorf("a note without a code, a text or a place: %+v", n)
			}
		}
		for _, p := range r.Pods {
			if p.Spec == nil || p.Spec.Requests[model.Pods] != 1 || p.Namespace == "" {
				t.Errorf("a pod that counts for nothing: %+v", p)
			}
			for name, n := range p.Spec.Requests {
				if n < 0 {
					t.Errorf("pod %s requests %d of %s", p.Name, n, name)
				}
			}
		}
	})
}
