package nodepool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// parse reads the documents of one YAML file called in.yaml.
func parse(t testing.TB, text string) []manifest.Document {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "in.yaml", Data: []byte(text)})
	for _, n := range notes {
		if n.Severity == model.Error {
			t.Fatalf("%s: %s", n.Place, n.Text)
		}
	}
	return docs
}

// said writes notes as "line severity code field: text -> fix".
func said(notes []model.Note) []string {
	var out []string
	for _, n := range notes {
		s := fmt.Sprintf("%d %s %s %s: %s", n.Place.Line, n.Severity, n.Code, n.Place.Field, n.Text)
		if n.Fix != "" {
			s += " -> " + n.Fix
		}
		out = append(out, s)
	}
	return out
}

// sameMeaning compares pools by what they say, not by where they say it.
var sameMeaning = cmp.Options{
	cmpopts.IgnoreFields(model.Pool{}, "Place"), cmpopts.IgnoreFields(model.Requirement{}, "Line"), cmpopts.EquateEmpty(),
}

// versions holds one pool in the three versions of its API.
var versions = map[string][3]string{
	"a shared GPU pool with labels, taints, limits and a spot fallback": {`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: gpu-shared}
spec:
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 2592000
  weight: 10
  labels: {nvidia.com/device-plugin.config: shared_gpu}
  annotations: {karpenter.sh/do-not-evict: "true"}
  requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.12xlarge]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  taints: [{key: nvidia.com/gpu-shared, effect: NoSchedule}]
  startupTaints: [{key: example.com/warming, value: "true", effect: NoExecute}]
  limits: {resources: {cpu: 1k, memory: 1000Gi, nvidia.com/gpu: 16}}
  kubeletConfiguration: {maxPods: 58, kubeReserved: {cpu: 100m, memory: 1Gi}, evictionHard: {memory.available: 5%}}
  providerRef: {name: default}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec:
  amiFamily: Bottlerocket
  instanceProfile: nodes
  subnetSelector: {karpenter.sh/discovery: prod}
  securityGroupSelector: {"aws::ids": "sg-1, sg-2"}
`, `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: gpu-shared}
spec:
  template:
    metadata:
      labels: {nvidia.com/device-plugin.config: shared_gpu}
      annotations: {karpenter.sh/do-not-disrupt: "true"}
    spec:
      nodeClassRef: {name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.12xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
      taints: [{key: nvidia.com/gpu-shared, effect: NoSchedule}]
      startupTaints: [{key: example.com/warming, value: "true", effect: NoExecute}]
      kubelet: {maxPods: 58, kubeReserved: {cpu: 100m, memory: 1Gi}, evictionHard: {memory.available: 5%}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, expireAfter: 720h}
  limits: {cpu: 1k, memory: 1000Gi, nvidia.com/gpu: 16}
  weight: 10
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: Bottlerocket
  instanceProfile: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
  securityGroupSelectorTerms: [{id: sg-1}, {id: sg-2}]
`, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu-shared}
spec:
  template:
    metadata:
      labels: {nvidia.com/device-plugin.config: shared_gpu}
      annotations: {karpenter.sh/do-not-disrupt: "true"}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.12xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
      taints: [{key: nvidia.com/gpu-shared, effect: NoSchedule}]
      startupTaints: [{key: example.com/warming, value: "true", effect: NoExecute}]
      expireAfter: 720h
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
  limits: {cpu: 1k, memory: 1000Gi, nvidia.com/gpu: 16}
  weight: 10
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  instanceProfile: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
  securityGroupSelectorTerms: [{id: sg-1}, {id: sg-2}]
  kubelet: {maxPods: 58, kubeReserved: {cpu: 100m, memory: 1Gi}, evictionHard: {memory.available: 5%}}
`},
	"a pool that says nothing of its instances and consolidates": {`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  consolidation: {enabled: true}
  provider:
    instanceProfile: nodes
    subnetSelector: {karpenter.sh/discovery: prod}
    securityGroupSelector: {karpenter.sh/discovery: prod}
`, `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: Never}
`, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
`},
	"a pool that never removed a node": {`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: steady}
spec:
  requirements:
    - {key: kubernetes.io/os, operator: In, values: [linux]}
    - {key: kubernetes.io/arch, operator: In, values: [arm64]}
    - {key: karpenter.sh/capacity-type, operator: Exists}
    - {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [t4g]}
  providerRef: {name: default}
`, `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: steady}
spec:
  template:
    spec:
      nodeClassRef: {name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [arm64]}
        - {key: karpenter.sh/capacity-type, operator: Exists}
        - {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [t4g]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, expireAfter: Never}
`, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: steady}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [arm64]}
        - {key: karpenter.sh/capacity-type, operator: Exists}
        - {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [t4g]}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`},
}

func TestThreeVersionsGiveOneModel(t *testing.T) {
	for name, texts := range versions {
		t.Run(name, func(t *testing.T) {
			want, notes := Read(parse(t, texts[2]))
			if len(notes) > 0 {
				t.Errorf("v1 is said to be wrong: %q", said(notes))
			}
			for i, version := range []string{"v1alpha5", "v1beta1"} {
				got, notes := Read(parse(t, texts[i]))
				if diff := cmp.Diff(want.Pools, got.Pools, sameMeaning); diff != "" {
					t.Errorf("%s (-v1 +%s):\n%s", version, version, diff)
				}
				for _, n := range notes {
					if n.Severity == model.Error {
						t.Errorf("%s is said to be wrong: %q", version, said([]model.Note{n}))
					}
				}
			}
		})
	}
}

func TestMigratedObjectsAreReadTheSameAndWithoutNotes(t *testing.T) {
	for name, texts := range versions {
		for i, version := range []string{"v1alpha5", "v1beta1", "v1"} {
			t.Run(name+", "+version, func(t *testing.T) {
				want, _ := Read(parse(t, texts[i]))
				m, err := Migrate(parse(t, texts[i]))
				if err != nil {
					t.Fatal(err)
				}
				got, notes := Read(parse(t, string(m.YAML)))
				if len(notes) > 0 {
					t.Errorf("what was written is said to be wrong: %q\n%s", said(notes), m.YAML)
				}
				if diff := cmp.Diff(want.Pools, got.Pools, sameMeaning); diff != "" {
					t.Errorf("(-before +after):\n%s", diff)
				}
				if again, err := Migrate(parse(t, string(m.YAML))); err != nil || !bytes.Equal(again.YAML, m.YAML) || len(again.Changes) > 0 {
					t.Errorf("a second migration changes %v (%v):\n%s", again.Changes, err, cmp.Diff(string(m.YAML), string(again.YAML)))
				}
			})
		}
	}
}

func TestPoolIsReadWhole(t *testing.T) {
	got, notes := Read(parse(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    metadata:
      labels: {team: ml}
      annotations: {note: x}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: absent}
      requirements:
        - {key: beta.kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6], minValues: 2}
        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gte, values: ["1"]}
        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Lt, values: ["8"]}
        - {key: team, operator: Exists}
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      startupTaints: [{key: warm, effect: NoExecute}]
      expireAfter: Never
      terminationGracePeriod: 1h
  disruption:
    consolidationPolicy: Balanced
    consolidateAfter: 1h30m
    budgets: [{nodes: 10%, reasons: [Drifted, Unhealthy], schedule: "@daily", duration: 10m}, {nodes: "3"}]
  limits: {cpu: 1k, memory: 10Gi, nodes: 3, nvidia.com/gpu: 8, ephemeral-storage: 1Ti}
  weight: 50
`))
	want := []model.Pool{{
		Name: "gpu", Weight: 50, Labels: map[string]string{"team": "ml"}, Annotations: map[string]string{"note": "x"},
		Requirements: []model.Requirement{
			{Key: model.LabelArch, Operator: model.In, Values: []string{"amd64"}, Line: 13},
			{Key: "karpenter.k8s.aws/instance-family", Operator: model.In, Values: []string{"g5", "g6"}, MinValues: 2, Line: 14},
			{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: model.Gte, Values: []string{"1"}, Line: 15},
			{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: model.Lt, Values: []string{"8"}, Line: 16},
			{Key: "team", Operator: model.Exists, Line: 17},
		},
		Taints:        []model.Taint{{Key: "nvidia.com/gpu", Value: "true", Effect: model.NoSchedule}},
		StartupTaints: []model.Taint{{Key: "warm", Effect: model.NoExecute}},
		Limits:        model.Resources{"cpu": 1000_000, "memory": 10 << 30, "nodes": 3, "nvidia.com/gpu": 8, "ephemeral-storage": 1 << 40},
		NodeClass:     "EC2NodeClass/absent",
		Disruption:    model.Disruption{Policy: "Balanced", ConsolidateAfter: 90 * time.Minute, ExpireAfter: -1},
		Place:         model.Place{File: "in.yaml", Line: 2, Object: "NodePool gpu"},
	}}
	if diff := cmp.Diff(want, got.Pools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(notes) > 0 {
		t.Errorf("said %q", said(notes))
	}
}

