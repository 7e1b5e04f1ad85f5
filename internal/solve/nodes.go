package solve

import (
	"strconv"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// nodes gives the verdicts of the nodes that exist, one for each reason and
// pool: the node that comes nearest speaks for the others.
func (r *refusing) nodes() []model.Verdict {
	var out []model.Verdict
	type reason struct {
		pool string
		code model.Code
		key  string
	}
	at := map[reason]int{}
	for n := range r.a.m.snap.Nodes {
		node := &r.a.m.snap.Nodes[n]
		if node.Leaving {
			continue
		}
		v := r.node(n)
		v.Node, v.Pool = node.Name, node.Pool
		key := reason{v.Pool, v.Code, v.Key}
		i, ok := at[key]
		switch {
		case !ok:
			at[key] = len(out)
			out = append(out, v)
		case v.Have > out[i].Have:
			out[i] = v
		}
	}
	return out
}

// node returns the first check by which a node refuses the pod.
func (r *refusing) node(n int) model.Verdict {
	a, spec := r.a, r.spec
	node := &a.m.snap.Nodes[n]
	if node.Unready != "" {
		return model.Verdict{Code: model.CodeUnusable, Key: node.Unready, Detail: node.Unready}
	}
	if t, ok := constraint.Tolerates(spec.Tolerations, a.classifier.taints[n]); !ok {
		return model.Verdict{Code: model.CodeTaint, Key: t.Key, Wanted: tolerated(spec, t.Key), Offered: []string{taintText(t)}}
	}
	labels := a.classifier.labels[n]
	if q, ok := constraint.MatchNode(spec, labels); !ok {
		v := model.Verdict{Code: model.CodeRequirement, Key: q.Key, Wanted: constraint.NewSet([]model.Requirement{q}).Words(constraint.Normalize(q.Key))}
		if have, ok := labels[constraint.Normalize(q.Key)]; ok {
			v.Offered = []string{have}
		}
		return v
	}
	if v, ok := r.nodeSize(n); !ok {
		return v
	}
	return r.nodePods(n)
}

func (r *refusing) nodeSize(n int) (model.Verdict, bool) {
	node, free := &r.a.m.snap.Nodes[n], r.a.bins[n].free
	for _, name := range askedNames(r.spec) {
		if extended(name) && node.Allocatable[name] == 0 {
			v := model.Verdict{Code: model.CodeNoResource, Key: name, Asked: r.spec.Requests[name]}
			for _, have := range node.Allocatable.Names() {
				if model.IsGPU(have) && node.Allocatable[have] > 0 {
					v.Offered = append(v.Offered, have)
				}
			}
			return v, false
		}
	}
	for _, ask := range r.a.g.shapes[r.shape].asks {
		if limit, ok := node.Limits[ask.name]; ok && ask.amount > limit {
			return model.Verdict{Code: model.CodeMaxRequest, Key: ask.name, Asked: ask.amount, Have: limit}, false
		}
	}
	for _, name := range askedNames(r.spec) {
		want := r.spec.Requests[name]
		if have := free[r.a.m.dims.index[name]]; have < want {
			return model.Verdict{Code: model.CodeTooBig, Key: name, Asked: want, Have: max(have, 0), Used: node.Allocatable[name] - max(have, 0)}, false
		}
	}
	if rk := r.a.bins[n].rack; rk != nil {
		if _, ok := rk.clone().place(r.spec); !ok {
			v := model.Verdict{Code: model.CodeTooBig, Key: model.NvidiaGPU, Asked: r.spec.Requests[model.NvidiaGPU]}
			for _, s := range r.spec.Shares {
				v.Key, v.Asked = s.Resource, s.Count
			}
			return v, false
		}
	}
	return model.Verdict{}, true
}

// nodePods is why a node with room for a pod does not get it: the pods there.
func (r *refusing) nodePods(n int) model.Verdict {
	a := r.a
	for _, s := range a.g.residents[n] {
		if constraint.PortsConflict(r.spec.HostPorts, a.g.shapes[s].spec.HostPorts) {
			return model.Verdict{Code: model.CodeHostPort, Key: strconv.Itoa(int(r.spec.HostPorts[0].Port)), Asked: int64(r.spec.HostPorts[0].Port)}
		}
		if a.clash(r.shape, s) {
			return model.Verdict{Code: model.CodeAffinity, Key: model.LabelHostname}
		}
	}
	if a.bins[n].gpu && !a.g.shapes[r.shape].gpu && len(a.topo.rules[r.shape]) == 0 {
		return model.Verdict{Code: model.CodeCPUOnGPU, Key: a.m.snap.Nodes[n].Type}
	}
	return r.crowded()
}
