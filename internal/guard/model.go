package guard

import (
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// fromModel shows a pod of a Snapshot as the rules see pods. A Snapshot holds
// neither volumes nor annotations, so that rules about those find nothing.
func fromModel(m model.Pod) Pod {
	p := Pod{
		Namespace: m.Namespace, Name: m.Name, ServiceAccount: "default", Kind: "Pod",
		DaemonSet: strings.HasPrefix(m.Owner, "DaemonSet "), Live: m.Node != "",
		Tolerations: m.Spec.Tolerations, Claims: len(m.Spec.Claims) > 0, Place: m.Spec.Place,
	}
	for i, c := range m.Spec.Containers {
		p.Containers = append(p.Containers, containerFromModel(c, i))
	}
	return p
}

func containerFromModel(m model.Container, i int) Container {
	c := Container{Name: m.Name, List: "containers", Index: i, Image: m.Image, Privileged: m.Privileged, Caps: m.Caps}
	for _, e := range m.Env {
		c.Env = append(c.Env, Env{Name: e.Name, Value: e.Value, From: e.From, Line: e.Line})
	}
	for _, from := range m.EnvFrom {
		kind, rest, _ := strings.Cut(from, " ")
		_, name, _ := strings.Cut(rest, "/")
		c.EnvFrom = append(c.EnvFrom, EnvFrom{Kind: kind, Name: name})
	}
	c.Limits, c.Requests = amountsFromModel(m.Limits), amountsFromModel(m.Requests)
	return c
}

func amountsFromModel(r model.Resources) []Amount {
	var out []Amount
	for _, name := range r.Names() {
		out = append(out, Amount{Name: name, Value: float64(r[name])})
	}
	return out
}

// ReviewModel applies one rule to a pod of a Snapshot. Its findings have the
// pod's place, with the line of the variable where they are about one.
func ReviewModel(rule string, m model.Pod) []Finding {
	p := fromModel(m)
	r := review{pod: &p, facts: &Facts{}, gpu: p.asksGPU() || len(m.Spec.Shares) > 0}
	r.aims = r.gpu || r.goesToGPUs()
	for i := range checked {
		if checked[i].Name == rule {
			r.rule, r.severity = &checked[i], checked[i].Severity
			checked[i].pod(&r)
		}
	}
	for i := range r.found {
		r.found[i].Place.Field = m.Spec.Place.Field
	}
	return r.found
}
