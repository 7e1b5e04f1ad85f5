package plan

import (
	"fmt"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

// crowded is a Snapshot of 10,000 pods of 300 specs on 1,000 launches in three
// zones, each with 20 alternatives, as a plan for a large cluster has them.
func crowded() (model.Snapshot, Plan) {
	s, p := sound()
	s.Pods, s.Nodes, s.Types, s.Pools[0].Limits = nil, nil, nil, nil
	for i := range 20 {
		name := fmt.Sprintf("t%02d", i)
		r := model.Resources{model.CPU: 64000, model.Memory: 256 * gi, model.Pods: 100, model.NvidiaGPU: 4}
		t := model.InstanceType{Name: name, Labels: map[string]string{model.LabelInstanceType: name, model.LabelArch: "amd64"}, Capacity: r, Allocatable: r}
		for k := range 40 {
			t.Labels[fmt.Sprintf("karpenter.k8s.aws/instance-%d", k)] = name
		}
		t.GPUs = []model.GPU{{Manufacturer: "nvidia", Model: "t4", Count: 4, MemoryMiB: 15360, Fraction: 1}}
		for _, zone := range []string{"a", "b", "c"} {
			t.Offerings = append(t.Offerings, model.Offering{Zone: zone, CapacityType: model.OnDemand, Price: 1 + float64(i)})
		}
		s.Types = append(s.Types, t)
	}
	one := p.Launches[0]
	p = Plan{Cost: 1000}
	one.Type, one.Price, one.Zones, one.Alternatives = "t00", 1, []string{"a", "b", "c"}, nil
	for i := range s.Types {
		one.Alternatives = append(one.Alternatives, s.Types[i].Name)
	}
	one.Allocatable = s.Types[0].Allocatable.Clone()
	delete(one.Allocatable, model.NvidiaGPU)
	one.Allocatable["nvidia.com/gpu.shared"] = 16
	device := one.Devices[0]
	one.Devices = []model.Device{device, device, device, device}
	specs := make([]*model.PodSpec, 300)
	for i := range specs {
		specs[i] = &model.PodSpec{
			Labels:       map[string]string{"app": fmt.Sprint(i)},
			Requests:     model.Resources{model.CPU: 1000, model.Memory: gi, model.Pods: 1, "nvidia.com/gpu.shared": 1},
			NodeSelector: map[string]string{model.LabelArch: "amd64", "team": "x"},
			Tolerations:  []model.Toleration{{Key: "gpu", Operator: "Exists"}},
		}
	}
	for i := range 1000 {
		l := one
		l.Pods, l.Used = nil, model.Resources{}
		for k := range 10 {
			spec := specs[(i+k*31)%len(specs)]
			l.Pods = append(l.Pods, len(s.Pods))
			l.Used = l.Used.Plus(spec.Requests, 1)
			s.Pods = append(s.Pods, model.Pod{Namespace: "t", Name: fmt.Sprint(len(s.Pods)), Spec: spec})
		}
		p.Launches = append(p.Launches, l)
	}
	return s, p
}

func BenchmarkCheck(b *testing.B) {
	s, p := crowded()
	b.ReportAllocs()
	for b.Loop() {
		if errs := Check(s, p); len(errs) > 0 {
			b.Fatalf("%d errors, the first: %v", len(errs), errs[0])
		}
	}
}
