package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		errs = append(errs, validateNodeAffinity(n, path.Child("nodeAffinity"))...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func validateNodeAffinity(n *corev1.NodeAffinity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if required := n.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		at := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(required.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(at, "must have at least one node selector term"))
		}
		for i := range required.NodeSelectorTerms {
			errs = append(errs, validateNodeTerm(&required.NodeSelectorTerms[i], true, at.Index(i))...)
		}
	}
	at := path.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i, p := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		errs = append(errs, validateWeight(p.Weight, at.Index(i))...)
		errs = append(errs, validateNodeTerm(&p.Preference, false, at.Index(i).Child("preference"))...)
	}
	return errs
}

func validateWeight(weight int32, path *field.Path) field.ErrorList {
	if weight <= 0 || weight > 100 {
		return field.ErrorList{field.Invalid(path.Child("weight"), weight, "must be in the range 1-100")}
	}
	return nil
}

// validateNodeTerm checks a term. Values need be label values only where the
// term is required.
func validateNodeTerm(t *corev1.NodeSelectorTerm, required bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, rq := range t.MatchExpressions {
		errs = append(errs, validateNodeRequirement(rq, required, path.Child("matchExpressions").Index(i))...)
	}
	for i, rq := range t.MatchFields {
		errs = append(errs, validateNodeField(rq, path.Child("matchFields").Index(i))...)
	}
	return errs
}

func validateNodeRequirement(rq corev1.NodeSelectorRequirement, required bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch rq.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(rq.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(rq.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(rq.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), rq.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metavalidation.ValidateLabelName(rq.Key, path.Child("key"))...)
	if required {
		for i, v := range rq.Values {
			for _, msg := range validation.IsValidLabelValue(v) {
				errs = append(errs, field.Invalid(values.Index(i), v, msg))
			}
		}
	}
	return errs
}

func validateNodeField(rq corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch rq.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(rq.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), rq.Operator, "not a valid selector operator"))
	}
	if rq.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), rq.Key, "not a valid field selector key"))
	}
	for i, v := range rq.Values {
		errs = append(errs, validateName(v, path.Child("values").Index(i))...)
	}
	return errs
}

func validatePodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range required {
		errs = append(errs, validatePodTerm(&required[i], path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, validateWeight(preferred[i].Weight, at)...)
		errs = append(errs, validatePodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	errs := validateLabelSelector(t.LabelSelector, path.Child("labelSelector"))
	errs = append(errs, validateLabelSelector(t.NamespaceSelector, path.Child("namespaceSelector"))...)
	for _, name := range t.Namespaces {
		for _, msg := range apivalidation.ValidateNamespaceName(name, false) {
			errs = append(errs, field.Invalid(path.Child("namespace"), name, msg))
		}
	}
	errs = append(errs, validateLabelKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, path)...)
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metavalidation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

func validateLabelSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := validateLabels(s.MatchLabels, path.Child("matchLabels"))
	rest := &metav1.LabelSelector{MatchExpressions: s.MatchExpressions}
	return append(errs, metavalidation.ValidateLabelSelector(rest, metavalidation.LabelSelectorValidationOptions{}, path)...)
}

// validateLabelKeys checks matchLabelKeys and mismatchLabelKeys before they are
// merged into the selector. The server does so afterwards, which comes to the
// same: a key that the selector names already is refused where the pod has it.
func validateLabelKeys(match, mismatch []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, keys := range []struct {
		name string
		list []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		at := path.Child(keys.name)
		if len(keys.list) > 0 && s == nil {
			errs = append(errs, field.Forbidden(at, "must not be specified when labelSelector is not set"))
			continue
		}
		for i, key := range keys.list {
			errs = append(errs, metavalidation.ValidateLabelName(key, at.Index(i))...)
		}
	}
	errs = append(errs, validateKeysOnce(match, s, path)...)
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

// validateKeysOnce finds keys of matchLabelKeys that the selector holds twice:
// once as written, once as merged from the pod's labels.
func validateKeysOnce(match []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil || len(match) == 0 {
		return nil
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for key := range s.MatchLabels {
		seen[key] = true
	}
	for _, e := range s.MatchExpressions {
		if i := slices.Index(match, e.Key); i >= 0 && seen[e.Key] {
			errs = append(errs, field.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen[e.Key] = true
	}
	return errs
}

func validateSpread(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range constraints {
		at := path.Index(i)
		errs = append(errs, positive(c.MaxSkew, at.Child("maxSkew"))...)
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
		if !slices.Contains(actions, c.WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, actions))
		}
		for _, other := range constraints[i+1:] {
			if other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
				errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)))
				break
			}
		}
		if c.MinDomains != nil {
			errs = append(errs, positive(*c.MinDomains, at.Child("minDomains"))...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(at.Child("minDomains"), c.MinDomains, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s", c.WhenUnsatisfiable)))
			}
		}
		errs = append(errs, validatePolicy(c.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"))...)
		errs = append(errs, validatePolicy(c.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"))...)
		errs = append(errs, validateLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)...)
		errs = append(errs, validateLabelSelector(c.LabelSelector, at.Child("labelSelector"))...)
	}
	return errs
}

func positive(n int32, path *field.Path) field.ErrorList {
	if n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, int64(n), "must be greater than zero")}
}

func validatePolicy(p *corev1.NodeInclusionPolicy, path *field.Path) field.ErrorList {
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	if p == nil || slices.Contains(policies, *p) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, p, policies)}
}

func validateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		}
		if t.Key == "" && t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		errs = append(errs, validateTolerationValue(t, at)...)
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
		if t.Effect != "" && !slices.Contains(effects, t.Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect, effects))
		}
	}
	return errs
}

func validateTolerationValue(t corev1.Toleration, path *field.Path) field.ErrorList {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, strings.Join(msgs, ";"))}
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")}
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // behind an alpha feature gate, off unless asked for
		known := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}
		return field.ErrorList{field.NotSupported(path.Child("operator"), t.Operator, known)}
	default:
		known := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
		return field.ErrorList{field.NotSupported(path.Child("operator"), t.Operator, known)}
	}
	return nil
}
