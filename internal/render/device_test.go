package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

// drawn writes GPUs as rows of letters, one a slice: workload 0 is a, free is a dot.
func drawn(gpus []gpu) string {
	var rows []string
	for _, g := range gpus {
		row := ""
		for _, s := range g.slices {
			if s.workload == free {
				row += "."
			} else {
				row += string(rune('a' + s.workload))
			}
		}
		for _, s := range g.shares {
			row += fmt.Sprintf("%c%.2f ", 'a'+s.workload, s.part)
		}
		rows = append(rows, strings.TrimSpace(row))
	}
	return strings.Join(rows, " | ")
}

func TestSeat(t *testing.T) {
	one := func(resource string, n int64) *model.PodSpec {
		return &model.PodSpec{Requests: model.Resources{resource: n}}
	}
	half := &model.PodSpec{Shares: []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30}}}}
	hungry := func(memory, cores int64) *model.PodSpec {
		return &model.PodSpec{Shares: []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{"nvidia.com/gpumem": memory, "nvidia.com/gpucores": cores}}}}
	}
	shared := model.Device{Model: "t4", Shares: model.Resources{"nvidia.com/gpumem": 16000, "nvidia.com/gpucores": 100}}
	tests := map[string]struct {
		devices []model.Device
		specs   []*model.PodSpec // one pod a spec, one workload each
		on      map[int][]int
		want    string
	}{
		"whole GPUs are taken in order": {
			devices: []model.Device{device("t4", model.NvidiaGPU, 1), device("t4", model.NvidiaGPU, 1), device("t4", model.NvidiaGPU, 1)},
			specs:   []*model.PodSpec{one(model.NvidiaGPU, 2)},
			want:    "a | a | .",
		},
		"slices come from the GPU with the most left": {
			devices: []model.Device{device("t4", model.NvidiaGPU, 3), device("t4", model.NvidiaGPU, 3)},
			specs:   []*model.PodSpec{one(model.NvidiaGPU, 1), one(model.NvidiaGPU, 1), one(model.NvidiaGPU, 1)},
			want:    "ac. | b..",
		},
		"MIG instances are taken by profile": {
			devices: []model.Device{{Model: "a100", Resources: model.Resources{"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1}}},
			specs:   []*model.PodSpec{one("nvidia.com/mig-3g.20gb", 1), one("nvidia.com/mig-1g.5gb", 1)},
			want:    "b.a",
		},
		"more than there is takes what there is": {
			devices: []model.Device{device("t4", model.NvidiaGPU, 1)},
			specs:   []*model.PodSpec{one(model.NvidiaGPU, 5)},
			want:    "a",
		},
		"shares are parts of the scarcest amount": {
			devices: []model.Device{shared, shared},
			specs:   []*model.PodSpec{half, half},
			on:      map[int][]int{0: {1}, 1: {1}},
			want:    " | a0.50 b0.50",
		},
		"one takes the memory and one the cores": {
			devices: []model.Device{shared},
			specs:   []*model.PodSpec{hungry(12800, 20), hungry(1600, 80)},
			on:      map[int][]int{0: {0}, 1: {0}},
			want:    "a0.50 b0.50",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var pods []model.Pod
			var list, of []int
			for i, s := range tt.specs {
				pods = append(pods, model.Pod{Spec: s})
				list, of = append(list, i), append(of, i)
			}
			if diff := cmp.Diff(tt.want, drawn(seat(tt.devices, list, pods, of, tt.on))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	tests := map[string][2]string{
		"prices have three places":         {hourly(0.189), "0.189"},
		"below a cent four":                {hourly(0.0042), "0.0042"},
		"and from a hundred on two":        {hourly(12345.678), "12,345.68"},
		"a month has 730 hours":            {monthly(0.757), "553"},
		"small months keep their cents":    {monthly(0.1), "73.00"},
		"cpu is cores or thousandths":      {amount(model.CPU, 2000) + " " + amount(model.CPU, 250), "2 250m"},
		"memory has binary units":          {amount(model.Memory, 14*gi) + " " + amount(model.Memory, 256<<20), "14Gi 256Mi"},
		"odd memory has one decimal":       {amount(model.Memory, 15155068928), "14.1Gi"},
		"other resources are counted":      {amount(model.NvidiaGPU, 4), "4"},
		"zones fold their common part":     {zonesOf([]string{"us-east-1a", "us-east-1b"}), "us-east-1a|b"},
		"zones without one stay whole":     {zonesOf([]string{"a1", "b2"}), "a1|b2"},
		"one thing is singular":            {count(1, "node"), "1 node"},
		"many things have commas":          {count(2000, "node"), "2,000 nodes"},
		"bare pods with numbers are alike": {stem(model.Pod{Namespace: "default", Name: "job-17"}), "job-*"},
		"other bare pods are not":          {stem(model.Pod{Namespace: "ml", Name: "job-a1"}), "ml/job-a1"},
	}
	for name, tt := range tests {
		if tt[0] != tt[1] {
			t.Errorf("%s: got %q, want %q", name, tt[0], tt[1])
		}
	}
}

func TestBars(t *testing.T) {
	for name, tt := range map[string]struct {
		o           Options
		part, whole int64
		want        string
	}{
		"nothing":                   {Options{Unicode: true}, 0, 10, "▕          ▏"},
		"eighths of a cell":         {Options{Unicode: true}, 129, 1000, "▕█▎        ▏"},
		"a little shows":            {Options{Unicode: true}, 1, 100000, "▕▏         ▏"},
		"only what is full is full": {Options{Unicode: true}, 999, 1000, "▕█████████▉▏"},
		"more than full is full":    {Options{Unicode: true}, 1500, 1000, "▕██████████▏"},
		"ASCII":                     {Options{}, 129, 1000, "[#.........]"},
		"ASCII nearly full":         {Options{}, 999, 1000, "[#########.]"},
		"of nothing":                {Options{}, 0, 0, "[..........]"},
	} {
		if got := newPage(tt.o).bar(tt.part, tt.whole, 10, bold); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
