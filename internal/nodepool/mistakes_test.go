package nodepool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
)

// mistaken is a pool with a bit of everything wrong.
const mistaken = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: Mistaken_Pool}
spec:
  labels: {gpu: true}
  kubelet: {maxPods: 20}
  providerRef: {name: default}
  ttlSecondsUntilExpired: 60
  weight: 101
  limits: {resources: {cpu: 10}}
  template:
    requirements:
      - {key: karpenter.k8s.aws/instance-gpu-manufcturer, operator: in, values: NVIDIA}
      - {key: karpenter.sh/nodepool, operator: In, values: [x]}
    spec:
      taint: [{key: a, effect: noschedule}]
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 1h}
`

func TestMistakesAreNamedAndReadByTheirMeaning(t *testing.T) {
	got, notes := Read(parse(t, mistaken))
	want := []string{
		`3 api-refused metadata.name -> give it a name of lower case letters, digits and -`,
		`5 misplaced-field spec.labels -> move it to spec.template.metadata.labels`,
		`5 api-refused spec.labels.gpu -> put the value in quotes`,
		`6 misplaced-field spec.kubelet -> write it at spec.kubelet of the EC2NodeClass`,
		`7 misplaced-field spec.providerRef -> write spec.template.spec.nodeClassRef instead`,
		`8 misplaced-field spec.ttlSecondsUntilExpired -> write spec.template.spec.expireAfter instead`,
		`9 api-refused spec.weight -> give a weight from 1 to 100, or leave it out for 0`,
		`10 misplaced-field spec.limits.resources -> write the resources directly under spec.limits`,
		`12 misplaced-field spec.template.requirements -> move it to spec.template.spec.requirements`,
		`13 api-refused spec.template.requirements[0].operator -> write In`,
		`13 api-refused spec.template.requirements[0].values -> write the values as a list of strings in quotes`,
		`13 api-refused spec.template.requirements[0].key -> write karpenter.k8s.aws/instance-gpu-manufacturer`,
		`13 impossible-value spec.template.requirements[0].values -> write nvidia`,
		`14 api-refused spec.template.requirements[1].key -> remove the requirement: every node of the pool has the label karpenter.sh/nodepool`,
		`16 unknown-field spec.template.spec.taint -> write taints`,
		`17 misplaced-field spec.disruption.expireAfter -> move it to spec.template.spec.expireAfter`,
		`17 consolidate-after spec.disruption -> add consolidateAfter: 0s, or how long a node may stand idle`,
		`17 api-refused spec.disruption.consolidationPolicy -> write WhenEmptyOrUnderutilized`,
	}
	var heads []string
	for _, n := range notes {
		heads = append(heads, fmt.Sprintf("%d %s %s -> %s", n.Place.Line, n.Code, n.Place.Field, n.Fix))
	}
	if diff := cmp.Diff(want, heads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pools := []model.Pool{{
		Name: "Mistaken_Pool", Weight: 100, Labels: map[string]string{"gpu": "true"},
		Requirements: []model.Requirement{{Key: labelManufacturer, Operator: model.In, Values: []string{"NVIDIA"}}},
		Limits:       model.Resources{"cpu": 10_000},
		NodeClass:    "EC2NodeClass/default",
		Kubelet:      model.Kubelet{MaxPods: 20},
		Disruption:   model.Disruption{Policy: "WhenEmptyOrUnderutilized", ExpireAfter: 3600e9},
	}}
	if diff := cmp.Diff(pools, got.Pools, sameMeaning); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sound is a pool that nothing is wrong with; cases replace parts of it.
const sound = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    metadata: {labels: {team: ml}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}]
      taints: [{key: gpu, effect: NoSchedule}]
  disruption: {consolidateAfter: 0s}
  limits: {cpu: 100}
`

