package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/overlay"
	"github.com/kerfdev/kerf/internal/source"
)

const manifests = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: sliced}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.2xlarge]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: device-plugin-configs, namespace: kube-system}
data:
  sliced: |
    version: v1
    sharing:
      timeSlicing:
        FAIL
        resources: [{name: nvidia.com/gpu, replicas: 4}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: eight, namespace: lab}
spec:
  replicas: 8
  selector: {matchLabels: {app: eight}}
  template:
    metadata: {labels: {app: eight}}
    spec:
      containers:
        - {name: main, image: main, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}
`

func given(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func compared(t *testing.T, args ...string) Document {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(append(args, "-o", "json"), nil, &out, &errs); code == exitUnusable {
		t.Fatalf("%s%s", out.Bytes(), errs.Bytes())
	}
	var d Document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCompare(t *testing.T) {
	type figures struct {
		Kerf, Karpenter          int
		KerfCost, KarpenterCost  float64
		KerfOnly, OnlyKarpenter  int
		KerfPlaced, OthersPlaced int
		Says                     string
	}
	plain := strings.Replace(manifests, "FAIL\n", "renameByDefault: false\n", 1)
	one := strings.Replace(manifests, "FAIL\n", "failRequestsGreaterThanOne: true\n", 1)
	cases := map[string]struct {
		text string
		args []string
		want figures
	}{
		"karpenter does not see slices": {
			plain, nil,
			figures{2, 8, 1.052, 4.208, 0, 0, 8, 8, "karpenter counts physical GPUs"},
		},
		"with overlays it does": {
			plain,
			[]string{"--node-overlay"},
			figures{2, 2, 1.052, 1.052, 0, 0, 8, 8, "karpenter had 1 NodeOverlay that"},
		},
		"pods that would fail are launched for": {
			strings.Replace(one, "nvidia.com/gpu: 1}", "nvidia.com/gpu: 2}", 1),
			[]string{"--node-overlay"},
			figures{0, 4, 0, 2.104, 0, 1, 0, 8, "failRequestsGreaterThanOne"},
		},
		"pods that karpenter cannot place": {
			strings.Replace(plain, "nvidia.com/gpu: 1}", "nvidia.com/gpu: 4}", 1), nil,
			figures{8, 0, 4.208, 0, 1, 0, 8, 0, "karpenter counts physical GPUs"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := compared(t, append([]string{"-f", given(t, c.text)}, c.args...)...)
			got := figures{
				d.Kerf.Nodes, d.Karpenter.Nodes, d.Kerf.CostPerHour, d.Karpenter.CostPerHour,
				len(d.OnlyKerf), len(d.OnlyKarpenter), d.Kerf.Placed, d.Karpenter.Placed, c.want.Says,
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if why := strings.Join(d.Why, "\n"); !strings.Contains(why, c.want.Says) {
				t.Errorf("why: want %q in\n%s", c.want.Says, why)
			}
			for _, w := range append([]string{"nodes", "karpenter v1.15.0"}, d.Why...) {
				if table := string(d.Table()); !strings.Contains(table, w) {
					t.Errorf("no %q in the table\n%s", w, table)
				}
			}
		})
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"no file":            {nil, []string{"nothing to read", "-f infra/"}},
		"a file without -f":  {[]string{"pods.yaml"}, []string{"takes no argument", "kerf compare -f pods.yaml"}},
		"an unknown flag":    {[]string{"--nodes"}, []string{"unknown flag: --nodes", "--help"}},
		"an unknown format":  {[]string{"-f", ".", "-o", "html"}, []string{"unknown value", "table, json"}},
		"no such price file": {[]string{"-f", given(t, manifests), "--prices", "nowhere.csv"}, []string{"--prices", "nowhere.csv"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Main(c.args, strings.NewReader(""), &out, &errs); code != exitUnusable {
				t.Errorf("exit code %d", code)
			}
			for _, w := range c.want {
				if !strings.Contains(errs.String(), w) {
					t.Errorf("no %q in %q", w, errs.String())
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Main([]string{"--help"}, nil, &out, &errs); code != exitOK || !strings.Contains(out.String(), "--node-overlay") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// What kerf overlay writes is a NodeOverlay by Karpenter's own schema, and
// reading it back changes nothing that it says.
func TestOverlaysAreValid(t *testing.T) {
	files := []source.File{{Name: "all.yaml", Data: []byte(strings.Replace(manifests, "FAIL\n", "renameByDefault: true\n", 1))}}
	loaded, err := intake.Load(files, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := overlay.For(loaded.Snapshot)
	docs, notes := source.ParseAll([]source.File{{Name: "overlays.yaml", Data: overlay.YAML(want)}})
	read, more := nodepool.Read(docs)
	if notes = append(notes, more...); len(notes) > 0 {
		t.Errorf("notes on what was written: %v", notes)
	}
	if len(want) == 0 || len(read.Overlays) != len(want) {
		t.Fatalf("%d overlays written, %d read", len(want), len(read.Overlays))
	}
	for i, o := range read.Overlays {
		if diff := cmp.Diff(want[i].Capacity, o.Capacity); diff != "" || o.Weight != want[i].Weight || o.Name != want[i].Name {
			t.Errorf("%s weight %d: capacity (-want +got)\n%s", o.Name, o.Weight, diff)
		}
	}
}
