package rival

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// Check holds the launches of a plan against Karpenter's own rules for a pod on
// a node: taints, and the pod's requirements with the pool's, the type's and
// the offering's. It knows nothing of resources that Karpenter cannot count,
// nor of what pods ask of each other.
func Check(s model.Snapshot, p plan.Plan) []error {
	running.Lock()
	defer running.Unlock()
	b := newBook(s)
	defer b.forget()
	facts, pools := map[string]scheduling.Requirements{}, map[string]*model.Pool{}
	for i := range s.Types {
		facts[s.Types[i].Name] = b.facts[i].requirements
	}
	for i := range s.Pools {
		pools[s.Pools[i].Name] = &s.Pools[i]
	}
	var out []error
	specs := map[*model.PodSpec]*corev1.Pod{}
	for i, l := range p.Launches {
		pool, typ := pools[l.Pool], facts[l.Type]
		if pool == nil || typ == nil {
			out = append(out, fmt.Errorf("launch %d: no pool %s or no type %s", i, l.Pool, l.Type))
			continue
		}
		node, err := launched(l, pool, typ)
		if err != nil {
			out = append(out, fmt.Errorf("launch %d, %s in pool %s: %w", i, l.Type, l.Pool, err))
			continue
		}
		for _, at := range l.Pods {
			spec := s.Pods[at].Spec
			if specs[spec] == nil {
				specs[spec] = &corev1.Pod{Spec: podSpec(spec)}
			}
			if err := admitted(specs[spec], node, pool); err != nil {
				out = append(out, fmt.Errorf("launch %d, %s in pool %s: pod %s: %w", i, l.Type, l.Pool, s.Pods[at].Name, err))
			}
		}
	}
	return out
}

// launched are the requirements of a launch, which a pool's and a type's must allow.
func launched(l plan.Launch, pool *model.Pool, typ scheduling.Requirements) (scheduling.Requirements, error) {
	out := scheduling.NewRequirements(scheduling.NewLabelRequirements(l.Labels).Values()...)
	out.Add(typ.Values()...)
	out.Add(in(model.LabelNodePool, l.Pool), in(model.LabelZone, l.Zones...), in(model.LabelCapacityType, l.CapacityType))
	var asked []corev1.NodeSelectorRequirement
	for _, r := range pool.Requirements {
		asked = append(asked, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
	}
	if err := out.Compatible(scheduling.NewNodeSelectorRequirements(asked...), scheduling.AllowUndefinedWellKnownLabels); err != nil {
		return nil, fmt.Errorf("the pool's requirements: %w", err)
	}
	return out, nil
}

// admitted asks whether one of a pod's alternatives holds on the node.
func admitted(p *corev1.Pod, node scheduling.Requirements, pool *model.Pool) error {
	if err := scheduling.Taints(taints(pool.Taints)).ToleratesPod(p); err != nil {
		return fmt.Errorf("taints: %w", err)
	}
	var last error
	for trial := p.DeepCopy(); ; {
		if last = node.Compatible(scheduling.NewStrictPodRequirements(trial)); last == nil {
			return nil
		}
		a := trial.Spec.Affinity
		if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return last
		}
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if len(terms.NodeSelectorTerms) <= 1 {
			return last
		}
		terms.NodeSelectorTerms = terms.NodeSelectorTerms[1:]
	}
}
