package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
)

func TestEncode(t *testing.T) {
	s, p := sound()
	second := p.Launches[0]
	second.Pods = []int{3}
	p.Launches = append(p.Launches, second)
	notes := []model.Note{{Code: "duplicate-key", Severity: model.Warning, Place: model.Place{File: "f.yaml", Line: 3}, Text: "twice"}}
	trace := model.Trace{Relaxed: []model.Relaxation{{Pods: []int{2}, What: "nodeAffinity", Key: "zone"}}}
	out, err := Encode(s, p, trace, notes, func(v model.Verdict) (string, []string) { return "why: " + string(v.Code), []string{"do this"} })
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"nodes": 2., "gpus": 2., "slices": 8., "slicesUsed": 4., "costPerHour": .5, "costPerMonth": 365., "standingCostPerHour": .1,
		"estimated": false, "pods": 5., "placed": 4., "notPlaced": 1.,
	}
	if diff := cmp.Diff(want, doc["summary"]); diff != "" {
		t.Errorf("summary: -want +got\n%s", diff)
	}
	if doc["version"] != "kerf.dev/plan/v1" {
		t.Errorf("version %v", doc["version"])
	}
	nodes := doc["nodes"].([]any)
	if len(nodes) != 1 {
		t.Fatalf("%d nodes: what is the same is folded", len(nodes))
	}
	node := nodes[0].(map[string]any)
	if diff := cmp.Diff([]any{[]any{"t/s0", "t/s1"}, []any{"t/lost"}}, node["pods"]); diff != "" || node["count"] != 2. {
		t.Errorf("count %v, pods -want +got\n%s", node["count"], diff)
	}
	for _, want := range []string{`"text": "why: taint"`, `"fixes": [`, `"file": "f.yaml"`, `"severity": "warning"`, `"what": "nodeAffinity"`, `"node": "n"`, `"config": "shared"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
}

// Lists are lists even when they are empty.
func TestEncodeOfNothing(t *testing.T) {
	out, err := Encode(model.Snapshot{}, Plan{}, model.Trace{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"nodes", "binds", "notPlaced", "relaxed", "notes"} {
		if !strings.Contains(string(out), `"`+list+`": []`) {
			t.Errorf("%s is no empty list in\n%s", list, out)
		}
	}
}
