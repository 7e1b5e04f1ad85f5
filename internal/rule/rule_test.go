package rule

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// A said is what a reader sees of a note.
type said struct {
	Text, Fix string
}

type scenario struct {
	in   model.Snapshot
	want []said // nil for a near miss
}

// run runs one rule over scenarios; every rule's table has hits and misses.
func run(t *testing.T, name string, tests map[string]scenario) {
	t.Helper()
	hits, misses := 0, 0
	for title, tc := range tests {
		if len(tc.want) > 0 {
			hits++
		} else {
			misses++
		}
		t.Run(title, func(t *testing.T) {
			var got []said
			for _, n := range byName(t, name).Run(tc.in) {
				if n.Code != name {
					t.Errorf("code %q, want %q", n.Code, name)
				}
				got = append(got, said{n.Text, n.Fix})
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
		})
	}
	if hits == 0 || misses == 0 {
		t.Errorf("%s has %d hits and %d near misses", name, hits, misses)
	}
}

func byName(t *testing.T, name string) Rule {
	t.Helper()
	for _, r := range All() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no rule %s", name)
	return Rule{}
}

// The types that the tests' clouds sell.
func instanceType(name, gpuModel, maker string, count int64) model.InstanceType {
	family, _, _ := strings.Cut(name, ".")
	t := model.InstanceType{
		Name: name,
		Labels: map[string]string{
			model.LabelInstanceType: name, model.LabelArch: "amd64",
			"karpenter.k8s.aws/instance-category":   name[:1],
			"karpenter.k8s.aws/instance-family":     family,
			"karpenter.k8s.aws/instance-generation": name[1:2],
		},
		Offerings: []model.Offering{
			{Zone: "us-east-1a", CapacityType: model.Spot, Price: float64(len(name))},
			{Zone: "us-east-1a", CapacityType: model.OnDemand, Price: 2 * float64(len(name))},
		},
	}
	if gpuModel != "" {
		t.GPUs = []model.GPU{{Manufacturer: maker, Model: gpuModel, Count: count, Fraction: 1}}
		t.Labels["karpenter.k8s.aws/instance-gpu-manufacturer"] = maker
		t.Labels["karpenter.k8s.aws/instance-gpu-name"] = gpuModel
	}
	return t
}

var types = []model.InstanceType{
	instanceType("m5.large", "", "", 0),
	instanceType("g4dn.xlarge", "t4", "nvidia", 1),
	instanceType("g4dn.2xlarge", "t4", "nvidia", 1),
	instanceType("g4dn.12xlarge", "t4", "nvidia", 4),
	instanceType("g5.xlarge", "a10g", "nvidia", 1),
	instanceType("g4ad.xlarge", "radeon-pro-v520", "amd", 1),
	instanceType("g3.4xlarge", "m60", "nvidia", 1),
}

func in(key string, values ...string) model.Requirement {
	return model.Requirement{Key: key, Operator: model.In, Values: values}
}

func taint(key, value string) model.Taint {
	return model.Taint{Key: key, Value: value, Effect: model.NoSchedule}
}

// pool is a pool of g4dn nodes with a taint; edits change it.
func pool(name string, edits ...func(*model.Pool)) model.Pool {
	p := model.Pool{
		Name:         name,
		Requirements: []model.Requirement{in("karpenter.k8s.aws/instance-family", "g4dn")},
		Taints:       []model.Taint{taint("nvidia.com/gpu", "")},
		Place:        model.Place{File: name + ".yaml", Line: 1, Object: "NodePool " + name},
	}
	for _, edit := range edits {
		edit(&p)
	}
	return p
}

func tainted(taints ...model.Taint) func(*model.Pool) {
	return func(p *model.Pool) { p.Taints = taints }
}

func labels(pairs ...string) func(*model.Pool) {
	return func(p *model.Pool) {
		p.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func requires(reqs ...model.Requirement) func(*model.Pool) {
	return func(p *model.Pool) { p.Requirements = reqs }
}

func chart(version string, edits ...func(*model.Plugin)) model.Plugin {
	p := model.Plugin{Name: "nvdp", Chart: true, ChartVersion: version, Place: model.Place{File: "nvdp.yaml", Line: 3, Object: "HelmValues nvdp"}}
	for _, edit := range edits {
		edit(&p)
	}
	return p
}

func cluster(pools []model.Pool, plugins ...model.Plugin) model.Snapshot {
	return model.Snapshot{Types: types, Pools: pools, Plugins: plugins}
}

// pod makes a snapshot of one pod with one container.
func pod(c model.Container, edits ...func(*model.PodSpec)) model.Snapshot {
	spec := &model.PodSpec{
		Requests:   model.Resources{model.CPU: 100}.Plus(c.Limits, 1),
		Containers: []model.Container{c},
		Place:      model.Place{File: "app.yaml", Line: 10, Object: "Pod team-a/app"},
	}
	for _, edit := range edits {
		edit(spec)
	}
	return model.Snapshot{Types: types, Pods: []model.Pod{{Namespace: "team-a", Name: "app", Spec: spec}}}
}

func (s scenario) with(edit func(*model.Snapshot)) scenario {
	edit(&s.in)
	return s
}

func TestEveryRuleIsDescribedOnce(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	var table []string
	for _, r := range All() {
		if !kebab.MatchString(r.Name) || seen[r.Name] {
			t.Errorf("rule name %q is not in kebab-case, or is there twice", r.Name)
		}
		seen[r.Name] = true
		if len(r.Doc) < 60 {
			t.Errorf("%s: the doc is too short to name what it finds and the source", r.Name)
		}
		table = append(table, r.Name+" "+r.Severity.String())
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(\S+) +(\S+) `).FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, m[1]+" "+m[2])
	}
	if d := cmp.Diff(table, listed); d != "" {
		t.Errorf("the package comment's table (-rules +table):\n%s", d)
	}
}

func TestRunSortsAndFolds(t *testing.T) {
	web := func(file string, line int) model.Pod {
		return model.Pod{Namespace: "a", Spec: &model.PodSpec{
			Containers: []model.Container{{Limits: model.Resources{model.NvidiaGPU: 0}}},
			Place:      model.Place{File: file, Line: line},
		}}
	}
	s := model.Snapshot{
		Pods:   []model.Pod{web("b.yaml", 9), web("a.yaml", 30), web("b.yaml", 4), web("b.yaml", 9)},
		Quotas: []model.Quota{{Hard: map[string]string{"nvidia.com/gpu": "4"}, Place: model.Place{File: "b.yaml", Line: 1}}},
	}
	type where struct {
		Code  string
		Place model.Place
		Also  []int
	}
	var got []where
	for _, n := range Run(s) {
		got = append(got, where{n.Code, n.Place, n.Also})
	}
	want := []where{
		{"gpu-zero", model.Place{File: "a.yaml", Line: 30}, nil},
		{"quota-key", model.Place{File: "b.yaml", Line: 1}, nil},
		{"gpu-zero", model.Place{File: "b.yaml", Line: 4}, []int{9}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}

func TestASoundClusterHasNoNotes(t *testing.T) {
	s := pod(model.Container{Name: "c", Limits: model.Resources{model.NvidiaGPU: 1}}, func(p *model.PodSpec) {
		p.Tolerations = []model.Toleration{{Key: model.NvidiaGPU, Operator: "Exists", Effect: model.NoSchedule, Assumed: true}}
	})
	s.Pools = []model.Pool{
		pool("gpu", labels(labelGPUPresent, "true")),
		pool("web", requires(in("karpenter.k8s.aws/instance-family", "m5")), tainted()),
	}
	s.Plugins = []model.Plugin{chart("0.17.4")}
	s.Quotas = []model.Quota{{Hard: map[string]string{"requests.nvidia.com/gpu": "4", "limits.cpu": "10"}}}
	if d := cmp.Diff([]model.Note(nil), Run(s), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	if notes := Run(model.Snapshot{}); len(notes) != 0 {
		t.Errorf("an empty snapshot has notes: %v", notes)
	}
}

func TestRulesDoNotWriteToTheSnapshot(t *testing.T) {
	build := func() model.Snapshot {
		s := pod(model.Container{Name: "c", Privileged: true, Caps: []string{"SYS_ADMIN"}, Env: []model.Env{{Name: guard.VisibleDevices, Value: "all"}}})
		s.Pools = []model.Pool{pool("shared", tainted(taint("z", ""), taint("a", "")), labels(model.LabelDeviceConfig, "x")), pool("gpu", tainted())}
		s.Plugins = []model.Plugin{chart(""), chart("0.14.3")}
		s.Nodes = []model.Node{{Name: "n", Type: "g4dn.xlarge", Taints: []model.Taint{taint("b", "")}}}
		return s
	}
	s := build()
	first := Run(s)
	if d := cmp.Diff(build(), s); d != "" {
		t.Errorf("the snapshot changed:\n%s", d)
	}
	if d := cmp.Diff(first, Run(s)); d != "" {
		t.Errorf("a second run differs:\n%s", d)
	}
}

func BenchmarkRun(b *testing.B) {
	s := model.Snapshot{Plugins: []model.Plugin{chart("0.14.3")}}
	for i := range 1300 {
		kind := types[i%len(types)]
		t := instanceType(kind.Name, "", "", 0)
		t.Name, t.GPUs = t.Name+strconv.Itoa(i), kind.GPUs
		t.Labels[model.LabelInstanceType] = t.Name
		s.Types = append(s.Types, t)
	}
	for i := range 5 {
		s.Pools = append(s.Pools, pool("gpu-"+strconv.Itoa(i), requires(), labels("pool", strconv.Itoa(i))))
	}
	for i := range 10_000 {
		if i%33 > 0 {
			s.Pods = append(s.Pods, s.Pods[i-1])
			continue
		}
		p := pod(model.Container{Name: "c", Limits: oneGPU}, tolerates(model.Toleration{Operator: "Exists"})).Pods[0]
		p.Spec.NodeSelector = map[string]string{"pool": strconv.Itoa(i % 7)}
		s.Pods = append(s.Pods, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		Run(s)
	}
}
