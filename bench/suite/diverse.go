package suite

import (
	"fmt"
	"math/rand"

	"github.com/kerfdev/kerf/internal/model"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// diverse is the mix of Karpenter's own scheduling benchmark (v1.15.0,
// makeDiversePods) on its 400 made-up instance types: five equal groups of pods,
// drawn from the same generator with the same seed, so that any Karpenter run
// with that recipe has the same pods.
func diverse(n int) func() (model.Snapshot, error) {
	return func() (model.Snapshot, error) {
		d := draw{rand.New(rand.NewSource(42))}
		s := model.Snapshot{Types: madeUpTypes(400), Pools: []model.Pool{{Name: "default"}}}
		add := func(p *model.PodSpec) {
			s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: fmt.Sprintf("pod-%05d", len(s.Pods)+1), Spec: p})
		}
		fifth := n / 5
		for range fifth {
			add(d.labelled("my-label"))
		}
		for _, key := range []string{model.LabelZone, model.LabelHostname} {
			for range fifth {
				add(d.spread(key))
			}
		}
		for range fifth {
			add(d.together())
		}
		for range fifth {
			add(d.apart())
		}
		for len(s.Pods) < n {
			add(d.labelled("my-label"))
		}
		return s, nil
	}
}

// A draw makes pods by a generator; the order of its calls is the recipe.
type draw struct{ *rand.Rand }

func (d draw) of(values ...int64) int64 { return values[d.Intn(len(values))] }

func (d draw) letter() string { return string("abcdefg"[d.Intn(7)]) }

// small are the requests of one pod.
func (d draw) small() model.Resources {
	cpu := d.of(100, 250, 500, 1000, 1500)
	return model.Resources{model.Pods: 1, model.CPU: cpu, model.Memory: d.of(100, 256, 512, 1024, 2048, 4096) * mi}
}

func (d draw) labelled(key string) *model.PodSpec {
	label := d.letter()
	return &model.PodSpec{Labels: map[string]string{key: label}, Requests: d.small()}
}

// spread is a pod in one of seven groups that spreads over the pods of another.
func (d draw) spread(key string) *model.PodSpec {
	label, other := d.letter(), d.letter()
	return &model.PodSpec{
		Labels: map[string]string{"my-label": label}, Requests: d.small(),
		Spread: []model.Spread{{MaxSkew: 1, TopologyKey: key, Selector: equal("my-label", other), SelectorNamespace: "default"}},
	}
}

// together is a pod that wants the zone of those with its label, whose name is
// misspelt in Karpenter's benchmark, too.
func (d draw) together() *model.PodSpec {
	p := d.labelled("my-affininity")
	p.PodAffinity = []model.PodTerm{{Selector: equal("my-affininity", p.Labels["my-affininity"]), Namespaces: []string{"default"}, TopologyKey: model.LabelZone}}
	return p
}

// apart is a pod that shares a node with none of its kind.
func (d draw) apart() *model.PodSpec {
	return &model.PodSpec{
		Labels: map[string]string{"app": "nginx"}, Requests: d.small(),
		PodAffinity: []model.PodTerm{{Anti: true, Selector: equal("app", "nginx"), Namespaces: []string{"default"}, TopologyKey: model.LabelHostname}},
	}
}

func equal(key, value string) model.Selector {
	return model.Selector{All: true, Term: model.Term{{Key: key, Operator: model.In, Values: []string{value}}}}
}

// madeUpTypes are Karpenter's fake types: the i-th has i CPUs, 2i GiB and room
// for 10i pods, at 0.1 $/h a CPU and 0.1 $/h a GB, spot and on demand alike.
func madeUpTypes(n int) []model.InstanceType {
	out := make([]model.InstanceType, n)
	for i := range out {
		size := int64(i + 1)
		name := fmt.Sprintf("fake-it-%d", i)
		capacity := model.Resources{model.CPU: size * 1000, model.Memory: 2 * size * gi, model.Pods: 10 * size}
		free := capacity.Clone()
		free[model.CPU] -= 100
		free[model.Memory] -= 10 * mi
		price := 0.1*float64(size) + 0.1*float64(2*size*gi)/1e9
		out[i] = model.InstanceType{
			Name: name, Capacity: capacity, Allocatable: free,
			Labels: map[string]string{model.LabelInstanceType: name, model.LabelArch: "amd64", model.LabelOS: "linux", "integer": fmt.Sprint(size)},
		}
		for _, o := range [][2]string{{"1", model.OnDemand}, {"1", model.Spot}, {"2", model.OnDemand}, {"2", model.Spot}, {"3", model.OnDemand}} {
			out[i].Offerings = append(out[i].Offerings, model.Offering{Zone: "test-zone-" + o[0], CapacityType: o[1], Price: price})
		}
	}
	return out
}