func TestSeeds(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "seeds", "manifests")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no ../shared beside the checkout")
	}
	for file, want := range map[string][]string{
		"000/nodepool.yaml": {
			"1 warning old-version apiVersion", "6 error misplaced-field spec.requirements", "26 error misplaced-field spec.taints",
			"32 error misplaced-field spec.limits.resources", "36 error misplaced-field spec.nodeClassRef", "36 info class-reference spec.nodeClassRef",
			"40 info renamed-value spec.disruption.consolidationPolicy", "41 info moved-field spec.disruption.expireAfter",
		},
		"004/provisioner-gpu-shared.tf": {
			"3 warning old-version apiVersion", "13 info provisioner-defaults spec.requirements", "30 warning not-convertible spec.provider.launchTemplate",
		},
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			docs, _ := source.Parse(source.File{Name: file, Data: data})
			got, notes := Read(docs)
			var heads []string
			for _, s := range said(notes) {
				head, _, _ := strings.Cut(s, ": ")
				heads = append(heads, head)
			}
			if diff := cmp.Diff(want, heads); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Pools) != 1 || len(got.Pools[0].Unusable) > 0 || len(got.Pools[0].Taints) != 1 || got.Pools[0].Limits[model.CPU] != 1000_000 {
				t.Errorf("pool is not read by its meaning: %+v", got.Pools)
			}
		})
	}
}

