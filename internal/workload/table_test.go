package workload

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func table(columns string, rows ...string) string {
	return "apiVersion: kerf.dev/v1alpha1\nkind: ShapeTable\nmetadata: {name: t, namespace: lab}\ntemplate:\n  metadata: {labels: {app: t}}\n  spec: {nodeSelector: {a: b}}\ncolumns: [" + columns + "]\nrows:\n- [" + strings.Join(rows, "]\n- [") + "]\n"
}

func TestShapeTable(t *testing.T) {
	r, notes := read(t, table(`count, cpu, memory, nvidia.com/gpu, gpu-milli, "in:gpu/model", name`,
		"2, 12000m, 16Gi, 1, null, null, null", `1, 4, 8Gi, 1, 460, "t4|a10g", half`, `1, 1, 1Gi, null, "", "", null`))
	if len(notes) > 0 {
		t.Errorf("notes: %q", say(notes))
	}
	type row struct {
		Owner, Name  string
		Requests     model.Resources
		Shares       []model.DeviceShare
		NodeAffinity []model.Term
		Line         int
	}
	var got []row
	for _, p := range r.Pods {
		got = append(got, row{p.Owner, p.Name, p.Spec.Requests, p.Spec.Shares, p.Spec.NodeAffinity, p.Spec.Place.Line})
		if p.Spec.NodeSelector["a"] != "b" || p.Spec.Labels["app"] != "t" || p.Namespace != "lab" || len(p.Spec.Refused) > 0 {
			t.Errorf("the template is lost: %+v %q", p.Spec, words(p.Spec))
		}
	}
	whole := model.Resources{"cpu": 12000, "memory": 16 << 30, "nvidia.com/gpu": 1, "pods": 1}
	want := []row{
		{"ShapeTable lab/t[0]", "t-0-0", whole, nil, nil, 9},
		{"ShapeTable lab/t[0]", "t-0-1", whole, nil, nil, 9},
		{
			"ShapeTable lab/t/half", "half-0",
			model.Resources{"cpu": 4000, "memory": 8 << 30, "pods": 1},
			[]model.DeviceShare{{Resource: "nvidia.com/gpu", Count: 1, PerDevice: model.Resources{model.ShareMilli: 460}}},
			[]model.Term{{{Key: "gpu/model", Operator: model.In, Values: []string{"t4", "a10g"}, Line: got[2].NodeAffinity[0][0].Line}}},
			10,
		},
		{"ShapeTable lab/t[2]", "t-2-0", model.Resources{"cpu": 1000, "memory": 1 << 30, "pods": 1}, nil, nil, 11},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Pods[0].Spec != r.Pods[1].Spec {
		t.Error("pods of one row have specs of their own")
	}
	if diff := cmp.Diff([]model.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule", Assumed: true}}, r.Pods[2].Spec.Tolerations); diff != "" {
		t.Errorf("a part of a GPU is a GPU to the admission plugin (-want +got):\n%s", diff)
	}
}

func TestShapeTableIsStrict(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		want    []string
		pods    int
		refused bool
	}{
		"a column that is nothing": {table("count, gpus", "1, 1"), []string{
			`error shape-table in.yaml:7 columns[1]: column "gpus" is no resource: must be a standard resource type or fully qualified -> name a resource, or one of count, name, gpu-milli and in:<label key>`,
		}, 0, false},
		"a column with a typing error": {table("cuont, cpu", "1, 1"), []string{
			`error shape-table in.yaml:7 columns[0]: column "cuont" is no resource: must be a standard resource type or fully qualified -> write count`,
			"error shape-table in.yaml:7 columns: there is no column count -> add a column count with the number of pods of each shape",
		}, 0, false},
		"a column twice": {table("count, cpu, cpu", "1, 1, 1"), []string{"error shape-table in.yaml:7 columns[2]: column cpu stands twice -> remove one of them"}, 0, false},
		"parts of no device": {table("count, gpu-milli", "1, 1"), []string{
			"error shape-table in.yaml:7 columns: gpu-milli is a part of a device, and there is no column nvidia.com/gpu -> add the column nvidia.com/gpu",
		}, 0, false},
		"a short row": {table("count, cpu", "1", "2, 1"), []string{
			"error shape-table in.yaml:9 rows[0]: the row has 1 cell for 2 columns and is left out -> give every column a cell; null asks for nothing",
		}, 2, false},
		"a cell that is no quantity": {table("count, cpu", "1, lots"), []string{
			`error shape-table in.yaml:9 rows[0][1]: column cpu holds the string "lots": a quantity such as 1, 500m or 16Gi belongs here`,
		}, 1, true},
		"a count that is none": {table("count, cpu", "many, 1"), []string{
			`error shape-table in.yaml:9 rows[0][0]: column count holds the string "many": the number of pods belongs here`,
		}, 0, false},
		"a count below zero": {table("count, cpu", "-1, 1"), []string{
			"error shape-table in.yaml:9 rows[0]: count is negative and the row is left out -> write a whole number",
		}, 0, false},
		"a part above the whole": {table("count, nvidia.com/gpu, gpu-milli", "1, 1, 1500"), []string{
			"error shape-table in.yaml:9 rows[0][2]: column gpu-milli holds the number 1500: thousandths of a device from 1 to 1000 belong here",
		}, 1, true},
		"an amount that the API server refuses": {table("count, nvidia.com/gpu", "1, 500m"), []string{
			`error invalid in.yaml:9 rows[0]: the API server refuses its pods: spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer -> ask for whole units; for a part of a GPU use a shared resource, such as a time slice or a MIG slice`,
			`error invalid in.yaml:9 rows[0]: the API server refuses its pods: spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer -> ask for whole units; for a part of a GPU use a shared resource, such as a time slice or a MIG slice`,
		}, 1, true},
		"a field that it has not": {strings.Replace(table("count", "1"), "columns", "column: 1\ncolumns", 1), []string{
			"error unknown-field in.yaml:7 column: ShapeTable has no such field -> write columns",
		}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, notes := read(t, c.text)
			if diff := cmp.Diff(c.want, say(notes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(r.Pods) != c.pods {
				t.Errorf("%d pods, want %d", len(r.Pods), c.pods)
			}
			for _, p := range r.Pods {
				if (len(p.Spec.Refused) > 0) != c.refused {
					t.Errorf("refused: %q", words(p.Spec))
				}
			}
		})
	}
}

// The openb trace is one table of its shapes.
func TestOpenbIsOneTable(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "traces", "openb", "openb_pod_list_default.csv")
	f, err := os.Open(path)
	if err != nil {
		t.Skip("the trace is not here: " + path)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	var order []string
	for _, rec := range records[1:] {
		milli := rec[4]
		if rec[3] == "0" {
			milli = "null"
		}
		key := fmt.Sprintf("%sm, %sMi, %s, %s, %q", rec[1], rec[2], rec[3], milli, rec[5])
		if count[key] == 0 {
			order = append(order, key)
		}
		count[key]++
	}
	var rows []string
	for _, key := range order {
		rows = append(rows, strconv.Itoa(count[key])+", "+key)
	}
	r, notes := read(t, table(`count, cpu, memory, nvidia.com/gpu, gpu-milli, "in:gpu/model"`, rows...))
	if len(notes) > 0 {
		t.Errorf("notes: %q", say(notes))
	}
	parts := 0
	for _, p := range r.Pods {
		if len(p.Spec.Refused) > 0 {
			t.Fatalf("%s is refused: %q", p.Name, words(p.Spec))
		}
		if len(p.Spec.Shares) > 0 {
			parts++
		}
	}
	if len(rows) != 151 || len(r.Pods) != 8152 || parts != 3078 {
		t.Errorf("%d shapes, %d pods, %d with a part of a GPU; want 151, 8152, 3078", len(rows), len(r.Pods), parts)
	}
}
