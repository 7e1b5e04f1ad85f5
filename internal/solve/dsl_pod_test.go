package solve

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

func specDetail(spec *model.PodSpec, ns string, w []string) error {
	switch w[0] {
	case "select":
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		maps.Copy(spec.NodeSelector, pairs(w[1:]))
	case "or":
		spec.NodeAffinity = append(spec.NodeAffinity, nil)
	case "prefer":
		n, _ := strconv.Atoi(w[1])
		r, err := requirement(w[2:])
		spec.NodePreferred = append(spec.NodePreferred, model.WeightedTerm{Weight: int32(n), Term: model.Term{r}})
		return err
	case "tolerate":
		t := model.Toleration{Operator: "Exists"}
		k, v, has := strings.Cut(w[1], "=")
		if t.Key = k; has {
			t.Operator, t.Value = "Equal", v
		}
		spec.Tolerations = append(spec.Tolerations, t)
	case "label":
		maps.Copy(spec.Labels, pairs(w[1:]))
	case "port":
		n, _ := strconv.Atoi(w[1])
		spec.HostPorts = append(spec.HostPorts, model.HostPort{Port: int32(n), Protocol: "TCP"})
	case "volume":
		var term model.Term
		for k, v := range pairs(w[1:]) {
			term = append(term, model.Requirement{Key: k, Operator: model.In, Values: []string{v}})
		}
		spec.Volumes = append(spec.Volumes, model.Volume{Claim: "data", Terms: []model.Term{term}})
	case "spread", "near", "apart", "wish-near", "wish-apart":
		return topologyDetail(spec, ns, w)
	case "container":
		r, _, err := resources(w[1:])
		spec.Containers = append(spec.Containers, model.Container{Name: fmt.Sprint("c", len(spec.Containers)), Requests: r, Limits: r})
		return err
	case "containers": // no container of its own yet
		spec.Containers = nil
	case "share":
		n, _ := strconv.ParseInt(w[2], 10, 64)
		d := model.DeviceShare{Resource: w[1], Count: n, PerDevice: model.Resources{}}
		for k, v := range pairs(w[3:]) {
			d.PerDevice[k], _ = strconv.ParseInt(v, 10, 64)
		}
		spec.Shares = append(spec.Shares, d)
	case "gate":
		spec.Gates = append(spec.Gates, w[1])
	case "scheduler":
		spec.SchedulerName = w[1]
	case "claim":
		spec.Claims = append(spec.Claims, w[1])
	case "refused":
		spec.Refused = append(spec.Refused, model.Verdict{Code: model.CodeInvalid, Detail: strings.Join(w[1:], " ")})
	default:
		r, err := requirement(w)
		if len(spec.NodeAffinity) == 0 {
			spec.NodeAffinity = []model.Term{nil}
		}
		last := len(spec.NodeAffinity) - 1
		spec.NodeAffinity[last] = append(spec.NodeAffinity[last], r)
		return err
	}
	return nil
}

func topologyDetail(spec *model.PodSpec, ns string, w []string) error {
	verb, weight := w[0], 0
	if rest, ok := strings.CutPrefix(verb, "wish-"); ok {
		verb = rest
		weight, _ = strconv.Atoi(w[1])
		w = w[1:]
	}
	sel := model.Selector{All: true}
	sp := model.Spread{MaxSkew: 1, TopologyKey: key(w[1]), SelectorNamespace: ns}
	for _, o := range w[2:] {
		k, v, _ := strings.Cut(o, "=")
		n, _ := strconv.Atoi(v)
		switch k {
		case "soft":
			sp.Soft = true
		case "skew":
			sp.MaxSkew = int32(n)
		case "min":
			sp.MinDomains = int32(n)
		default:
			sel.Term = append(sel.Term, model.Requirement{Key: k, Operator: model.In, Values: []string{v}})
		}
	}
	if verb == "spread" {
		sp.Selector = sel
		spec.Spread = append(spec.Spread, sp)
		return nil
	}
	spec.PodAffinity = append(spec.PodAffinity, model.PodTerm{
		Anti: verb == "apart", Weight: int32(weight), Selector: sel, Namespaces: []string{ns}, TopologyKey: sp.TopologyKey,
	})
	return nil
}