func TestNothingIsWrittenToTheInputAndTwoRunsAgree(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range versions {
			if !yield(k) {
				return
			}
		}
	}) {
		text.WriteString(versions[name][0] + "\n---\n" + versions[name][1] + "\n---\n")
	}
	docs := parse(t, text.String()+mistaken)
	before := dump(docs)
	firstResult, firstNotes := Read(docs)
	firstMigration, err := Migrate(docs)
	if err != nil {
		t.Fatal(err)
	}
	if after := dump(docs); after != before {
		t.Error("the documents were written to")
	}
	for range 5 {
		result, notes := Read(docs)
		migration, _ := Migrate(docs)
		if diff := cmp.Diff(firstResult, result) + cmp.Diff(firstNotes, notes) + cmp.Diff(firstMigration, migration); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
	}
}

func dump(docs []manifest.Document) string {
	var b strings.Builder
	for _, d := range docs {
		b.Write(d.Root.JSON())
	}
	return b.String()
}

func FuzzRead(f *testing.F) {
	for _, texts := range versions {
		for _, text := range texts {
			f.Add(text)
		}
	}
	f.Add(mistaken)
	f.Add("apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: 3\n")
	f.Add("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nspec: {requirements: {a: b}, provider: x, limits: []}\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, _ := source.Parse(source.File{Name: "in.yaml", Data: []byte(text)})
		Read(docs)
		m, err := Migrate(docs)
		if err != nil {
			return
		}
		if again, notes := source.Parse(source.File{Name: "out.yaml", Data: m.YAML}); len(again) == 0 {
			t.Fatalf("what was written cannot be read: %v\n%s", notes, m.YAML)
		}
	})
}

// BenchmarkRead reads 20 pools, and says what the first of a process costs on top.
func BenchmarkRead(b *testing.B) {
	one, _, _ := strings.Cut(versions["a shared GPU pool with labels, taints, limits and a spot fallback"][2], "---")
	var text strings.Builder
	for i := range 20 {
		text.WriteString(strings.ReplaceAll(one, "gpu-shared}", fmt.Sprintf("gpu-%d}", i)) + "\n---\n")
	}
	docs := parse(b, text.String())
	start := time.Now()
	Read(docs)
	first := time.Since(start)
	for b.Loop() {
		Read(docs)
	}
	b.ReportMetric(float64(first.Microseconds())/1000, "ms-first")
}
