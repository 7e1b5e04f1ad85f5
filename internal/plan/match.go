package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// The rules of Kubernetes 1.37 for labels, taints and ports, written once more
// so that Check does not believe what the planner believes.

var renamed = map[string]string{
	"failure-domain.beta.kubernetes.io/zone":   model.LabelZone,
	"failure-domain.beta.kubernetes.io/region": model.LabelRegion,
	"beta.kubernetes.io/arch":                  model.LabelArch,
	"beta.kubernetes.io/os":                    model.LabelOS,
	"beta.kubernetes.io/instance-type":         model.LabelInstanceType,
}

func label(labels map[string]string, key string) (string, bool) {
	v, ok := labels[key]
	if now, old := renamed[key]; !ok && old {
		v, ok = labels[now]
	}
	return v, ok
}

func holds(r *model.Requirement, labels map[string]string) bool {
	v, ok := label(labels, r.Key)
	switch r.Operator {
	case model.In:
		return ok && slices.Contains(r.Values, v)
	case model.NotIn:
		return !(ok && slices.Contains(r.Values, v))
	case model.Exists:
		return ok
	case model.DoesNotExist:
		return !ok
	}
	if !ok || len(r.Values) != 1 {
		return false
	}
	have, err1 := strconv.ParseInt(v, 10, 64)
	want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	switch r.Operator {
	case model.Gt:
		return have > want
	case model.Gte:
		return have >= want
	case model.Lt:
		return have < want
	case model.Lte:
		return have <= want
	}
	return false
}

func all(t model.Term, labels map[string]string) bool {
	for i := range t {
		if !holds(&t[i], labels) {
			return false
		}
	}
	return true
}

// matchesNode names the label key on which a node fails, roughly.
func matchesNode(spec *model.PodSpec, labels map[string]string) (key string, ok bool) {
	var failed []string
	for k, want := range spec.NodeSelector {
		if v, has := label(labels, k); !has || v != want {
			failed = append(failed, k)
		}
	}
	if len(failed) > 0 {
		return slices.Min(failed), false
	}
	if !someTerm(spec.NodeAffinity, labels) {
		return "node affinity", false
	}
	for _, v := range spec.Volumes {
		if !someTerm(v.Terms, labels) {
			return "volume " + v.Claim, false
		}
	}
	return "", true
}

func someTerm(terms []model.Term, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t model.Term) bool { return len(t) > 0 && all(t, labels) })
}

func picks(sel model.Selector, labels map[string]string) bool {
	return sel.All && all(sel.Term, labels)
}

func tolerates(ts []model.Toleration, taints []model.Taint) (model.Taint, bool) {
	for _, taint := range taints {
		if taint.Effect == model.PreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(ts, func(t model.Toleration) bool { return covers(t, taint) }) {
			return taint, false
		}
	}
	return model.Taint{}, true
}

func covers(t model.Toleration, taint model.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == "Exists" {
		return true
	}
	if t.Operator == "" || t.Operator == "Equal" {
		return t.Value == taint.Value
	}
	want, err1 := strconv.ParseInt(t.Value, 10, 64)
	have, err2 := strconv.ParseInt(taint.Value, 10, 64)
	if err1 != nil || err2 != nil || strconv.FormatInt(want, 10) != t.Value || strconv.FormatInt(have, 10) != taint.Value {
		return false
	}
	return t.Operator == "Lt" && have < want || t.Operator == "Gt" && have > want
}

func portsClash(a, b []model.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	proto := func(p string) string { return strings.ToUpper(cmpOr(p, "TCP")) }
	for _, x := range a {
		for _, y := range b {
			if x.Port == y.Port && proto(x.Protocol) == proto(y.Protocol) && (x.IP == y.IP || wild(x.IP) || wild(y.IP)) {
				return true
			}
		}
	}
	return false
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
