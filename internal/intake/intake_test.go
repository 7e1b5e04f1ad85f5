package intake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// files names texts f0.yaml, f1.yaml and so on.
func files(texts ...string) []source.File {
	var out []source.File
	for i, text := range texts {
		out = append(out, source.File{Name: fmt.Sprintf("f%d.yaml", i), Data: []byte(text)})
	}
	return out
}

func load(t *testing.T, texts ...string) Loaded {
	t.Helper()
	l, err := Load(files(texts...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// said lists the notes with one of the codes, or all, with place and text.
func said(l Loaded, codes ...string) []string {
	var out []string
	for _, n := range l.Notes {
		if len(codes) == 0 || slices.Contains(codes, n.Code) {
			out = append(out, strings.TrimSpace(n.Place.String()+" "+n.Text))
		}
	}
	return out
}

const (
	pod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: team}\nspec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1, cpu: 500m}}}]}\n"
	pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    metadata: {labels: {team: ml}}\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n" +
		"      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]\n"
)

// replicas makes a Deployment of n such pods, by name.
func replicas(name string, n int) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s, namespace: team}\nspec:\n  replicas: %d\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n"+
		"    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1, cpu: 500m}}}]}\n", name, n)
}

func TestSeeds(t *testing.T) {
	tests := map[string]struct {
		pools, plugins, pods, configs []string
		codes                         []string // of warnings and errors, and where
	}{
		"000": {
			pools: []string{"gpu-nvidia"}, plugins: []string{"nvidia-device-plugin 0.14.3"}, pods: []string{"default/nvidia-smi"},
			codes: []string{"nodepool.yaml:1 old-version", "nodepool.yaml:6 misplaced-field", "nodepool.yaml:26 misplaced-field", "nodepool.yaml:32 misplaced-field", "nodepool.yaml:36 misplaced-field"},
		},
		"002": {pools: []string{"default"}, pods: []string{"default/tensorflow-mnist"}},
		"004": {
			pools: []string{"gpu-shared", "gpu"}, plugins: []string{"nvdp "}, pods: []string{"default/test-gpu-shared-0", "default/test-gpu-0"}, configs: []string{"default", "shared_gpu"},
			codes: []string{
				"gpu-shared.yml:19 dead-label", "gpu.yml:19 dead-label",
				"provisioner-gpu-shared.tf:3 old-version", "provisioner-gpu-shared.tf:8,35 duplicate-key", "provisioner-gpu-shared.tf:30 not-convertible",
				"provisioner-gpu.tf:3 old-version", "provisioner-gpu.tf:8,34 duplicate-key", "provisioner-gpu.tf:29 not-convertible",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := "../../../shared/seeds/manifests/" + name
			in, err := source.Read([]string{root}, nil)
			if err != nil {
				t.Skip("the seeds' manifests are not here: ", err)
			}
			l, err := Load(in, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := l.Snapshot
			var pools, plugins, pods, codes []string
			for _, p := range s.Pools {
				pools = append(pools, p.Name)
			}
			for _, p := range s.Plugins {
				plugins = append(plugins, p.Name+" "+p.ChartVersion)
			}
			for _, p := range s.Pods {
				pods = append(pods, p.Namespace+"/"+p.Name)
			}
			for _, n := range l.Notes {
				if n.Severity == model.Info {
					continue
				}
				where := strings.TrimPrefix(n.Place.String(), root+"/")
				for _, line := range n.Also {
					where += fmt.Sprintf(",%d", line)
				}
				codes = append(codes, where+" "+n.Code)
			}
			for what, d := range map[string]string{
				"pools": cmp.Diff(tt.pools, pools), "plugins": cmp.Diff(tt.plugins, plugins), "pods": cmp.Diff(tt.pods, pods),
				"configs": cmp.Diff(tt.configs, slices.Sorted(maps.Keys(s.Sharing.Configs))), "notes": cmp.Diff(tt.codes, codes),
			} {
				if d != "" {
					t.Errorf("%s (-want +got):\n%s", what, d)
				}
			}
		})
	}
}

func TestNodesAreCompletedFromTheBook(t *testing.T) {
	node := func(name, labels string) string {
		return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", labels: {" + labels + "}}\nstatus: {allocatable: {cpu: '4', memory: 14Gi, pods: '29', nvidia.com/gpu: '10'}}\n"
	}
	g4dn := "node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1b, karpenter.sh/capacity-type: on-demand, nvidia.com/device-plugin.config: ten"
	configs := "config:\n  map:\n    default: ''\n    ten: |\n      version: v1\n      sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 10}]}}\n"
	claim := func(name, status string) string {
		return "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: " + name + ", labels: {" + g4dn + ", karpenter.sh/nodepool: gpu}}\n" +
			"spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}\nstatus: " + status + "\n"
	}
	l := load(t, node("a", g4dn), node("b", "node.kubernetes.io/instance-type: x9.huge"), node("c", ""), configs, claim("came", "{nodeName: a}"), claim("coming", "{}"))
	type row struct {
		Name     string
		Price    float64
		GPUs     int64
		Most     int64
		InFlight bool
	}
	var got []row
	for _, n := range l.Snapshot.Nodes {
		got = append(got, row{n.Name, n.Price, n.Allocatable[model.NvidiaGPU], n.Limits[model.NvidiaGPU], n.InFlight})
	}
	want := []row{{"a", 0.526, 10, 1, false}, {"b", 0, 10, 0, false}, {"c", 0, 10, 0, false}, {"coming", 0.526, 10, 1, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	coming := l.Snapshot.Nodes[3]
	if len(coming.Devices) != 1 || coming.Allocatable[model.CPU] < 3800 || coming.Labels["karpenter.k8s.aws/instance-family"] != "g4dn" {
		t.Errorf("the node in flight is not predicted: %+v", coming)
	}
	wantSaid := []string{
		"f1.yaml:1 the price of node b is not known and counts as 0: the type x9.huge is not in the book of us-east-1",
		"f2.yaml:1 the price of node c is not known and counts as 0: its type is not labelled",
	}
	if diff := cmp.Diff(wantSaid, said(l, "node-price")); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestQuotasAreSpentInTheOrderOfTheInput(t *testing.T) {
	quota := func(hard string) string {
		return "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {" + hard + "}}\n"
	}
	bound := strings.Replace(pod, "spec: {", "spec: {nodeName: n1, ", 1) + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 1}}\n"
	tests := map[string]struct {
		texts   []string
		refused []string
		words   string
	}{
		"GPUs by requests.": {
			[]string{replicas("w", 4), quota("requests.nvidia.com/gpu: 2")},
			[]string{"w-2", "w-3"},
			"exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2",
		},
		"a key without requests. counts nothing": {[]string{replicas("w", 4), quota("nvidia.com/gpu: 2")}, nil, ""},
		"pods that run are counted first": {
			[]string{replicas("w", 2), bound, quota("requests.nvidia.com/gpu: 2")},
			[]string{"w-1"},
			"exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2",
		},
		"the number of pods": {[]string{replicas("w", 2), quota("pods: 1")}, []string{"w-1"}, "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
		"limits of cpu": {
			[]string{replicas("w", 3), quota("limits.cpu: '1'")}, []string{"w-2"}, "exceeded quota: q, requested: limits.cpu=500m, used: limits.cpu=1, limited: limits.cpu=1",
		},
		"an amount that the quota counts and the pod does not give": {
			[]string{replicas("w", 2), quota("requests.memory: 1Gi, limits.memory: 1Gi")}, []string{"w-0", "w-1"}, "failed quota: q: must specify limits.memory for: c; requests.memory for: c",
		},
		"another namespace's quota": {[]string{replicas("w", 2), strings.Replace(quota("pods: 0"), "team", "other", 1)}, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := load(t, tt.texts...)
			var refused []string
			specs := map[*model.PodSpec]bool{}
			words := ""
			for _, p := range l.Snapshot.Pods {
				specs[p.Spec] = true
				for _, v := range p.Spec.Refused {
					if v.Code == model.CodeQuota || v.Code == model.CodeInvalid {
						refused, words = append(refused, p.Name), v.Detail
					}
				}
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" || words != tt.words {
				t.Errorf("refused (-want +got):\n%s%q, want %q", diff, words, tt.words)
			}
			if len(specs) > 3 {
				t.Errorf("%d specs: equal pods must go on sharing one", len(specs))
			}
		})
	}
}

func TestOverlaysChangeTypes(t *testing.T) {
	overlay := func(name, spec string) string {
		return "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
	}
	only := "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]"
	tests := map[string]struct {
		texts []string
		price float64 // of g4dn.xlarge on demand
		extra int64   // of smarter.io/fuse
		words []string
	}{
		"a price":                            {[]string{overlay("a", only+", price: '0.1'")}, 0.1, 0, nil},
		"a discount":                         {[]string{overlay("a", only+", priceAdjustment: '-50%'")}, 0.263, 0, nil},
		"the heavier one wins":               {[]string{overlay("a", only+", price: '0.1'"), overlay("b", only+", weight: 5, price: '0.2'")}, 0.2, 0, nil},
		"a resource":                         {[]string{overlay("a", only+", capacity: {smarter.io/fuse: 3}")}, 0.526, 3, nil},
		"a pool's label that every pool has": {[]string{pool, overlay("a", "requirements: [{key: team, operator: In, values: [ml]}], price: '0.1'")}, 0.1, 0, nil},
		"a pool's label that not every one has": {
			[]string{pool, strings.NewReplacer("name: gpu", "name: cpu", "team: ml", "team: web").Replace(pool), overlay("a", "requirements: [{key: team, operator: In, values: [ml]}], price: '0.1'")},
			0.526, 0,
			[]string{"f2.yaml:1 NodeOverlay a is for some pools only (team), and pool cpu may launch g4dn.xlarge too; kerf knows one price and capacity of a type, so there it is left out"},
		},
		"a pool's label, and types that no other pool launches": {
			[]string{pool, strings.NewReplacer("name: gpu", "name: cpu", "team: ml", "team: web", "[g4dn.xlarge]", "[m5.xlarge]").Replace(pool), overlay("a", only+", price: '0.1', capacity: {smarter.io/fuse: 2}"), overlay("b", "weight: 5, requirements: [{key: team, operator: In, values: [ml]}], price: '0.2'")},
			0.2, 2, nil,
		},
		"a pool's label and what the device configs decide anyway": {
			[]string{pool, strings.NewReplacer("name: gpu", "name: cpu", "team: ml", "team: web").Replace(pool), overlay("a", "requirements: [{key: team, operator: In, values: [ml]}, {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}], capacity: {nvidia.com/gpu: 1}")},
			0.526, 0, nil,
		},
		"nothing that is sold": {
			[]string{overlay("a", "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [x9.huge]}], price: '1'")},
			0.526, 0,
			[]string{"f0.yaml:1 NodeOverlay a matches no instance type that is sold in us-east-1, so it changes nothing"},
		},
		"slices that no device config makes": {
			[]string{pool, overlay("a", only+", capacity: {nvidia.com/gpu: 4}")},
			0.526, 0,
			[]string{"f1.yaml:1 NodeOverlay a says nvidia.com/gpu 4 for g4dn.xlarge, and by the device config of pool gpu it advertises 1; 1 is planned with"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := load(t, append(tt.texts, pod)...)
			i := slices.IndexFunc(l.Snapshot.Types, func(t model.InstanceType) bool { return t.Name == "g4dn.xlarge" })
			typ := l.Snapshot.Types[i]
			if got := priceOf(typ, "us-east-1a", model.OnDemand); fmt.Sprintf("%.4f", got) != fmt.Sprintf("%.4f", tt.price) {
				t.Errorf("price %v, want %v", got, tt.price)
			}
			if got := typ.Allocatable["smarter.io/fuse"]; got != tt.extra || typ.Capacity["smarter.io/fuse"] != tt.extra {
				t.Errorf("extra resource %d, want %d", got, tt.extra)
			}
			if !slices.IsSortedFunc(typ.Offerings, func(a, b model.Offering) int {
				if a.Price < b.Price {
					return -1
				}
				return 0
			}) {
				t.Errorf("offerings are out of order: %v", typ.Offerings)
			}
			if diff := cmp.Diff(tt.words, said(l, "overlay-pool", "overlay-no-match", "overlay-gpu")); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegionIsThatOfTheInput(t *testing.T) {
	zone := strings.Replace(pool, "requirements: [", "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}, ", 1)
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {topology.kubernetes.io/zone: us-west-2b}}\nstatus: {allocatable: {cpu: 1}}\n"
	tests := map[string]struct {
		text   string
		option string
		want   string
		words  []string
	}{
		"nothing names one":      {pod, "", "us-east-1", []string{"instance types and prices are those of us-east-1, as nothing names a region"}},
		"a pool's zones":         {zone, "", "us-west-2", []string{"instance types and prices are those of us-west-2, which NodePool gpu names"}},
		"a node's zone":          {node, "", "us-west-2", []string{"instance types and prices are those of us-west-2, where node n1 runs"}},
		"the option goes before": {zone, "us-east-1", "us-east-1", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := Load(files(tt.text), Options{Region: tt.option})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.words, said(l, "region")); diff != "" || l.Snapshot.Region != tt.want {
				t.Errorf("region %s, want %s; notes (-want +got):\n%s", l.Snapshot.Region, tt.want, diff)
			}
		})
	}
	for zone, want := range map[string]string{"us-east-1a": "us-east-1", "us-central1-a": "us-central1", "cn-beijing-h": "cn-beijing", "eastus-1": "eastus", "": "", "a": "", "x-1a": ""} {
		if got := ofZone(zone, []string{"us-east-1", "us-central1", "cn-beijing", "eastus"}); got != want {
			t.Errorf("zone %q is of region %q, want %q", zone, got, want)
		}
	}
}

func TestUsersFiguresGoBeforeTheBook(t *testing.T) {
	prices := source.File{Name: "my.csv", Data: []byte("region,type,capacityType,zone,price\nus-east-1,g4dn.xlarge,on-demand,,0.4\n")}
	l, err := Load(files(pod), Options{Prices: prices, Now: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(l.Snapshot.Types, func(t model.InstanceType) bool { return t.Name == "g4dn.xlarge" })
	if got := priceOf(l.Snapshot.Types[i], "us-east-1a", model.OnDemand); got != 0.4 {
		t.Errorf("price %v, want the user's 0.4", got)
	}
	if !l.Snapshot.Now.Equal(time.Unix(1, 0)) {
		t.Errorf("now %v", l.Snapshot.Now)
	}
}

func TestLoadFailsOnlyWhenNothingIsOfUse(t *testing.T) {
	tests := map[string]struct {
		files []source.File
		o     Options
		want  string
	}{
		"no file":                 {nil, Options{}, "no file was given"},
		"a file without objects":  {files("# nothing"), Options{}, "f0.yaml holds no object that kerf can read"},
		"files without objects":   {files("a: b", "c: d"), Options{}, "none of the 2 files holds an object that kerf can read"},
		"a file that is no YAML":  {files("a: b: c"), Options{}, "f0.yaml:1: this is not valid YAML, so the document was not read: mapping values are not allowed in this context"},
		"a price file with words": {files(pod), Options{Prices: source.File{Name: "p.json", Data: []byte("{")}}, "p.json: "},
		"a region there is not":   {files(pod), Options{Region: "nowhere"}, "nowhere"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(tt.files, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatIsLeftOutOrAssumedIsSaid(t *testing.T) {
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s%d}\n"
	ray := "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: r%d}\n"
	l := load(t, pod, fmt.Sprintf(service+"---\n"+service+"---\n"+ray+"---\n"+ray, 1, 2, 1, 2)+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", pod)
	want := []string{
		"f0.yaml:1 this object is given again at f2.yaml:1; the last one counts",
		"f1.yaml:9 RayCluster of ray.io (2 of them) is read but not modelled; pods that its controller makes are not in the plan",
		"instance types and prices are those of us-east-1, as nothing names a region",
		"no NodePool is among the files: pods are planned for one named default that takes every Linux amd64 type, spot and on demand, without taints or limits",
		"read but not used, as they neither make pods nor place them: Secret, Service (2 of them)",
		"the admission plugin ExtendedResourceToleration is taken to be on: pods tolerate the taint of each extended resource that they ask for",
	}
	if diff := cmp.Diff(want, said(l, "repeated-object", "not-modelled", "region", "default-pool", "assumed-toleration")); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if len(l.Snapshot.Pods) != 1 || len(l.Snapshot.Pools) != 1 {
		t.Errorf("%d pods and %d pools, want one each", len(l.Snapshot.Pods), len(l.Snapshot.Pools))
	}
	l, err := Load(files(pod, pool), Options{NoExtendedResourceToleration: true})
	if err != nil || len(said(l, "assumed-toleration", "default-pool")) > 0 || l.Snapshot.Pools[0].Name != "gpu" {
		t.Errorf("with a pool and without the admission plugin: %q, %v", said(l), err)
	}
}

func TestLoadIsDeterministicAndLeavesItsInputAlone(t *testing.T) {
	in := files(pool, replicas("w", 3), "config: {map: {a: '', b: ''}}", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {pods: 1, cpu: 1, memory: 1}}\n")
	before := fmt.Sprint(in)
	first, err := Load(in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := Load(in, Options{})
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Fatalf("a second run differs: %v\n%s", err, diff)
		}
	}
	if fmt.Sprint(in) != before {
		t.Error("the files were written to")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("a.yaml", pod+"---\n"+pool+"---\n"+replicas("w", 2))
	f.Add("a.yaml", "config: {map: {a: 'sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}'}}")
	f.Add("a.tf", "resource \"kubectl_manifest\" \"x\" {\n  yaml_body = <<-YAML\n    "+strings.ReplaceAll(pod, "\n", "\n    ")+"\n  YAML\n}\n")
	f.Add("a.yaml", "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: a}\nspec: {requirements: [], price: '1', capacity: {a.b/c: 1}}\n---\n"+pod)
	f.Fuzz(func(t *testing.T, name, text string) {
		l, err := Load([]source.File{{Name: name, Data: []byte(text)}}, Options{})
		if err != nil {
			return
		}
		for _, n := range l.Notes {
			if n.Text == "" || n.Code == "" {
				t.Errorf("a note without code or text: %+v", n)
			}
		}
		for _, p := range l.Snapshot.Pods {
			if p.Spec == nil {
				t.Errorf("pod %s/%s has no spec", p.Namespace, p.Name)
			}
		}
	})
}
