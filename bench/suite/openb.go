package suite

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// traces is where the openb traces lie (cluster-trace-gpu-v2023), below the
// folder in which the benchmark runs; they are not part of the project.
var traces = filepath.Join("..", "shared", "data", "traces", "openb")

// errAbsent says that the data of a workload is not on this machine.
var errAbsent = errors.New("the trace is not here")

// openb is a trace on AWS us-east-1 on demand: x86 families of the categories
// c, m, r, g and p, NVIDIA GPUs or none, no fractions of a GPU, 110 pods a
// node, three zones. With shares a pod of 470 thousandths shares its GPU,
// without it has a whole one.
func openb(trace string, shares, metal bool) func() (model.Snapshot, error) {
	return func() (model.Snapshot, error) {
		pods, err := tracePods(trace, shares)
		if err != nil {
			return model.Snapshot{}, err
		}
		types, err := fleetTypes(metal)
		if err != nil {
			return model.Snapshot{}, err
		}
		return model.Snapshot{
			Region: "us-east-1", Pods: pods, Types: types, Pools: []model.Pool{{Name: "fleet"}}, Sharing: model.Sharing{Consumable: shares},
		}, nil
	}
}

// example holds the shapes of the default trace, which is part of the project.
var example = filepath.Join("examples", "openb")

func tracePods(trace string, shares bool) ([]model.Pod, error) {
	if trace != "default" {
		return readTrace(filepath.Join(traces, "openb_pod_list_"+trace+".csv"), shares)
	}
	files, err := source.Read([]string{example}, nil)
	if err != nil {
		return nil, err
	}
	loaded, err := intake.Load(files, intake.Options{})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", example, err)
	}
	pods := loaded.Snapshot.Pods
	if !shares {
		whole(pods)
	}
	return pods, nil
}

// whole gives pods whole devices for their parts.
func whole(pods []model.Pod) {
	specs := map[*model.PodSpec]*model.PodSpec{}
	for i := range pods {
		old := pods[i].Spec
		if len(old.Shares) == 0 {
			continue
		}
		if specs[old] == nil {
			p := *old
			p.Requests, p.Shares = needs(old), nil
			specs[old] = &p
		}
		pods[i].Spec = specs[old]
	}
}

func fleetTypes(metal bool) ([]model.InstanceType, error) {
	book, err := catalog.Load("us-east-1")
	if err != nil {
		return nil, fmt.Errorf("read the price book: %w", err)
	}
	var out []model.InstanceType
	for _, t := range book.Types {
		if !inFleet(t, metal) {
			continue
		}
		t.Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o model.Offering) bool {
			return o.CapacityType != model.OnDemand || !slices.Contains(mixZones, o.Zone)
		})
		t.Allocatable = t.Allocatable.Clone()
		t.Allocatable[model.Pods] = min(110, t.Allocatable[model.Pods])
		if len(t.Offerings) > 0 {
			out = append(out, t)
		}
	}
	return out, nil
}

func inFleet(t model.InstanceType, metal bool) bool {
	_, accelerator := t.Labels[awsLabel+"accelerator-name"]
	bare := strings.Contains(t.Name, "metal")
	if t.Labels[model.LabelArch] != "amd64" || accelerator || (bare && !metal) {
		return false
	}
	for _, g := range t.GPUs {
		if g.Manufacturer != "nvidia" || g.Fraction != 1 {
			return false
		}
	}
	return slices.Contains([]string{"c", "m", "r", "g", "p"}, t.Labels[awsLabel+"category"])
}

// models are the trace's GPU models as EC2 names their like. P100 has none and
// becomes the next one up, G2 and G3 are not disclosed and become an A10G and
// an A100.
var models = map[string]string{"T4": "t4", "V100M16": "v100", "V100M32": "v100", "P100": "v100", "A10": "a10g", "G2": "a10g", "G3": "a100"}

// readTrace reads the pods of a trace. Those that ask the same share a spec.
func readTrace(path string, shares bool) ([]model.Pod, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no %s", errAbsent, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the trace: %w", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	specs := map[string]*model.PodSpec{}
	var out []model.Pod
	for _, row := range rows[1:] {
		cell := func(name string) string {
			if at, ok := column[name]; ok {
				return row[at]
			}
			return ""
		}
		key := strings.Join([]string{cell("cpu_milli"), cell("memory_mib"), cell("num_gpu"), cell("gpu_milli"), cell("gpu_spec")}, ",")
		if specs[key] == nil {
			if specs[key], err = tracePod(cell, shares); err != nil {
				return nil, fmt.Errorf("%s, pod %s: %w", path, cell("name"), err)
			}
		}
		out = append(out, model.Pod{Namespace: "default", Name: cell("name"), Spec: specs[key]})
	}
	return out, nil
}

func tracePod(cell func(string) string, shares bool) (*model.PodSpec, error) {
	var bad error
	number := func(name string) int64 {
		text := cell(name)
		if text == "" {
			return 0
		}
		v, err := strconv.ParseInt(text, 10, 64)
		bad = errors.Join(bad, err)
		return v
	}
	gpus, milli := number("num_gpu"), number("gpu_milli")
	p := &model.PodSpec{Requests: model.Resources{model.Pods: 1, model.CPU: number("cpu_milli"), model.Memory: number("memory_mib") * mi}}
	switch {
	case gpus > 0 && shares && milli < 1000:
		p.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: gpus, PerDevice: model.Resources{model.ShareMilli: milli}}}
	case gpus > 0:
		p.Requests[model.NvidiaGPU] = gpus
	}
	if wanted := cell("gpu_spec"); wanted != "" && gpus > 0 {
		var names []string
		for _, m := range strings.Split(wanted, "|") {
			if models[m] == "" {
				return nil, fmt.Errorf("GPU model %q has no like on AWS", m)
			}
			names = append(names, models[m])
		}
		slices.Sort(names)
		p.NodeAffinity = []model.Term{{{Key: gpuNameLabel, Operator: model.In, Values: slices.Compact(names)}}}
	}
	return p, bad
}
