package workload

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// nothing is a term that no node matches: there is no value to be in.
var nothing = model.Term{{Key: constraint.NodeNameField, Operator: model.In}}

// nodeTerms converts required node affinity. A term without any requirement
// matches no node in Kubernetes, so it is left out; when nothing else is left,
// the pod fits nowhere.
func nodeTerms(s *corev1.NodeSelector, path string, line func(string) int) []model.Term {
	if s == nil {
		return nil
	}
	var out []model.Term
	for i, t := range s.NodeSelectorTerms {
		if term := nodeTerm(t, path+".nodeSelectorTerms["+strconv.Itoa(i)+"]", line); len(term) > 0 {
			out = append(out, term)
		}
	}
	if len(out) == 0 {
		return []model.Term{nothing}
	}
	return out
}

func nodeTerm(t corev1.NodeSelectorTerm, path string, line func(string) int) model.Term {
	var out model.Term
	for i, e := range t.MatchExpressions {
		out = append(out, model.Requirement{
			Key: liveLabel(e.Key), Operator: model.Operator(e.Operator), Values: slices.Clone(e.Values),
			Line: line(path + ".matchExpressions[" + strconv.Itoa(i) + "]"),
		})
	}
	for i, e := range t.MatchFields {
		out = append(out, model.Requirement{
			Key: constraint.NodeNameField, Operator: model.Operator(e.Operator), Values: slices.Clone(e.Values),
			Line: line(path + ".matchFields[" + strconv.Itoa(i) + "]"),
		})
	}
	return out
}

// nodePreferences converts preferred node affinity. An empty preference matches
// every node in Kubernetes, so it prefers none.
func nodePreferences(terms []corev1.PreferredSchedulingTerm, path string, line func(string) int) []model.WeightedTerm {
	var out []model.WeightedTerm
	for i, t := range terms {
		if term := nodeTerm(t.Preference, path+"["+strconv.Itoa(i)+"].preference", line); len(term) > 0 {
			out = append(out, model.WeightedTerm{Weight: t.Weight, Term: term})
		}
	}
	return out
}

// selector converts a label selector; nil picks nothing and {} everything.
func selector(s *metav1.LabelSelector) model.Selector {
	if s == nil {
		return model.Selector{}
	}
	out := model.Selector{All: true}
	for _, key := range sortedKeys(s.MatchLabels) {
		out.Term = append(out.Term, model.Requirement{Key: key, Operator: model.In, Values: []string{s.MatchLabels[key]}})
	}
	for _, e := range s.MatchExpressions {
		out.Term = append(out.Term, model.Requirement{Key: e.Key, Operator: model.Operator(e.Operator), Values: slices.Clone(e.Values)})
	}
	return out
}

// podTerms converts pod affinity and anti-affinity, the required terms first.
func (r *reader) podTerms(t *template) []model.PodTerm {
	a := t.spec.Affinity
	if a == nil {
		return nil
	}
	var out []model.PodTerm
	add := func(anti bool, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, r.podTerm(t, &required[i], anti, 0))
		}
		for i := range preferred {
			out = append(out, r.podTerm(t, &preferred[i].PodAffinityTerm, anti, preferred[i].Weight))
		}
	}
	if p := a.PodAffinity; p != nil {
		add(false, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(true, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

func (r *reader) podTerm(t *template, term *corev1.PodAffinityTerm, anti bool, weight int32) model.PodTerm {
	return model.PodTerm{
		Anti: anti, Weight: weight, Selector: selector(term.LabelSelector),
		Namespaces: r.namespacesOf(t, term), TopologyKey: liveLabel(term.TopologyKey),
	}
}

// namespacesOf lists the namespaces whose pods a term looks at: those named and
// those that the selector picks, or the pod's own when it says neither.
func (r *reader) namespacesOf(t *template, term *corev1.PodAffinityTerm) []string {
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		return []string{t.object.namespace()}
	}
	out := slices.Clone(term.Namespaces)
	if s, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector); err == nil && term.NamespaceSelector != nil {
		for _, name := range slices.Sorted(maps.Keys(r.cluster.namespaces)) {
			if s.Matches(labelSet(r.cluster.namespaces[name])) {
				out = append(out, name)
			}
			if !s.Empty() && !r.cluster.described[name] {
				r.noteOnce("namespace "+name, t.object, model.Info, "unknown-namespace", t.path("spec.affinity"),
					"a namespaceSelector asks for labels of namespace "+name+", which the input does not give: it is taken to have none", "give the Namespace too")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// spread converts topology spread constraints with the API's defaults: node
// affinity is honoured and taints are not.
func spread(constraints []corev1.TopologySpreadConstraint, namespace string) []model.Spread {
	var out []model.Spread
	for _, c := range constraints {
		s := model.Spread{
			MaxSkew: c.MaxSkew, TopologyKey: liveLabel(c.TopologyKey), Soft: c.WhenUnsatisfiable == corev1.ScheduleAnyway,
			Selector: selector(c.LabelSelector), SelectorNamespace: namespace,
		}
		if c.MinDomains != nil {
			s.MinDomains = *c.MinDomains
		}
		s.IgnoreAffinity = c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
		s.HonorTaints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		out = append(out, s)
	}
	return out
}

// mergeLabelKeys writes matchLabelKeys and mismatchLabelKeys into the selectors
// with the pod's own values, as the API server does at creation; a key that the
// pod lacks is passed over.
func mergeLabelKeys(spec *corev1.PodSpec, labels map[string]string) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		c.LabelSelector = merged(c.LabelSelector, c.MatchLabelKeys, nil, labels)
	}
	for _, t := range podAffinityTerms(spec.Affinity) {
		t.LabelSelector = merged(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys, labels)
	}
}

func merged(s *metav1.LabelSelector, match, mismatch []string, labels map[string]string) *metav1.LabelSelector {
	if s == nil || len(match)+len(mismatch) == 0 {
		return s
	}
	out := s.DeepCopy()
	add := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := labels[key]; ok {
				out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
			}
		}
	}
	add(match, metav1.LabelSelectorOpIn)
	add(mismatch, metav1.LabelSelectorOpNotIn)
	return out
}

// podAffinityTerms lists every pod (anti-)affinity term, to be written to.
func podAffinityTerms(a *corev1.Affinity) []*corev1.PodAffinityTerm {
	if a == nil {
		return nil
	}
	var out []*corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, &required[i])
		}
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

// usesLabelKey reports whether any selector of the spec is to be completed with
// the pod's own value of a label.
func usesLabelKey(spec *corev1.PodSpec, key string) bool {
	for _, c := range spec.TopologySpreadConstraints {
		if slices.Contains(c.MatchLabelKeys, key) {
			return true
		}
	}
	for _, t := range podAffinityTerms(spec.Affinity) {
		if slices.Contains(t.MatchLabelKeys, key) || slices.Contains(t.MismatchLabelKeys, key) {
			return true
		}
	}
	return false
}
