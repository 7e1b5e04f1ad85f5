package rival

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// podSpec rebuilds a pod's spec as the API server holds it, in so far as it
// decides where the pod goes. What the containers ask is in one container.
func podSpec(in *model.PodSpec) corev1.PodSpec {
	c := corev1.Container{Name: "all"}
	asked := asks(in)
	c.Resources.Requests = cloud.Quantities(asked)
	c.Resources.Limits = corev1.ResourceList{}
	for name, q := range c.Resources.Requests {
		if strings.Contains(string(name), "/") {
			c.Resources.Limits[name] = q
		}
	}
	for _, p := range in.HostPorts {
		c.Ports = append(c.Ports, corev1.ContainerPort{HostIP: p.IP, HostPort: p.Port, ContainerPort: p.Port, Protocol: corev1.Protocol(p.Protocol)})
	}
	out := corev1.PodSpec{
		Containers: []corev1.Container{c}, NodeSelector: maps.Clone(in.NodeSelector), SchedulerName: in.SchedulerName,
		Affinity: affinity(in), TopologySpreadConstraints: spreads(in), Priority: &in.Priority,
	}
	for _, t := range in.Tolerations {
		out.Tolerations = append(out.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect),
		})
	}
	for _, name := range in.Claims {
		out.ResourceClaims = append(out.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
	}
	return out
}

// asks are a pod's requests as Karpenter counts them. It adds the pod itself.
// Thousandths of a device are whole devices to it; the names that HAMi's
// scheduler hands out stand in the requests as they do in the pod.
func asks(in *model.PodSpec) model.Resources {
	out := in.Requests.Clone()
	delete(out, model.Pods)
	for _, s := range in.Shares {
		if s.PerDevice[model.ShareMilli] > 0 {
			delete(out, model.ShareMilli)
			out[s.Resource] += s.Count
		}
	}
	return out
}

func affinity(in *model.PodSpec) *corev1.Affinity {
	out := &corev1.Affinity{NodeAffinity: nodeAffinity(in)}
	for i := range in.PodAffinity {
		term := &in.PodAffinity[i]
		if term.Anti {
			if out.PodAntiAffinity == nil {
				out.PodAntiAffinity = &corev1.PodAntiAffinity{}
			}
			a := out.PodAntiAffinity
			put(term, &a.RequiredDuringSchedulingIgnoredDuringExecution, &a.PreferredDuringSchedulingIgnoredDuringExecution)
			continue
		}
		if out.PodAffinity == nil {
			out.PodAffinity = &corev1.PodAffinity{}
		}
		a := out.PodAffinity
		put(term, &a.RequiredDuringSchedulingIgnoredDuringExecution, &a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if out.NodeAffinity == nil && out.PodAffinity == nil && out.PodAntiAffinity == nil {
		return nil
	}
	return out
}

// put adds a term to the required or to the preferred ones.
func put(t *model.PodTerm, required *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm) {
	term := corev1.PodAffinityTerm{LabelSelector: selector(t.Selector), Namespaces: slices.Clone(t.Namespaces), TopologyKey: t.TopologyKey}
	if t.Weight == 0 {
		*required = append(*required, term)
		return
	}
	*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{Weight: t.Weight, PodAffinityTerm: term})
}

func nodeAffinity(in *model.PodSpec) *corev1.NodeAffinity {
	if len(in.NodeAffinity)+len(in.NodePreferred) == 0 {
		return nil
	}
	out := &corev1.NodeAffinity{}
	if len(in.NodeAffinity) > 0 {
		s := &corev1.NodeSelector{}
		for _, t := range in.NodeAffinity {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, nodeTerm(t))
		}
		out.RequiredDuringSchedulingIgnoredDuringExecution = s
	}
	for _, p := range in.NodePreferred {
		out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: p.Weight, Preference: nodeTerm(p.Term)})
	}
	return out
}

func nodeTerm(t model.Term) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions(t)}
}

func expressions(t model.Term) []corev1.NodeSelectorRequirement {
	var out []corev1.NodeSelectorRequirement
	for _, r := range t {
		out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: slices.Clone(r.Values)})
	}
	return out
}

// selector rebuilds a label selector; nil where none was given.
func selector(s model.Selector) *metav1.LabelSelector {
	if !s.All && len(s.Term) == 0 {
		return nil
	}
	out := &metav1.LabelSelector{}
	for _, r := range s.Term {
		if _, taken := out.MatchLabels[r.Key]; r.Operator == model.In && len(r.Values) == 1 && !taken {
			if out.MatchLabels == nil {
				out.MatchLabels = map[string]string{}
			}
			out.MatchLabels[r.Key] = r.Values[0]
			continue
		}
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: slices.Clone(r.Values),
		})
	}
	return out
}

func spreads(in *model.PodSpec) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	for _, s := range in.Spread {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: s.MaxSkew, TopologyKey: s.TopologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector(s.Selector),
		}
		if s.Soft {
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		}
		if s.MinDomains > 0 {
			c.MinDomains = &s.MinDomains
		}
		if s.IgnoreAffinity {
			c.NodeAffinityPolicy = policy(corev1.NodeInclusionPolicyIgnore)
		}
		if s.HonorTaints {
			c.NodeTaintsPolicy = policy(corev1.NodeInclusionPolicyHonor)
		}
		out = append(out, c)
	}
	return out
}

func policy(p corev1.NodeInclusionPolicy) *corev1.NodeInclusionPolicy { return &p }

// volumeChoices are the alternatives that a pod's volumes leave: one term of
// each volume, in every combination.
func volumeChoices(in *model.PodSpec) []scheduling.Requirements {
	var out []scheduling.Requirements
	for _, v := range in.Volumes {
		if len(v.Terms) == 0 {
			continue
		}
		base := out
		if base == nil {
			base = []scheduling.Requirements{scheduling.NewRequirements()}
		}
		out = nil
		for _, left := range base {
			for _, t := range v.Terms {
				both := scheduling.NewRequirements(left.Values()...)
				both.Add(scheduling.NewNodeSelectorRequirements(expressions(t)...).Values()...)
				out = append(out, both)
			}
		}
	}
	return out
}

// daemons are a pod of each DaemonSet.
func daemons(s model.Snapshot) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		if d.Spec == nil || len(d.Spec.Refused) > 0 {
			continue
		}
		p := &corev1.Pod{Spec: podSpec(d.Spec)}
		p.Namespace, p.Name, p.Labels = d.Namespace, d.Name+"-"+strconv.Itoa(i), d.Spec.Labels
		out = append(out, p)
	}
	return out
}
