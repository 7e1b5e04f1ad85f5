package suite

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func rows() []Row {
	second := time.Second
	return []Row{
		{
			Workload: Workload{Name: "gpu 5000", picture: true}, Pods: 5000, Alone: 4275.16,
			Kerf: Outcome{Nodes: 4000, Dollars: 3530, Bound: 3519.81, CPU: second / 4, Wall: second / 3, MiB: 90}, Recorded: "2026-11-30",
			Rival: Outcome{Nodes: 1300, Dollars: 5061.55, CPU: 131 * second, Wall: 487 * second},
		},
		{
			Workload: Workload{Name: "openb default shares", picture: true}, Pods: 8152, Alone: 9650,
			Kerf: Outcome{Nodes: 2100, Dollars: 6735, CPU: 50 * time.Millisecond, Wall: 60 * time.Millisecond}, Rival: Outcome{Nodes: 948, Dollars: 13366, CPU: 20 * second, Wall: 20 * second},
		},
		{Workload: Workload{Name: "openb cpu250 shares", picture: true}, Absent: "left out: the trace is not here"},
	}
}

func TestReportShowsEveryWorkload(t *testing.T) {
	r := Report{Rows: rows(), Small: Small{Instances: 200, Optimal: 199, Worst: 1.004, Nodes: [2]int{1, 30}}, Machine: Machine{CPU: "cpu", Cores: 2, Day: "2026-11-30"}}
	for name, text := range map[string]string{"text": r.Text(), "markdown": r.Markdown()} {
		for _, want := range []string{"gpu 5000", "openb default shares", "openb cpu250 shares: left out", "0.29 %", "0.70", "199 at the exact optimum, the worst 0.40 % above", "figures of 2026-11-30"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the %s\n%s", want, name, text)
			}
		}
	}
	cells := len(columns)
	for _, row := range r.Rows {
		if got := len(row.cells()); got != cells {
			t.Errorf("%s has %d cells, the head has %d", row.Name, got, cells)
		}
	}
}

func TestPictureIsXML(t *testing.T) {
	text := Report{Rows: rows()}.Picture()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"openb default shares", "$13,366", "1.98×", "prefers-color-scheme: dark"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(text, "cpu250") {
		t.Error("a workload that was not run is in the picture")
	}
}

// The pods are those of the recipe, whoever draws them.
func TestInputsFollowTheRecipe(t *testing.T) {
	s, err := gpuMix(1000, true, true)()
	if err != nil {
		t.Fatal(err)
	}
	asked := int64(0)
	for _, p := range s.Pods {
		asked += p.Spec.Requests[model.NvidiaGPU]
	}
	if len(s.Types) != 29 || len(s.Pods) != 1000 || math.Abs(alone(s)-854.19) > 0.01 {
		t.Errorf("%d types, %d pods, %d GPUs, one pod a node %.2f $/h; want 29, 1000, and 854.19", len(s.Types), len(s.Pods), asked, alone(s))
	}
	s, err = diverse(1000)()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, p := range s.Pods {
		switch {
		case len(p.Spec.Spread) > 0:
			kinds[p.Spec.Spread[0].TopologyKey]++
		case len(p.Spec.PodAffinity) > 0:
			kinds[fmt.Sprint(p.Spec.PodAffinity[0].Anti)]++
		default:
			kinds[""]++
		}
	}
	want := map[string]int{"": 200, model.LabelZone: 200, model.LabelHostname: 200, "true": 200, "false": 200}
	if diff := cmp.Diff(want, kinds); diff != "" || len(s.Types) != 400 {
		t.Errorf("groups of pods (-want +got)\n%s", diff)
	}
}

