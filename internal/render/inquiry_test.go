package render

import (
	"bytes"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestExplain(t *testing.T) {
	placed := Inquiry{Report: seed(), Pods: span(0, 25)}
	placed.Instead = []Instead{{Nodes: "g4dn.2xlarge", Price: 0.261}, {Nodes: "2 × g5.xlarge", Price: 0.9}}
	spec := *placed.Snapshot.Pods[0].Spec
	spec.NodeSelector = map[string]string{"jina.ai/node-type": "gpu-shared"}
	spec.Tolerations = []model.Toleration{{Key: model.NvidiaGPU, Operator: "Exists", Assumed: true}, {Key: "a", Value: "b", Effect: model.NoSchedule}}
	spec.NodeAffinity = []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: []string{"us-east-1a"}}}}
	spec.Spread = []model.Spread{{MaxSkew: 1, TopologyKey: model.LabelZone, Soft: true}}
	spec.Place = model.Place{File: "apps/shared.yaml", Line: 1}
	placed.Snapshot.Pods[0].Spec = &spec
	placed.Trials = []Trial{{Pool: "gpu-shared", Launch: &placed.Plan.Launches[0]}, {Pool: "gpu", Verdicts: []model.Verdict{{Code: model.CodeTaint, Pool: "gpu", Key: model.NvidiaGPU}}}}

	refused := Inquiry{Report: seed(), Pods: []int{26}}
	for _, v := range refused.Plan.Unplaced[0].Verdicts {
		refused.Trials = append(refused.Trials, Trial{Pool: v.Pool, Verdicts: []model.Verdict{v}})
	}
	for name, tt := range map[string]struct {
		q Inquiry
		o Options
	}{
		"explain-placed.txt":  {placed, Options{Unicode: true}},
		"explain-refused.txt": {refused, Options{Width: 80}},
	} {
		var out bytes.Buffer
		if err := Explain(&out, tt.q, tt.o); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
	}
}