// TestWordsOfTheAPIServer hits every rule and bound of the NodePool's schema
// once. A case is a replacement in sound, what the API server says, and whether
// the pool is planned all the same.
func TestWordsOfTheAPIServer(t *testing.T) {
	const family = "[{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}]"
	for name, c := range map[string]struct {
		old, new string
		want     []string // field: words
		unusable bool
	}{
		"a label of Karpenter's domain is dropped": {"team: ml", "karpenter.sh/x: z", []string{
			`spec.template.metadata.labels: Invalid value: label domain "karpenter.sh" is restricted`,
		}, false},
		"the label of the pool is dropped": {"team: ml", "karpenter.sh/nodepool: z", []string{
			`spec.template.metadata.labels: Invalid value: label "karpenter.sh/nodepool" is restricted`,
		}, false},
		"the label of the host is dropped": {"team: ml", "kubernetes.io/hostname: z", []string{
			`spec.template.metadata.labels: Invalid value: label "kubernetes.io/hostname" is restricted`,
		}, false},
		"a label of AWS's domain must be known": {"team: ml", "karpenter.k8s.aws/x: z", []string{
			`spec.template.metadata.labels: Invalid value: label domain "karpenter.k8s.aws" is restricted`,
		}, false},
		"a label value is short and plain": {"team: ml", "team: a b", []string{
			`spec.template.metadata.labels.team: Invalid value: "a b": spec.template.metadata.labels.team in body should match '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'`,
		}, true},
		"a requirement on an unknown label of Karpenter": {"karpenter.k8s.aws/instance-family", "karpenter.sh/zebra", []string{
			`spec.template.spec.requirements[0].key: Invalid value: "karpenter.sh/zebra": label domain "karpenter.sh" is restricted`,
		}, true},
		"a requirement on the host": {"karpenter.k8s.aws/instance-family", "kubernetes.io/hostname", []string{
			`spec.template.spec.requirements[0].key: Invalid value: "kubernetes.io/hostname": label "kubernetes.io/hostname" is restricted`,
		}, true},
		"a requirement on an unknown label of AWS": {"karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-pods", []string{
			`spec.template.spec.requirements[0].key: Invalid value: "karpenter.k8s.aws/instance-pods": label domain "karpenter.k8s.aws" is restricted`,
		}, true},
		"a misspelt label of AWS is read as the one meant": {"instance-family", "instance-familiy", []string{
			`spec.template.spec.requirements[0].key: Invalid value: "karpenter.k8s.aws/instance-familiy": label domain "karpenter.k8s.aws" is restricted`,
		}, false},
		"a key is a qualified name": {"karpenter.k8s.aws/instance-family", "a b", []string{
			`spec.template.spec.requirements[0].key: Invalid value: "a b": spec.template.spec.requirements[0].key in body should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'`,
		}, true},
		"In without values": {"values: [g5]", "values: []", []string{
			`spec.template.spec.requirements: Invalid value: requirements with operator 'In' must have a value defined`,
		}, true},
		"In with no values at all": {", values: [g5]", "", []string{
			`spec.template.spec.requirements: Invalid value: "array": no such key: values evaluating rule: requirements with operator 'In' must have a value defined`,
		}, true},
		"Gt with a word": {"operator: In, values: [g5]", "operator: Gt, values: [g5]", []string{
			`spec.template.spec.requirements: Invalid value: "array": type conversion error from 'string' to 'int' evaluating rule: requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value`,
		}, true},
		"Lte with two numbers": {"operator: In, values: [g5]", `operator: Lte, values: ["1", "2"]`, []string{
			`spec.template.spec.requirements: Invalid value: requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value`,
		}, true},
		"minValues above the number of values": {"values: [g5]", "values: [g5], minValues: 2", []string{
			`spec.template.spec.requirements: Invalid value: requirements with 'minValues' must have at least that many values specified in the 'values' field`,
		}, true},
		"minValues above 50": {"operator: In, values: [g5]", "operator: Exists, minValues: 51", []string{
			`spec.template.spec.requirements[0].minValues: Invalid value: 51: spec.template.spec.requirements[0].minValues in body should be less than or equal to 50`,
		}, true},
		"minValues below 1": {"operator: In, values: [g5]", "operator: Exists, minValues: 0", []string{
			`spec.template.spec.requirements[0].minValues: Invalid value: 0: spec.template.spec.requirements[0].minValues in body should be greater than or equal to 1`,
		}, true},
		"an operator that does not exist": {"operator: In", "operator: Is", []string{
			`spec.template.spec.requirements[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"`,
		}, true},
		"an operator in the wrong case is read": {"operator: In", "operator: IN", []string{
			`spec.template.spec.requirements[0].operator: Unsupported value: "IN": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"`,
		}, false},
		"numbers without quotes are read": {"operator: In, values: [g5]", "operator: In, values: [5]", []string{
			`spec.template.spec.requirements[0].values[0]: Invalid value: "integer": spec.template.spec.requirements[0].values[0] in body must be of type string: "integer"`,
		}, false},
		"more than 100 requirements": {family, "[" + strings.Repeat("{key: a, operator: Exists}, ", 101) + "]", []string{
			`spec.template.spec.requirements: Too many: 101: must have at most 100 items`,
		}, true},
		"no requirements at all are read as none": {"requirements: " + family, "expireAfter: Never", []string{
			`spec.template.spec.requirements: Required value`,
		}, false},
		"no node class is read all the same": {"nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}", "expireAfter: Never", []string{
			`spec.template.spec.nodeClassRef: Required value`,
		}, false},
		"a node class without a name": {"kind: EC2NodeClass, name: default", `kind: EC2NodeClass, name: ""`, []string{
			`spec.template.spec.nodeClassRef.name: Invalid value: "": name may not be empty`,
		}, false},
		"a taint without an effect": {"key: gpu, effect: NoSchedule", "key: gpu", []string{
			`spec.template.spec.taints[0].effect: Required value`,
		}, true},
		"a taint with another effect": {"effect: NoSchedule", "effect: NoWay", []string{
			`spec.template.spec.taints[0].effect: Unsupported value: "NoWay": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}, true},
		"a taint with an unquoted value is read": {"effect: NoSchedule", "effect: NoSchedule, value: true", []string{
			`spec.template.spec.taints[0].value: Invalid value: "boolean": spec.template.spec.taints[0].value in body must be of type string: "boolean"`,
		}, false},
		"a schedule without a duration": {"consolidateAfter: 0s", "consolidateAfter: 0s, budgets: [{nodes: 10%, schedule: '@daily'}]", []string{
			`spec.disruption.budgets: Invalid value: 'schedule' must be set with 'duration'`,
		}, false},
		"a budget of more than all nodes": {"consolidateAfter: 0s", "consolidateAfter: 0s, budgets: [{nodes: 101%}]", []string{
			`spec.disruption.budgets[0].nodes: Invalid value: "101%": spec.disruption.budgets[0].nodes in body should match '^((100|[0-9]{1,2})%|[0-9]+)$'`,
		}, false},
		"a reason that does not exist": {"consolidateAfter: 0s", "consolidateAfter: 0s, budgets: [{nodes: 1%, reasons: [Bored]}]", []string{
			`spec.disruption.budgets[0].reasons[0]: Unsupported value: "Bored": supported values: "Underutilized", "Empty", "Drifted", "Unhealthy"`,
		}, false},
		"more than 50 budgets": {"consolidateAfter: 0s", "consolidateAfter: 0s, budgets: [" + strings.Repeat("{nodes: 1%}, ", 51) + "]", []string{
			`spec.disruption.budgets: Too many: 51: must have at most 50 items`,
		}, false},
		"a duration in days": {"consolidateAfter: 0s", "consolidateAfter: 1d", []string{
			`spec.disruption.consolidateAfter: Invalid value: "1d": spec.disruption.consolidateAfter in body should match '^(([0-9]+(s|m|h))+|Never)$'`,
		}, false},
		"a policy that does not exist": {"consolidateAfter: 0s", "consolidateAfter: 0s, consolidationPolicy: Always", []string{
			`spec.disruption.consolidationPolicy: Unsupported value: "Always": supported values: "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"`,
		}, false},
		"a limit that is no quantity": {"cpu: 100", "cpu: lots", []string{
			`spec.limits.cpu: Invalid value: "lots": spec.limits.cpu in body should match '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'`,
		}, true},
		"a static pool has limits on nodes only": {"limits: {cpu: 100}", "limits: {cpu: 100}\n  replicas: 2", []string{
			`spec: Invalid value: only 'limits.nodes' is supported on static NodePools`,
		}, false},
		"a static pool has no weight": {"limits: {cpu: 100}", "weight: 3\n  replicas: 2", []string{
			`spec: Invalid value: 'weight' is not supported on static NodePools`,
		}, false},
		"replicas below zero": {"limits: {cpu: 100}", "replicas: -1", []string{
			`spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0`,
		}, false},
		"a weight below one": {"limits: {cpu: 100}", "weight: 0", []string{
			`spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1`,
		}, false},
		"more than 100 labels": {"team: ml", manyLabels(101), []string{
			`spec.template.metadata.labels: Too many: 101: must have at most 100 items`,
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(sound, c.old) {
				t.Fatalf("%q is not in the sound pool", c.old)
			}
			got, notes := Read(parse(t, strings.Replace(sound, c.old, c.new, 1)))
			var words []string
			for _, n := range notes {
				if n.Code == "api-refused" {
					words = append(words, n.Place.Field+": "+strings.TrimPrefix(n.Text, "the API server refuses it: "))
					if n.Fix == "" {
						t.Errorf("%s: no fix", n.Place.Field)
					}
				}
			}
			if diff := cmp.Diff(c.want, words); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if unusable := len(got.Pools[0].Unusable) > 0; unusable != c.unusable {
				t.Errorf("unusable is %v, want %v: %+v", unusable, c.unusable, got.Pools[0].Unusable)
			}
		})
	}
}

func manyLabels(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("l%d: x", i))
	}
	return strings.Join(out, ", ")
}

func TestReferencesToNodeClasses(t *testing.T) {
	for name, c := range map[string]struct {
		version, ref string
		extra        string
		want         string   // NodeClass
		notes        []string // severity field -> fix
	}{
		"complete": {"v1", "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}", "", "EC2NodeClass/a", nil},
		"without group and kind in v1": {"v1", "{name: a}", "", "EC2NodeClass/a", []string{
			"error spec.template.spec.nodeClassRef -> add group: karpenter.k8s.aws, kind: EC2NodeClass",
		}},
		"without kind in v1": {"v1", "{group: karpenter.k8s.aws, name: a}", "", "EC2NodeClass/a", []string{
			"error spec.template.spec.nodeClassRef -> add kind: EC2NodeClass",
		}},
		"a version behind the group": {"v1", "{group: karpenter.k8s.aws/v1, kind: EC2NodeClass, name: a}", "", "EC2NodeClass/a", []string{
			"error spec.template.spec.nodeClassRef.group -> write group: karpenter.k8s.aws",
		}},
		"apiVersion in v1": {"v1", "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, name: a}", "", "EC2NodeClass/a", []string{
			"error spec.template.spec.nodeClassRef.apiVersion -> write group: karpenter.k8s.aws",
		}},
		"apiVersion in v1beta1 is right": {"v1beta1", "{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: a}", "", "EC2NodeClass/a", []string{
			"warning apiVersion -> kerf migrate -f in.yaml",
		}},
		"the class of another cloud by its name": {"v1beta1", "{name: a}", "---\napiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\nmetadata: {name: a}\nspec: {imageFamily: Ubuntu}\n", "AKSNodeClass/a", []string{
			"info apiVersion -> ", "warning apiVersion -> kerf migrate -f in.yaml",
			"info spec.template.spec.nodeClassRef -> add group: karpenter.azure.com, kind: AKSNodeClass",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := Read(parse(t, `apiVersion: karpenter.sh/`+c.version+`
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: `+c.ref+`
      requirements: [{key: karpenter.k8s.aws/anything, operator: Exists}]
`+c.extra))
			if !strings.HasPrefix(got.Pools[0].NodeClass, c.want) {
				t.Errorf("node class %q, want %q", got.Pools[0].NodeClass, c.want)
			}
			var said []string
			for _, n := range notes {
				if !strings.Contains(n.Place.Field, "requirements") {
					said = append(said, fmt.Sprintf("%s %s -> %s", n.Severity, n.Place.Field, n.Fix))
				}
			}
			if diff := cmp.Diff(c.notes, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			aws := strings.HasPrefix(c.want, kindClass)
			if refused := len(got.Pools[0].Unusable) > 0; refused != aws {
				t.Errorf("a label of karpenter.k8s.aws that does not exist: refused %v, want %v", refused, aws)
			}
		})
	}
}

func TestValuesThatNoNodeHas(t *testing.T) {
	for name, c := range map[string]struct {
		requirement string
		want        []string
	}{
		"a manufacturer in capitals": {
			"{key: karpenter.k8s.aws/instance-gpu-manufacturer, operator: In, values: [NVIDIA]}",
			[]string{"error: no node has karpenter.k8s.aws/instance-gpu-manufacturer=NVIDIA: its values are in lower case -> write nvidia"},
		},
		"one of two": {
			"{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [A10G, t4]}",
			[]string{"warning: no node has karpenter.k8s.aws/instance-gpu-name=A10G: its values are in lower case -> write a10g"},
		},
		"an architecture by its other name": {
			"{key: kubernetes.io/arch, operator: In, values: [x86_64]}",
			[]string{"error: no node has kubernetes.io/arch=x86_64: its values are amd64, arm64 -> write amd64"},
		},
		"a capacity type misspelt": {
			"{key: karpenter.sh/capacity-type, operator: In, values: [on_demand]}",
			[]string{"error: no node has karpenter.sh/capacity-type=on_demand: its values are on-demand, spot, reserved -> write on-demand"},
		},
		"memory with a unit": {
			"{key: karpenter.k8s.aws/instance-memory, operator: In, values: [16Gi]}",
			[]string{"error: no node has karpenter.k8s.aws/instance-memory=16Gi: its values are whole numbers -> remove it"},
		},
		"a value that no label can have": {
			"{key: team, operator: In, values: [a b]}",
			[]string{"error: karpenter does not use the NodePool: invalid value a b for key team, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?') -> write a value that a label can have"},
		},
		"a label of one's own may have any":   {"{key: team, operator: In, values: [ML]}", nil},
		"what is excluded need not exist":     {"{key: kubernetes.io/arch, operator: NotIn, values: [x86_64]}", nil},
		"what Terraform fills in is not said": {"{key: kubernetes.io/arch, operator: In, values: ['${local.arch}']}", []string{"warning: the values of kubernetes.io/arch are not known, so the plan leaves the requirement out"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes := Read(parse(t, strings.Replace(sound, "{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}", c.requirement, 1)))
			var said []string
			for _, n := range notes {
				s := fmt.Sprintf("%s: %s", n.Severity, n.Text)
				if n.Fix != "" {
					s += " -> " + n.Fix
				}
				said = append(said, s)
				if n.Place.Line != 9 {
					t.Errorf("line %d, want 9", n.Place.Line)
				}
			}
			if diff := cmp.Diff(c.want, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesAreTakenOnce(t *testing.T) {
	old := versions["a pool that never removed a node"][0]
	now := versions["a pool that never removed a node"][2]
	for name, c := range map[string]struct {
		text string
		line int // of the pool that is used
	}{
		"the newer version wins":        {now + "---" + old, 2},
		"of one version the later wins": {now + "---" + now, 17},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := Read(parse(t, c.text))
			if len(got.Pools) != 1 || got.Pools[0].Place.Line != c.line {
				t.Errorf("pools %+v, want the one of line %d", got.Pools, c.line)
			}
			if !slices.ContainsFunc(notes, func(n model.Note) bool { return n.Code == "duplicate-name" && n.Severity == model.Error }) {
				t.Errorf("said %q", said(notes))
			}
		})
	}
}

func TestFieldsThatDoNotExist(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"misspelt in metadata":  {"metadata: {name: gpu}", "metadata: {name: gpu, lables: {a: b}}", "3 metadata.lables -> write labels"},
		"misspelt in the case":  {"nodeClassRef:", "terminationgraceperiod: 1h\n      nodeClassRef:", "8 spec.template.spec.terminationgraceperiod -> write terminationGracePeriod"},
		"in a requirement":      {"values: [g5]", "values: [g5], vlaues: [g6]", "9 spec.template.spec.requirements[0].vlaues -> write values"},
		"like nothing there is": {"limits:", "gpu.sharing/x: 4\n  limits:", "12 spec[gpu.sharing/x] -> remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(sound, c.old, c.new, 1)
			got, notes := Read(parse(t, text))
			var said []string
			for _, n := range notes {
				said = append(said, fmt.Sprintf("%d %s -> %s", n.Place.Line, n.Place.Field, n.Fix))
			}
			if diff := cmp.Diff([]string{c.want}, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Pools[0].Unusable) > 0 {
				t.Errorf("unusable: %+v", got.Pools[0].Unusable)
			}
			m, err := Migrate(parse(t, text))
			if err != nil {
				t.Fatal(err)
			}
			if _, again := Read(parse(t, string(m.YAML))); len(again) > 0 || len(m.Blocked) != 1 {
				t.Errorf("what is written is said to be wrong: %v; blocked %v", again, m.Blocked)
			}
		})
	}
}

func TestUnknownVersionsAreNamed(t *testing.T) {
	got, notes := Read(parse(t, "apiVersion: karpenter.sh/v2\nkind: NodePool\nmetadata: {name: gpu}\n"))
	want := []string{`1 error unknown-version apiVersion: no version "karpenter.sh/v2" of NodePool is known, so it is left out -> write apiVersion: karpenter.sh/v1`}
	if diff := cmp.Diff(want, said(notes)); diff != "" || len(got.Pools) > 0 {
		t.Errorf("%d pools; (-want +got):\n%s", len(got.Pools), diff)
	}
}
