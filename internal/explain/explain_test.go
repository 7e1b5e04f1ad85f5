package explain

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func TestVerdict(t *testing.T) {
	many := strings.Fields("a1 b2 c3 d4 e5 f6 g7 h8")
	for name, test := range map[string]struct {
		in    model.Verdict
		want  string
		fixes []string
	}{
		"the API server's words, the field once": {
			in:   model.Verdict{Code: model.CodeInvalid, Key: "spec.containers[0].resources.limits", Detail: "must be equal to nvidia.com/gpu request of 1"},
			want: "the API server refuses it: spec.containers[0].resources.limits: must be equal to nvidia.com/gpu request of 1",
		},
		"the guard refuses the pod, and says what to do": {
			in: model.Verdict{
				Code: model.CodeGuard, Key: "host-pid", Detail: "the pod sees the node's processes",
				Remedy: []model.Remedy{{Kind: model.RemedyFix, Values: []string{"drop hostPID"}}},
			},
			want: "the guard refuses it: host-pid: the pod sees the node's processes", fixes: []string{"drop hostPID"},
		},
		"a quota in cores": {
			in:   model.Verdict{Code: model.CodeQuota, Key: "requests.cpu", Asked: 500, Used: 3800, Have: 4000},
			want: "the quota of 4 for requests.cpu is used up: 3.8 in use, 0.5 asked",
		},
		"a quota by its own words": {
			in:   model.Verdict{Code: model.CodeQuota, Detail: "exceeded quota: gpus."},
			want: "a quota is used up: exceeded quota: gpus",
		},
		"scheduling gates": {
			in:   model.Verdict{Code: model.CodeGated, Key: "kueue.x-k8s.io/admission", Wanted: []string{"kueue.x-k8s.io/admission"}},
			want: "it waits for its scheduling gates kueue.x-k8s.io/admission",
		},
		"another scheduler": {
			in:   model.Verdict{Code: model.CodeScheduler, Wanted: []string{"hami-scheduler"}, Offered: []string{"default-scheduler"}},
			want: "another scheduler places it: hami-scheduler",
		},
		"resource claims": {
			in:   model.Verdict{Code: model.CodeClaims, Wanted: []string{"gpu"}},
			want: "it uses DRA resource claims (gpu), which are not planned",
		},
		"a volume in one zone": {
			in:   model.Verdict{Code: model.CodeVolume, Pool: "gpu", Key: model.LabelZone, Wanted: []string{"us-east-1a"}, Offered: []string{"us-east-1b"}},
			want: "its volumes can be attached where topology.kubernetes.io/zone is us-east-1a only but the pool sets topology.kubernetes.io/zone=us-east-1b",
		},
		"a claim that does not exist": {
			in:   model.Verdict{Code: model.CodeVolume, Key: "data", Detail: `persistentvolumeclaim "data" not found`},
			want: `persistentvolumeclaim "data" not found`,
		},
		"a pool that is dead": {
			in:   model.Verdict{Code: model.CodeUnusable, Pool: "gpu", Key: "spec.provider", Detail: "launchTemplate is gone since v1beta1"},
			want: "nothing can be launched from it: launchTemplate is gone since v1beta1",
		},
		"a cordoned node": {
			in:   model.Verdict{Code: model.CodeUnusable, Node: "n1", Detail: "cordoned"},
			want: "the node takes no pods: cordoned",
		},
		"a taint and the toleration for it": {
			in: model.Verdict{
				Code: model.CodeTaint, Pool: "gpu", Key: "nvidia.com/gpu-shared", Offered: []string{"NoSchedule"},
				Remedy: []model.Remedy{{Kind: model.RemedyTolerate, Key: "nvidia.com/gpu-shared"}},
			},
			want:  "taint nvidia.com/gpu-shared:NoSchedule is not tolerated",
			fixes: []string{"tolerations: [{key: nvidia.com/gpu-shared, operator: Exists, effect: NoSchedule}]"},
		},
		"a taint with a value": {
			in:   model.Verdict{Code: model.CodeTaint, Key: "sku", Offered: []string{"sku=gpu:NoExecute"}},
			want: "taint sku=gpu:NoExecute is not tolerated",
		},
		"a label of the pool": {
			in: model.Verdict{
				Code: model.CodeRequirement, Pool: "gpu", Key: "node-type", Wanted: []string{"x"}, Offered: []string{"y"},
				Remedy: []model.Remedy{{Kind: model.RemedySetLabel, Key: "node-type", Values: []string{"y"}}, {Kind: model.RemedyLabelPool, Key: "node-type", Values: []string{"x"}}},
			},
			want:  "requirement node-type In [x] but the pool sets node-type=y",
			fixes: []string{"select node-type: y in the pod", "add the label node-type: x to the pool's template"},
		},
		"a label that nothing sets, far from any known one": {
			in:   model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: "name", Wanted: []string{"x"}},
			want: "requirement name In [x] but the pool does not set it",
		},
		"a misspelt well-known label": {
			in:    model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: "node.kubernetes.io/instance-typ", Wanted: []string{"g4dn.xlarge"}},
			want:  "requirement node.kubernetes.io/instance-typ In [g4dn.xlarge] but the pool does not set it",
			fixes: []string{"did you mean node.kubernetes.io/instance-type?"},
		},
		"a misspelt value": {
			in:    model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: "karpenter.k8s.aws/instance-gpu-manufacturer", Wanted: []string{"NVIDIA"}, Offered: []string{"nvidia", "amd"}},
			want:  "requirement karpenter.k8s.aws/instance-gpu-manufacturer In [NVIDIA] but the pool offers nvidia, amd",
			fixes: []string{"did you mean nvidia?"},
		},
		"another architecture is no misspelling": {
			in:   model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: model.LabelArch, Wanted: []string{"amd64"}, Offered: []string{"arm64"}},
			want: "requirement kubernetes.io/arch In [amd64] but the pool sets kubernetes.io/arch=arm64",
		},
		"another family is no misspelling": {
			in:   model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: "karpenter.k8s.aws/instance-family", Wanted: []string{"p4d"}, Offered: []string{"p4de", "p5"}},
			want: "requirement karpenter.k8s.aws/instance-family In [p4d] but the pool offers p4de, p5",
		},
		"two letters swapped": {
			in:    model.Verdict{Code: model.CodeNoType, Pool: "gpu", Key: model.LabelInstanceType, Wanted: []string{"g4dn.xlrage"}, Offered: []string{"g4dn.xlarge"}},
			want:  "no instance type is left after node.kubernetes.io/instance-type In [g4dn.xlrage], where the pool allows g4dn.xlarge",
			fixes: []string{"did you mean g4dn.xlarge?"},
		},
		"another zone is no misspelling": {
			in:   model.Verdict{Code: model.CodeRequirement, Node: "n1", Key: model.LabelZone, Wanted: []string{"us-east-1a"}, Offered: []string{"us-east-1b"}},
			want: "requirement topology.kubernetes.io/zone In [us-east-1a] but the node has topology.kubernetes.io/zone=us-east-1b",
		},
		"another generation is no misspelling": {
			in:   model.Verdict{Code: model.CodeRequirement, Pool: "p", Key: model.LabelInstanceType, Wanted: []string{"g6.xlarge"}, Offered: []string{"g5.xlarge"}},
			want: "requirement node.kubernetes.io/instance-type In [g6.xlarge] but the pool sets node.kubernetes.io/instance-type=g5.xlarge",
		},
		"an operator as written": {
			in:   model.Verdict{Code: model.CodeRequirement, Node: "n1", Key: "gpu-count", Wanted: []string{"Gt", "4"}},
			want: "requirement gpu-count Gt 4 but the node does not have this label",
		},
		"no type after a requirement": {
			in:   model.Verdict{Code: model.CodeNoType, Pool: "gpu", Key: "karpenter.k8s.aws/instance-family", Wanted: []string{"NotIn [g5]"}, Offered: many},
			want: "no instance type is left after karpenter.k8s.aws/instance-family NotIn [g5], where the pool allows a1, b2, c3, d4, e5 and 3 more",
		},
		"no type of that many GPUs": {
			in: model.Verdict{
				Code: model.CodeNoType, Pool: "gpu", Key: model.NvidiaGPU, Asked: 2, Offered: []string{"1", "4"}, Detail: "node.kubernetes.io/instance-type In [g4dn.xlarge, g4dn.12xlarge]",
				Remedy: []model.Remedy{{Kind: model.RemedyAddValue, Key: model.LabelInstanceType, Values: []string{"g5.24xlarge"}}},
			},
			want:  "no type with 2 GPUs: node.kubernetes.io/instance-type In [g4dn.xlarge, g4dn.12xlarge] offers 1 or 4",
			fixes: []string{"add g5.24xlarge to node.kubernetes.io/instance-type in the pool's requirements"},
		},
		"a resource by another name": {
			in: model.Verdict{
				Code: model.CodeNoResource, Pool: "gpu", Key: "nvidia.com/gpu", Config: "shared_gpu", Offered: []string{"nvidia.com/gpu.shared"},
				Remedy: []model.Remedy{{Kind: model.RemedyRename, Key: "nvidia.com/gpu", Values: []string{"nvidia.com/gpu.shared"}}},
			},
			want:  "nothing here advertises nvidia.com/gpu under device config shared_gpu; there is nvidia.com/gpu.shared",
			fixes: []string{"ask for nvidia.com/gpu.shared instead of nvidia.com/gpu"},
		},
		"a misspelt resource": {
			in:    model.Verdict{Code: model.CodeNoResource, Node: "n1", Key: "nvidia.com/gpus", Offered: []string{"nvidia.com/gpu"}},
			want:  "the node does not advertise nvidia.com/gpus; there is nvidia.com/gpu",
			fixes: []string{"did you mean nvidia.com/gpu?"},
		},
		"another MIG profile is no misspelling": {
			in:   model.Verdict{Code: model.CodeNoResource, Pool: "mig", Key: "nvidia.com/mig-1g.5gb", Offered: []string{"nvidia.com/mig-2g.10gb"}},
			want: "nothing here advertises nvidia.com/mig-1g.5gb; there is nvidia.com/mig-2g.10gb",
		},
		"one slice a container": {
			in: model.Verdict{
				Code: model.CodeMaxRequest, Pool: "gpu-shared", Key: model.NvidiaGPU, Asked: 2, Have: 1, Config: "shared_gpu",
				Remedy: []model.Remedy{{Kind: model.RemedyAsk, Key: model.NvidiaGPU, Amount: 1}, {Kind: model.RemedyUsePool, Values: []string{"gpu"}}, {Kind: model.RemedyAllowMore}},
			},
			want:  "one container may ask for at most 1 slice here (failRequestsGreaterThanOne of config shared_gpu); it asks for 2",
			fixes: []string{"ask for nvidia.com/gpu: 1", "select pool gpu (karpenter.sh/nodepool: gpu)", "set failRequestsGreaterThanOne: false in config shared_gpu"},
		},
		"more cores than any type has": {
			in:   model.Verdict{Code: model.CodeTooBig, Pool: "gpu", Key: model.CPU, Asked: 64000, Have: 15890},
			want: "64 cores asked, the largest type here has 15.89",
		},
		"more memory than a node has free": {
			in:   model.Verdict{Code: model.CodeTooBig, Node: "n1", Key: model.Memory, Asked: 8 << 30, Have: 700 << 20},
			want: "8 GiB of memory asked, at most 700 MiB free",
		},
		"too big in every way": {
			in:   model.Verdict{Code: model.CodeTooBig},
			want: "it asks for more than there is",
		},
		"what is not wanted is no misspelling": {
			in:   model.Verdict{Code: model.CodeRequirement, Pool: "gpu", Key: "team", Wanted: []string{"NotIn", "training"}, Offered: []string{"traning"}},
			want: "requirement team NotIn [training] but the pool sets team=traning",
		},
		"no GPU free": {
			in:   model.Verdict{Code: model.CodeTooBig, Node: "n1", Key: model.NvidiaGPU, Asked: 1},
			want: "1 GPU asked, none free",
		},
		"not sold as spot": {
			in:   model.Verdict{Code: model.CodeNoOffering, Pool: "gpu", Key: model.LabelCapacityType, Wanted: []string{"spot"}, Offered: []string{"on-demand"}},
			want: "no type that fits is sold as spot, but as on-demand",
		},
		"not sold in a zone": {
			in:   model.Verdict{Code: model.CodeNoOffering, Pool: "gpu", Key: model.LabelZone, Wanted: []string{"us-east-1e"}, Offered: []string{"us-east-1a", "us-east-1b"}},
			want: "no type that fits is sold in us-east-1e, but in us-east-1a or us-east-1b",
		},
		"too few values": {
			in:   model.Verdict{Code: model.CodeMinValues, Pool: "gpu", Key: "karpenter.k8s.aws/instance-family", Asked: 3, Have: 1, Offered: []string{"g4dn"}},
			want: "only 1 value of karpenter.k8s.aws/instance-family is left and minValues asks for 3: g4dn",
		},
		"a limit on cores": {
			in: model.Verdict{
				Code: model.CodeLimit, Pool: "gpu", Key: model.CPU, Have: 1000000, Used: 998000, Asked: 4000,
				Remedy: []model.Remedy{{Kind: model.RemedyRaiseLimit, Key: model.CPU, Amount: 1002000}},
			},
			want:  "limits.cpu 1000 is used up: 998 in use, 4 asked",
			fixes: []string{"raise limits.cpu to 1002"},
		},
		"a limit on memory": {
			in: model.Verdict{
				Code: model.CodeLimit, Pool: "gpu", Key: model.Memory, Have: 64 << 30, Used: 60 << 30, Asked: 16 << 30,
				Remedy: []model.Remedy{{Kind: model.RemedyRaiseLimit, Key: model.Memory, Amount: 76 << 30}},
			},
			want:  "limits.memory 64 GiB is used up: 60 GiB in use, 16 GiB asked",
			fixes: []string{"raise limits.memory to 76Gi"},
		},
		"a spread": {
			in:   model.Verdict{Code: model.CodeSpread, Key: model.LabelZone, Asked: 1, Offered: []string{"a", "b"}},
			want: "topology spread over topology.kubernetes.io/zone allows a skew of 1, which one more pod in a or b would exceed",
		},
		"pods that must stay together": {
			in:   model.Verdict{Code: model.CodeAffinity, Key: model.LabelHostname, Asked: 5, Have: 3},
			want: "pod affinity over kubernetes.io/hostname keeps 5 pods together, and there is room for 3",
		},
		"pods that keep apart": {
			in:   model.Verdict{Code: model.CodeAffinity, Key: model.LabelZone, Offered: []string{"a"}},
			want: "pod affinity or anti-affinity over topology.kubernetes.io/zone leaves no place in a",
		},
		"a port": {
			in:   model.Verdict{Code: model.CodeHostPort, Node: "n1", Key: "8080/TCP"},
			want: "host port 8080/TCP is taken",
		},
		"fractions of a GPU": {
			in: model.Verdict{
				Code: model.CodeFractional, Pool: "gpu", Offered: []string{"g6f.large", "g6f.xlarge"},
				Remedy: []model.Remedy{{Kind: model.RemedyNameFamily, Values: []string{"g6f"}}},
			},
			want:  "only fractions of a GPU are left (g6f.large, g6f.xlarge), which a pool has to name by family, type or size",
			fixes: []string{"name the family in the pool: karpenter.k8s.aws/instance-family In [g6f]"},
		},
		"a pod without GPUs": {
			in: model.Verdict{
				Code: model.CodeCPUOnGPU, Pool: "gpu",
				Remedy: []model.Remedy{{Kind: model.RemedyDropLabel, Key: "accelerator"}, {Kind: model.RemedyFix, Values: []string{"add a pool without GPUs"}}},
			},
			want:  "pods without GPUs are kept off GPU nodes",
			fixes: []string{"remove accelerator from the pod's nodeSelector or affinity", "add a pool without GPUs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Verdict(test.in)
			if diff := cmp.Diff(Sentence{Text: test.want, Fixes: test.fixes}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// constants returns the values of all constants of a type in internal/model.
func constants(t *testing.T, typeName string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "model", "verdict.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
			return true
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("no constants of type %s", typeName)
	}
	return out
}

// A new code or kind of remedy needs its words; and whatever fields a verdict
// leaves empty, its sentence holds together.
func TestEveryCodeAndRemedyHasWords(t *testing.T) {
	for _, c := range constants(t, "Code") {
		code := model.Code(c)
		if sentences[code] == nil {
			t.Errorf("code %q has no sentence", c)
			continue
		}
		for _, v := range []model.Verdict{
			{Code: code, Key: "k"},
			{Code: code, Pool: "p", Key: "k", Wanted: []string{"w"}},
			{Code: code, Node: "n", Key: "k", Offered: []string{"o"}},
			{Code: code, Key: "k", Detail: "d", Asked: 2, Have: 1, Used: 1},
		} {
			text := Verdict(v).Text
			if text == "" || text == c || strings.Contains(text, "  ") || strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text {
				t.Errorf("code %q reads %q for %+v", c, text, v)
			}
		}
	}
	for _, k := range constants(t, "RemedyKind") {
		fix := Remedy(model.Verdict{Config: "c"}, model.Remedy{Kind: model.RemedyKind(k), Key: "key", Values: []string{"value"}, Amount: 7})
		if fix == "" {
			t.Errorf("remedy %q has no words", k)
		}
	}
	if len(sentences) != len(constants(t, "Code")) || len(remedies) != len(constants(t, "RemedyKind")) {
		t.Error("there are words for codes or remedies that do not exist")
	}
}

func TestGroup(t *testing.T) {
	spec := func(r model.Resources) *model.PodSpec { return &model.PodSpec{Requests: r} }
	small := spec(model.Resources{model.NvidiaGPU: 2, model.CPU: 500, model.Pods: 1})
	large := spec(model.Resources{model.NvidiaGPU: 2, model.CPU: 4000, model.Memory: 8 << 30, model.Pods: 1})
	s := model.Snapshot{Pods: []model.Pod{
		{Namespace: "team-a", Name: "web-1", Owner: "Deployment team-a/web", Spec: small},
		{Namespace: "team-a", Name: "web-2", Owner: "Deployment team-a/web", Spec: small},
		{Namespace: "team-b", Name: "one", Spec: large},
		{Namespace: "team-b", Name: "two", Spec: large},
	}}
	node := func(name string, have int64) model.Verdict {
		return model.Verdict{Code: model.CodeTooBig, Node: name, Key: model.NvidiaGPU, Asked: 2, Have: have}
	}
	taint := func(pool string) model.Verdict {
		return model.Verdict{Code: model.CodeTaint, Pool: pool, Key: "dedicated", Offered: []string{"NoSchedule"}}
	}
	same := []model.Verdict{taint("a"), taint("b"), node("n1", 0), node("n2", 1), {Code: model.CodeTooBig, Node: "n3", Key: model.CPU, Asked: 500, Have: 100}}
	got := Group(s, []model.Refusal{
		{Pods: []int{0, 1}, Verdicts: same},
		{Pods: []int{3}, Verdicts: []model.Verdict{{Code: model.CodeGated, Wanted: []string{"g"}}}},
		{Pods: []int{2}, Verdicts: same},
	})
	want := []Cause{
		{
			Owners: []Owner{{Name: "Deployment team-a/web", Pods: []int{0, 1}}, {Name: "Pod team-b/one", Pods: []int{2}}},
			Count:  3,
			Asks:   "nvidia.com/gpu: 2",
			Reasons: []Reason{
				{Pools: []string{"a", "b"}, Sentence: Sentence{Text: "taint dedicated:NoSchedule is not tolerated"}},
				{Nodes: []string{"n1", "n2"}, Sentence: Sentence{Text: "2 GPUs asked, at most 1 free"}},
				{Nodes: []string{"n3"}, Sentence: Sentence{Text: "0.5 cores asked, at most 0.1 free"}},
			},
		},
		{
			Owners:  []Owner{{Name: "Pod team-b/two", Pods: []int{3}}},
			Count:   1,
			Asks:    "nvidia.com/gpu: 2, cpu 4, memory 8 GiB",
			Reasons: []Reason{{Sentence: Sentence{Text: "it waits for its scheduling gates g"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Pods that do not exist, and pods without a spec, do no harm.
func TestGroupBadInput(t *testing.T) {
	s := model.Snapshot{Pods: []model.Pod{{Name: "x"}}}
	got := Group(s, []model.Refusal{{Pods: []int{-1, 0, 7}}})
	if len(got) != 1 || got[0].Count != 1 || got[0].Asks != "" {
		t.Errorf("got %+v", got)
	}
}

func TestAmounts(t *testing.T) {
	for _, test := range []struct {
		resource         string
		n                int64
		reader, manifest string
	}{
		{model.CPU, 1000, "1 core", "1"},
		{model.CPU, 250, "0.25 cores", "250m"},
		{model.Memory, 3 << 29, "1.5 GiB of memory", "1536Mi"},
		{model.Memory, 1000, "1000 bytes of memory", "1000"},
		{model.EphemeralStorage, 20 << 30, "20 GiB of ephemeral-storage", "20Gi"},
		{model.NvidiaGPU, 1, "1 GPU", "1"},
		{"nvidia.com/gpu.shared", 3, "3 nvidia.com/gpu.shared", "3"},
		{model.Nodes, 3, "3 nodes", "3"},
		{model.Pods, 1, "1 pod", "1"},
	} {
		if got := amount(test.resource, test.n); got != test.reader {
			t.Errorf("%s %d reads %q, want %q", test.resource, test.n, got, test.reader)
		}
		if got := quantity(test.resource, test.n); got != test.manifest {
			t.Errorf("%s %d is written %q, want %q", test.resource, test.n, got, test.manifest)
		}
	}
}

func TestFew(t *testing.T) {
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprint(i))
	}
	for n, want := range map[int]string{0: "", 1: "0", 6: "0, 1, 2, 3, 4, 5", 7: "0, 1, 2, 3, 4 and 2 more", 20: "0, 1, 2, 3, 4 and 15 more"} {
		if got := few(values[:n]); got != want {
			t.Errorf("%d values read %q, want %q", n, got, want)
		}
	}
	if got := either([]string{"a", "b", "c"}); got != "a, b or c" || !slices.Contains([]string{"a"}, either([]string{"a"})) {
		t.Errorf("alternatives read %q", got)
	}
}
