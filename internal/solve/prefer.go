package solve

import (
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// A wish is one preference of a shape. Wishes are kept where they cost
// nothing: they are planned for as if they were demands, and given up kind by
// kind, in Karpenter's order, until the plan is as cheap and as complete as one
// without any.
type wish struct {
	shape int
	kind  wishKind
	at    int // index in its list of the spec
}

type wishKind int

// The kinds of wish, in the order in which Karpenter 1.15 gives them up.
const (
	wishNear wishKind = iota
	wishApart
	wishNode
	wishSpread
	wishTaint
	wishKinds
)

// maxRestores bounds how many shapes get their wishes back one by one.
const maxRestores = 24

// wishing is what is wished for, and what of it is kept.
type wishing struct {
	w    *world
	all  []wish
	kept []bool
}

// best makes the attempt to keep, and tells what was given up for it.
func (w *world) best() (*attempt, []model.Relaxation) {
	ws := &wishing{w: w, all: w.wishes()}
	ws.kept = make([]bool, len(ws.all))
	best := ws.try()
	if len(ws.all) == 0 {
		return best, nil
	}
	best = ws.giveUp(best)
	if best.steps < w.opts.Steps/8 {
		best = ws.restore(best)
	}
	return best, ws.relaxed(best)
}

func (w *world) wishes() []wish {
	if w.opts.IgnorePreferences {
		return nil
	}
	var out []wish
	for s := range w.group.shapes {
		if len(w.group.shapes[s].pods) == 0 {
			continue
		}
		spec := w.group.shapes[s].spec
		for i := range spec.PodAffinity {
			if t := &spec.PodAffinity[i]; t.Weight != 0 {
				kind := wishNear
				if t.Anti {
					kind = wishApart
				}
				out = append(out, wish{s, kind, i})
			}
		}
		for i := range spec.NodePreferred {
			out = append(out, wish{s, wishNode, i})
		}
		for i := range spec.Spread {
			if spec.Spread[i].Soft {
				out = append(out, wish{s, wishSpread, i})
			}
		}
		if _, bothers := w.softTaint(spec); bothers {
			out = append(out, wish{s, wishTaint, 0})
		}
	}
	return out
}

// softTaint returns a PreferNoSchedule taint that a pod does not tolerate.
func (w *world) softTaint(spec *model.PodSpec) (model.Taint, bool) {
	for i := range w.market.pools {
		if t, ok := constraint.Tolerates(spec.Tolerations, w.market.pools[i].src.Taints, model.PreferNoSchedule); !ok {
			return t, true
		}
	}
	for _, taints := range w.classifier.taints {
		if t, ok := constraint.Tolerates(spec.Tolerations, taints, model.PreferNoSchedule); !ok {
			return t, true
		}
	}
	return model.Taint{}, false
}

// try makes an attempt with the wishes that are kept.
func (ws *wishing) try() *attempt {
	specs := make([]*model.PodSpec, len(ws.w.group.shapes))
	strict := make([]bool, len(specs))
	for s := range specs {
		specs[s] = ws.w.group.shapes[s].spec
	}
	changed := map[int]bool{}
	for i, is := range ws.kept {
		if !is {
			continue
		}
		s := ws.all[i].shape
		if ws.all[i].kind == wishTaint {
			strict[s] = true
			continue
		}
		if !changed[s] {
			specs[s], changed[s] = ptr(*specs[s]), true
		}
		demand(specs[s], ws.all[i])
	}
	return ws.w.attempt(specs, strict)
}

// demand makes a preference of a spec, which the caller owns, a requirement.
func demand(spec *model.PodSpec, w wish) {
	switch w.kind {
	case wishNear, wishApart:
		spec.PodAffinity = slices.Clone(spec.PodAffinity)
		spec.PodAffinity[w.at].Weight = 0
	case wishSpread:
		spec.Spread = slices.Clone(spec.Spread)
		spec.Spread[w.at].Soft = false
	case wishNode:
		spec.NodeAffinity = slices.Clone(spec.NodeAffinity)
		if len(spec.NodeAffinity) == 0 {
			spec.NodeAffinity = []model.Term{nil}
		}
		for i, t := range spec.NodeAffinity {
			spec.NodeAffinity[i] = slices.Concat(t, spec.NodePreferred[w.at].Term)
		}
	}
}

// giveUp keeps all wishes that can be met at all, and gives up one kind after
// the other until the attempt is no worse than the one without any.
func (ws *wishing) giveUp(plain *attempt) *attempt {
	for i := range ws.kept {
		ws.kept[i] = true
	}
	ws.dropHopeless()
	for kind := range wishKinds {
		if a := ws.try(); !a.worse(plain) {
			return a
		}
		for i, w := range ws.all {
			if w.kind == kind {
				ws.kept[i] = false
			}
		}
	}
	return plain
}

// dropHopeless gives up, the last one first, wishes about nodes that no node
// could meet together.
func (ws *wishing) dropHopeless() {
	for s := range ws.w.group.shapes {
		for !ws.possible(s) {
			last := -1
			for i, w := range ws.all {
				if w.shape == s && ws.kept[i] && (w.kind == wishNode || (w.kind == wishTaint && last < 0)) {
					last = i
				}
			}
			if last < 0 {
				break
			}
			ws.kept[last] = false
		}
	}
}

// possible reports whether some node would take a pod of a shape with the
// wishes about nodes that are kept.
func (ws *wishing) possible(s int) bool {
	spec, strict := *ws.w.group.shapes[s].spec, false
	any := false
	for i, w := range ws.all {
		if w.shape != s || !ws.kept[i] {
			continue
		}
		switch w.kind {
		case wishNode:
			demand(&spec, w)
			any = true
		case wishTaint:
			strict, any = true, true
		}
	}
	if !any {
		return true
	}
	c := ws.w.classifier.class(&spec, strict)
	if !c.nodes.empty() {
		return true
	}
	vec := ws.w.group.shapes[s].vec
	for k, at := range c.where {
		if at != 0 && within(vec, ws.w.market.kinds[k].alloc) {
			return true
		}
	}
	return false
}

// worse reports whether a leaves more pods than b, or costs more.
func (a *attempt) worse(b *attempt) bool {
	x, y := a.unplaced(), b.unplaced()
	for s := range x {
		if x[s] > y[s] {
			return true
		}
	}
	return a.cost > b.cost+1e-9
}

// unplaced counts by shape the pods that went nowhere.
func (a *attempt) unplaced() []int {
	out := make([]int, len(a.g.shapes))
	for i, n := range a.left {
		for _, p := range a.items[i].parts {
			out[p.shape] += n * p.n
		}
	}
	for _, st := range a.stuck {
		out[st.shape] += st.n
	}
	return out
}

// restore gives shapes back what was given up for all, where that costs nothing.
func (ws *wishing) restore(best *attempt) *attempt {
	tried := 0
	for s := range ws.w.group.shapes {
		before := slices.Clone(ws.kept)
		changed := false
		for i, w := range ws.all {
			if w.shape == s && !ws.kept[i] {
				ws.kept[i], changed = true, true
			}
		}
		if !changed {
			continue
		}
		if tried++; tried > maxRestores {
			ws.kept = before
			break
		}
		ws.dropHopeless()
		if slices.Equal(before, ws.kept) {
			continue
		}
		a := ws.try()
		if a.worse(best) {
			ws.kept = before
			continue
		}
		best = a
	}
	return best
}

// relaxed tells what was given up. What the plan fulfils all the same was not.
func (ws *wishing) relaxed(best *attempt) []model.Relaxation {
	var out []model.Relaxation
	for i, w := range ws.all {
		if ws.kept[i] || best.fulfils(w) {
			continue
		}
		sh := &ws.w.group.shapes[w.shape]
		r := model.Relaxation{Pods: slices.Clone(sh.pods)}
		switch w.kind {
		case wishNear, wishApart:
			r.What, r.Key = "podAffinity", sh.spec.PodAffinity[w.at].TopologyKey
		case wishNode:
			r.What = "nodeAffinity"
			if t := sh.spec.NodePreferred[w.at].Term; len(t) > 0 {
				r.Key = t[0].Key
			}
		case wishSpread:
			r.What, r.Key = "topologySpread", sh.spec.Spread[w.at].TopologyKey
		case wishTaint:
			t, _ := ws.w.softTaint(sh.spec)
			r.What, r.Key = "PreferNoSchedule", t.Key
		}
		out = append(out, r)
	}
	return out
}

// fulfils reports whether every node with pods of a wish's shape meets it,
// where that can be told node by node.
func (a *attempt) fulfils(w wish) bool {
	if w.kind != wishNode && w.kind != wishTaint {
		return false
	}
	spec := *a.g.shapes[w.shape].spec
	if w.kind == wishNode {
		spec = model.PodSpec{Tolerations: spec.Tolerations, NodeAffinity: []model.Term{spec.NodePreferred[w.at].Term}}
	}
	c := a.classifier.class(&spec, w.kind == wishTaint)
	for i := range a.launches {
		if f := &a.launches[i]; a.holdsShape(f.takes, w.shape) && f.cells&^c.where[f.kind] != 0 {
			return false
		}
	}
	for n := range a.bins {
		if a.holdsShape(a.bins[n].takes, w.shape) && !c.nodes.has(n) {
			return false
		}
	}
	return true
}

func (a *attempt) holdsShape(takes []take, s int) bool {
	return slices.ContainsFunc(takes, func(t take) bool {
		return slices.ContainsFunc(a.items[t.item].parts, func(p part) bool { return p.shape == s })
	})
}
