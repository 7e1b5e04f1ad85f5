package constraint

import (
	"maps"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/internal/model"
)

// Matches reports whether a node or pod with the labels meets one requirement,
// by the rules of Kubernetes 1.37: NotIn and DoesNotExist match an absent label;
// the numeric operators compare integers and match nothing else.
func Matches(r model.Requirement, labels map[string]string) bool {
	value, ok := lookup(labels, r.Key)
	switch r.Operator {
	case model.In:
		return ok && slices.Contains(r.Values, value)
	case model.NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case model.Exists:
		return ok
	case model.DoesNotExist:
		return !ok
	case model.Gt, model.Lt, model.Gte, model.Lte:
		return ok && compare(r, value)
	}
	return false
}

func compare(r model.Requirement, value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	bound, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	switch r.Operator {
	case model.Gt:
		return n > bound
	case model.Gte:
		return n >= bound
	case model.Lt:
		return n < bound
	default:
		return n <= bound
	}
}

// MatchTerm reports whether a node with the labels meets every requirement of a
// node affinity term, and else the first that fails. An empty term matches
// nothing; the requirement returned with it is empty. The labels of a named
// node carry the name under NodeNameField.
func MatchTerm(t model.Term, labels map[string]string) (failed model.Requirement, ok bool) {
	if len(t) == 0 {
		return model.Requirement{}, false
	}
	for i := range t {
		if !Matches(t[i], labels) {
			return t[i], false
		}
	}
	return model.Requirement{}, true
}

// MatchNode reports whether a pod's node selector, required node affinity and
// volumes admit a node with the labels, and else the first requirement that
// fails: the selector's in key order, then the first affinity term's, then the
// first term's of the first volume that does not fit.
func MatchNode(spec *model.PodSpec, labels map[string]string) (failed model.Requirement, ok bool) {
	if key, fails := selectorFails(spec.NodeSelector, labels); fails {
		return model.Requirement{Key: key, Operator: model.In, Values: []string{spec.NodeSelector[key]}}, false
	}
	if failed, ok = matchAny(spec.NodeAffinity, labels); !ok {
		return failed, false
	}
	for _, v := range spec.Volumes {
		if failed, ok = matchAny(v.Terms, labels); !ok {
			return failed, false
		}
	}
	return model.Requirement{}, true
}

// selectorFails returns the smallest key that fails, without sorting the keys.
func selectorFails(selector, labels map[string]string) (key string, fails bool) {
	for k, want := range selector {
		if v, ok := lookup(labels, k); (!ok || v != want) && (!fails || k < key) {
			key, fails = k, true
		}
	}
	return key, fails
}

// matchAny reports whether one of the terms matches; no terms match anything.
func matchAny(terms []model.Term, labels map[string]string) (failed model.Requirement, ok bool) {
	for i, t := range terms {
		f, ok := MatchTerm(t, labels)
		if ok {
			return model.Requirement{}, true
		}
		if i == 0 {
			failed = f
		}
	}
	return failed, len(terms) == 0
}

// MatchSelector reports whether a label selector picks a pod with the labels.
// The zero Selector picks none, one with All and no requirement picks every pod.
func MatchSelector(sel model.Selector, labels map[string]string) bool {
	if !sel.All {
		return false
	}
	for i := range sel.Term {
		if !Matches(sel.Term[i], labels) {
			return false
		}
	}
	return true
}

// Alternatives lists the ways in which a pod's node selector, required node
// affinity and volumes can be met, as Sets to compare with a pool's; meeting one
// is enough. They are in the order of the affinity's terms, then the volumes'.
// None means that no node can meet them.
func Alternatives(spec *model.PodSpec) []Set {
	out := times([]Set{FromLabels(spec.NodeSelector)}, spec.NodeAffinity)
	for _, v := range spec.Volumes {
		out = times(out, v.Terms)
	}
	return out
}

// times joins every Set with every term, leaving out what cannot be met and
// what was there already. No terms change nothing.
func times(sets []Set, terms []model.Term) []Set {
	if len(terms) == 0 {
		return sets
	}
	var out []Set
	seen := map[string]bool{}
	for _, s := range sets {
		for _, t := range terms {
			if len(t) == 0 {
				continue
			}
			both := s.Intersect(NewSet(t))
			if _, empty := both.Empty(); empty || seen[both.String()] {
				continue
			}
			seen[both.String()] = true
			out = append(out, both)
		}
	}
	return out
}

// ForPool is what a pool's nodes will have for labels, as far as the pool says:
// its requirements, its template's labels, its own name and its node class.
func ForPool(p model.Pool) Set {
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[model.LabelNodePool] = p.Name
	if class, ok := ec2Class(p.NodeClass); ok {
		labels["karpenter.k8s.aws/ec2nodeclass"] = class
	}
	return NewSet(p.Requirements).Intersect(FromLabels(labels))
}

func ec2Class(ref string) (string, bool) {
	const kind = "EC2NodeClass/"
	if len(ref) <= len(kind) || ref[:len(kind)] != kind {
		return "", false
	}
	return ref[len(kind):], true
}
