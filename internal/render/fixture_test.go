package render

import (
	"fmt"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

const gi = int64(1) << 30

// owned makes n pods of one Deployment that ask cpu thousandths of a core, mem
// GiB and what gpus says.
func owned(ns, name string, n int, cpu, mem int64, gpus model.Resources) []model.Pod {
	spec := &model.PodSpec{Requests: gpus.Plus(model.Resources{model.CPU: cpu, model.Memory: mem * gi, model.Pods: 1}, 1)}
	var out []model.Pod
	for i := range n {
		out = append(out, model.Pod{Namespace: ns, Name: fmt.Sprintf("%s-%d", name, i), Owner: "Deployment " + ns + "/" + name, Spec: spec})
	}
	return out
}

// launch makes a node of a type with some pods in it.
func launch(pool, typ, capacityType string, price float64, pods []model.Pod, list []int, devices ...model.Device) plan.Launch {
	used := model.Resources{}
	for _, i := range list {
		used = used.Plus(pods[i].Spec.Requests, 1)
	}
	alloc := model.Resources{model.CPU: 3920, model.Memory: 14*gi + gi/8}
	for _, d := range devices {
		alloc = alloc.Plus(d.Resources, 1)
	}
	return plan.Launch{
		Pool: pool, Type: typ, CapacityType: capacityType, Price: price, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"},
		Estimated: capacityType == model.Spot, Alternatives: []string{typ}, Allocatable: alloc, Devices: devices,
		Overhead: model.Resources{model.CPU: 150, model.Memory: gi / 4}, Pods: list, Used: used,
	}
}

func device(name string, resource string, n int64) model.Device {
	return model.Device{Model: name, Resources: model.Resources{resource: n}}
}

func span(from, n int) []int {
	var out []int
	for i := range n {
		out = append(out, from+i)
	}
	return out
}

// seed is the report that docs show: time-sliced GPUs, an exclusive one, two pods
// that fit nowhere, notes of every severity.
func seed() Report {
	pods := owned("default", "test-gpu-shared", 25, 100, 0, model.Resources{model.NvidiaGPU: 1})
	pods = append(pods, owned("default", "test-gpu", 1, 500, 2, model.Resources{model.NvidiaGPU: 1})...)
	pods = append(pods, owned("team-a", "trainer", 2, 4000, 8, model.Resources{model.NvidiaGPU: 2})...)
	shared := func(from, n int) plan.Launch {
		l := launch("gpu-shared", "g4dn.xlarge", model.Spot, 0.189, pods, span(from, n), device("t4", model.NvidiaGPU, 10))
		l.Config, l.Sharing = "shared_gpu", model.TimeSlicing
		return l
	}
	return Report{
		Snapshot: model.Snapshot{
			Region: "us-east-1", PriceBasis: "estimated 2025-07", Pods: pods,
			Pools: []model.Pool{{Name: "gpu-shared"}, {Name: "gpu"}},
		},
		Plan: plan.Plan{
			Cost: 4 * 0.189,
			Launches: []plan.Launch{
				shared(0, 10), shared(10, 10), shared(20, 5),
				launch("gpu", "g4dn.xlarge", model.Spot, 0.189, pods, []int{25}, device("t4", model.NvidiaGPU, 1)),
			},
			Unplaced: []model.Refusal{{Pods: []int{26, 27}, Verdicts: []model.Verdict{
				{
					Code: model.CodeMaxRequest, Pool: "gpu-shared", Key: model.NvidiaGPU, Asked: 2, Have: 1, Config: "shared_gpu",
					Remedy: []model.Remedy{{Kind: model.RemedyAsk, Key: model.NvidiaGPU, Amount: 1}, {Kind: model.RemedyUsePool, Values: []string{"gpu"}}},
				},
				{
					Code: model.CodeLimit, Pool: "gpu", Key: model.CPU, Asked: 48000, Have: 1000000, Used: 960000,
					Remedy: []model.Remedy{{Kind: model.RemedyRaiseLimit, Key: model.CPU, Amount: 1048000}},
				},
			}}},
		},
		Trace: model.Trace{Relaxed: []model.Relaxation{{Pods: []int{25}, What: "nodeAffinity", Key: model.LabelZone}}},
		Notes: []model.Note{
			{Code: "assumed-toleration", Place: model.Place{File: "apps/web.yaml", Line: 12}, Text: "the toleration of nvidia.com/gpu is assumed, as the ExtendedResourceToleration admission plugin adds it"},
			{
				Code: "duplicate-key", Severity: model.Warning, Place: model.Place{File: "infra/provisioner-gpu-shared.tf", Line: 8, Object: "Provisioner gpu-shared"}, Also: []int{33},
				Text: "ttlSecondsAfterEmpty is given twice; 30 s is used, as Terraform's provider would",
			},
			{
				Code: "plugin-toleration", Severity: model.Error, Place: model.Place{File: "infra/nvdp.yml", Object: "HelmValues"},
				Text: "the plugin does not tolerate nvidia.com/gpu-shared: its pods would not land on gpu-shared and no GPU would register",
				Fix:  "tolerations: [{key: nvidia.com/gpu-shared, operator: Exists}]",
			},
		},
	}
}

// mixed is a fleet with MIG slices, eight GPUs a node, nodes without GPUs and
// nodes that exist.
func mixed() Report {
	pods := owned("ml", "serve-small", 10, 1000, 4, model.Resources{"nvidia.com/mig-1g.5gb": 1})
	pods = append(pods, owned("ml", "serve-large", 3, 2000, 8, model.Resources{"nvidia.com/mig-3g.20gb": 1})...)
	pods = append(pods, owned("ml", "train", 1, 8000, 64, model.Resources{model.NvidiaGPU: 6})...)
	pods = append(pods, owned("web", "front", 4, 500, 1, nil)...)
	pods = append(pods, owned("web", "old", 2, 500, 1, nil)...)
	pods[18].Node, pods[19].Node = "ip-10-0-0-1", "ip-10-0-0-1"
	var migs, whole []model.Device
	for range 4 {
		migs = append(migs, model.Device{Model: "a100", Resources: model.Resources{"nvidia.com/mig-1g.5gb": 4, "nvidia.com/mig-3g.20gb": 1}})
	}
	for range 8 {
		whole = append(whole, device("a100", model.NvidiaGPU, 1))
	}
	return Report{
		Snapshot: model.Snapshot{
			Region: "us-east-1", PriceBasis: "of 2026-07-20", Pods: pods,
			Pools: []model.Pool{{Name: "mig"}, {Name: "train"}, {Name: "cpu"}},
			Nodes: []model.Node{
				{Name: "ip-10-0-0-1", Pool: "cpu", Type: "c6i.large", CapacityType: model.OnDemand, Zone: "us-east-1a", Price: 0.085, Allocatable: model.Resources{model.CPU: 1930, model.Memory: 3 * gi}},
				{Name: "ip-10-0-0-2", Pool: "cpu", Type: "c6i.large", CapacityType: model.OnDemand, Zone: "us-east-1b", Price: 0.085, Unready: "cordoned", Allocatable: model.Resources{model.CPU: 1930, model.Memory: 3 * gi}},
			},
		},
		Plan: plan.Plan{
			Cost: 2*32.773 + 0.34, Standing: 0.17,
			Launches: []plan.Launch{
				launch("mig", "p4d.24xlarge", model.OnDemand, 32.773, pods, span(0, 13), migs...),
				launch("train", "p4d.24xlarge", model.OnDemand, 32.773, pods, []int{13}, whole...),
				launch("cpu", "c6i.2xlarge", model.OnDemand, 0.34, pods, []int{14, 15, 16}),
			},
			Binds: []plan.Bind{{Node: "ip-10-0-0-1", Pods: []int{17}}},
		},
	}
}

// crowd is n nodes, no two of which hold the same pods.
func crowd(n int) Report {
	var r Report
	for i := range n {
		list := span(len(r.Snapshot.Pods), 2)
		r.Snapshot.Pods = append(r.Snapshot.Pods, owned("batch", fmt.Sprintf("job-%d", i%300), 1, int64(100+i%77), 1, model.Resources{model.NvidiaGPU: 1})...)
		r.Snapshot.Pods = append(r.Snapshot.Pods, owned("batch", fmt.Sprintf("job-%d", (i*7)%300), 1, 200, 1, model.Resources{model.NvidiaGPU: 1})...)
		typ := fmt.Sprintf("g%d.%dxlarge", 4+i%3, 1+i%13)
		r.Plan.Launches = append(r.Plan.Launches, launch("batch", typ, model.Spot, 0.2+float64(i%39)/10, r.Snapshot.Pods, list, device("t4", model.NvidiaGPU, 1), device("t4", model.NvidiaGPU, 1)))
		r.Plan.Cost += r.Plan.Launches[i].Price
	}
	return r
}