func TestExact(t *testing.T) {
	one := func(name string, cpu, gpus int64, price float64) model.InstanceType {
		return model.InstanceType{
			Name: name, Allocatable: model.Resources{model.CPU: cpu, model.Memory: 100 * gi, model.Pods: 10, model.NvidiaGPU: gpus},
			Offerings: []model.Offering{{Price: price}},
		}
	}
	pod := func(cpu, gpus int64) *model.PodSpec {
		return &model.PodSpec{Requests: model.Resources{model.Pods: 1, model.CPU: cpu, model.NvidiaGPU: gpus}}
	}
	part := pod(0, 0)
	part.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{model.ShareMilli: 600}}}
	small, large, gpu := one("small", 2000, 0, 1), one("large", 6000, 0, 2.5), one("gpu", 4000, 2, 10)
	cases := map[string]struct {
		types   []model.InstanceType
		pods    map[*model.PodSpec]int
		dollars float64
		nodes   int
	}{
		"six at once are cheaper than three times two": {[]model.InstanceType{small, large}, map[*model.PodSpec]int{pod(1000, 0): 6}, 2.5, 1},
		"seven: a large and a small":                   {[]model.InstanceType{small, large}, map[*model.PodSpec]int{pod(1000, 0): 7}, 3.5, 2},
		"two parts of 0.6 take two GPUs":               {[]model.InstanceType{gpu}, map[*model.PodSpec]int{part: 2}, 10, 1},
		"three parts of 0.6 take two nodes":            {[]model.InstanceType{gpu}, map[*model.PodSpec]int{part: 3}, 20, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := model.Snapshot{Types: c.types, Sharing: model.Sharing{Consumable: true}}
			for spec, n := range c.pods {
				for range n {
					s.Pods = append(s.Pods, model.Pod{Spec: spec})
				}
			}
			dollars, nodes := exact(s)
			if dollars != c.dollars || nodes != c.nodes {
				t.Errorf("%.2f $/h on %d nodes, want %.2f on %d", dollars, nodes, c.dollars, c.nodes)
			}
		})
	}
}

// The optimum of a small fleet is never above what one pod a node costs.
func TestFleetsAreSmall(t *testing.T) {
	types, err := fleetTypes(false)
	if err != nil {
		t.Fatal(err)
	}
	d := draw{rand.New(rand.NewSource(1))}
	for i := range 10 {
		s := d.fleet(types, i%2 == 0)
		if best, nodes := exact(s); nodes == 0 || best > alone(s)+1e-9 {
			t.Errorf("fleet %d: %.2f $/h on %d nodes, one pod a node %.2f", i, best, nodes, alone(s))
		}
	}
}

// The default trace's shapes are those of the trace where that is at hand.
func TestDefaultTrace(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, shares := range []bool{true, false} {
		pods, err := tracePods("default", shares)
		if err != nil {
			t.Fatal(err)
		}
		want, err := readTrace(filepath.Join(traces, "openb_pod_list_default.csv"), shares)
		if errors.Is(err, errAbsent) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(census(want), census(pods)); diff != "" {
			t.Errorf("pods by what they ask, shares %v (-trace +example)\n%s", shares, diff)
		}
	}
}

func census(pods []model.Pod) map[string]int {
	out := map[string]int{}
	for _, p := range pods {
		asks := p.Spec.Requests.Clone()
		maps.DeleteFunc(asks, func(_ string, v int64) bool { return v == 0 })
		out[fmt.Sprint(asks, p.Spec.Shares)]++
	}
	return out
}

func TestGoalsAreJudged(t *testing.T) {
	for _, g := range goals {
		known := false
		for _, w := range workloads {
			known = known || w.Name == g.workload
		}
		if !known {
			t.Errorf("goal %q is about %s, which is no workload", g.wants, g.workload)
		}
	}
	good := rows()[1]
	bad := good
	bad.Kerf.Dollars, bad.Kerf.MiB = 7000, 300
	for want, row := range map[string]Row{"breaks no rule": {Workload: good.Workload, Wrong: []error{errAbsent}}, "6,800 $/h in 200 ms, and it is 7000.00": bad} {
		if got := (Report{Rows: []Row{row}}).verdict(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if met, missed := (Report{Rows: []Row{good}}).judged(); met != 3 || len(missed) != 1 {
		t.Errorf("met %d, missed %q; want 3 and the bound", met, missed)
	}
}
