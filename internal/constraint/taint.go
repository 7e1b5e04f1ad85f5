package constraint

import (
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/internal/model"
)

// Tolerates reports whether the tolerations cover every taint that has one of
// the effects, and else returns the first that they do not cover. Without
// effects, those that keep a pod off a node count: NoSchedule and NoExecute.
// PreferNoSchedule counts only where it is named.
func Tolerates(tolerations []model.Toleration, taints []model.Taint, effects ...string) (untolerated model.Taint, ok bool) {
	for _, t := range taints {
		if !counts(t.Effect, effects) {
			continue
		}
		if !toleratesOne(tolerations, t) {
			return t, false
		}
	}
	return model.Taint{}, true
}

func counts(effect string, effects []string) bool {
	if len(effects) == 0 {
		return effect == model.NoSchedule || effect == model.NoExecute
	}
	return slices.Contains(effects, effect)
}

func toleratesOne(tolerations []model.Toleration, t model.Taint) bool {
	for i := range tolerations {
		if Covers(tolerations[i], t) {
			return true
		}
	}
	return false
}

// Covers reports whether one toleration covers one taint (Kubernetes 1.37): an
// empty effect or key covers every one, no operator means Equal. Lt and Gt
// (gate TaintTolerationComparisonOperators) compare the taint's value with the
// toleration's as integers written without sign or leading zeros, other than
// one minus.
func Covers(tol model.Toleration, t model.Taint) bool {
	if (tol.Effect != "" && tol.Effect != t.Effect) || (tol.Key != "" && tol.Key != t.Key) {
		return false
	}
	switch tol.Operator {
	case "", "Equal":
		return tol.Value == t.Value
	case "Exists":
		return true
	case "Lt", "Gt":
		want, ok1 := canonical(tol.Value)
		have, ok2 := canonical(t.Value)
		return ok1 && ok2 && have != want && (have < want) == (tol.Operator == "Lt")
	}
	return false
}

func canonical(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}
