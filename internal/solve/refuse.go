package solve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// refuse gives the verdicts on the pods of a shape that went nowhere: for
// every pool in its order, then for the nodes that exist, the first check that
// fails.
func (a *attempt) refuse(s, n int) []model.Verdict {
	var out []model.Verdict
	r := refusing{a: a, shape: s, spec: a.g.shapes[s].spec, pods: n}
	for p := range a.m.pools {
		for _, dead := range a.m.pools[p].dead {
			dead.Pool = a.m.pools[p].src.Name
			out = append(out, dead)
		}
		if len(a.m.pools[p].dead) > 0 {
			continue
		}
		v, ok := r.pool(r.spec, p)
		if ok {
			v = r.crowded()
		}
		v.Pool = a.m.pools[p].src.Name
		v.Remedy = r.remedies(v, p)
		out = append(out, v)
	}
	out = append(out, r.nodes()...)
	if len(out) == 0 {
		out = append(out, model.Verdict{Code: model.CodeUnusable, Detail: "there is no pool and no node"})
	}
	return out
}

// refusing asks the checks one by one, in the order of the model's codes. It
// looks at plain values and so can try a changed spec as well.
type refusing struct {
	a     *attempt
	shape int
	spec  *model.PodSpec
	pods  int // that went nowhere
}

// pool returns the first check by which a pool refuses a pod of the spec; ok
// when none does.
func (r *refusing) pool(spec *model.PodSpec, p int) (v model.Verdict, ok bool) {
	pl := &r.a.m.pools[p]
	if t, ok := constraint.Tolerates(spec.Tolerations, pl.src.Taints); !ok {
		return model.Verdict{Code: model.CodeTaint, Key: t.Key, Wanted: tolerated(spec, t.Key), Offered: []string{taintText(t)}}, false
	}
	if v, ok := r.requirements(spec, pl); !ok {
		return v, false
	}
	kinds := r.kindsOf(p)
	if len(kinds) == 0 {
		return r.noTypes(pl), false
	}
	kinds, v = r.byLabels(spec, kinds)
	if len(kinds) == 0 {
		return v, false
	}
	return r.bySize(spec, p, kinds)
}

// bySize goes on where labels agree: resources, offerings, what is kept from
// pods as a matter of policy, minValues, and limits.
func (r *refusing) bySize(spec *model.PodSpec, p int, kinds []int) (v model.Verdict, ok bool) {
	open := slices.DeleteFunc(slices.Clone(kinds), func(k int) bool { return r.a.m.kinds[k].barred })
	left, v := r.holding(spec, open)
	if len(left) == 0 {
		if barred, _ := r.holding(spec, kinds); len(barred) > 0 {
			return r.fraction(barred), false
		}
		return v, false
	}
	if left, v = r.sold(spec, left); len(left) == 0 {
		return v, false
	}
	if left, v = r.policy(spec, left, p); len(left) == 0 {
		return v, false
	}
	if left, v = r.choice(spec, left, p); len(left) == 0 {
		return v, false
	}
	return r.limit(left)
}

func tolerated(spec *model.PodSpec, key string) []string {
	var out []string
	for _, t := range spec.Tolerations {
		if t.Key == key {
			out = append(out, taintText(model.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}))
		}
	}
	return out
}

// taintText writes a taint as kubectl does: key=value:Effect.
func taintText(t model.Taint) string {
	out := t.Key
	if t.Value != "" {
		out += "=" + t.Value
	}
	if t.Effect != "" {
		out += ":" + t.Effect
	}
	return out
}

func (r *refusing) kindsOf(p int) []int {
	var out []int
	for k := range r.a.m.kinds {
		if r.a.m.kinds[k].pool == p {
			out = append(out, k)
		}
	}
	return out
}

// amount is what a kind has of a resource, also one that no pod asks.
func (r *refusing) amount(k int, name string) int64 {
	kd := &r.a.m.kinds[k]
	if i, ok := r.a.m.dims.index[name]; ok {
		return kd.alloc[i]
	}
	if v, ok := kd.adv.Resources[name]; ok || strings.HasPrefix(name, "nvidia.com/") {
		return v
	}
	return r.a.m.snap.Types[kd.typ].Allocatable[name]
}

// holding keeps the kinds that have what the pod asks, or says what none has.
func (r *refusing) holding(spec *model.PodSpec, kinds []int) ([]int, model.Verdict) {
	if len(kinds) == 0 {
		return nil, model.Verdict{Code: model.CodeNoType}
	}
	names := askedNames(spec)
	left := kinds
	for _, name := range names {
		if !extended(name) {
			continue
		}
		next := r.keep(left, func(k int) bool { return r.amount(k, name) > 0 })
		if len(next) == 0 {
			return nil, r.noResource(left, name, spec.Requests[name])
		}
		left = next
	}
	for _, one := range containerAsks(spec) {
		next := r.keep(left, func(k int) bool { return !exceeds([]ask{one}, r.a.m.kinds[k].adv.MaxRequest) })
		if len(next) == 0 {
			ad := r.a.m.kinds[left[0]].adv
			return nil, model.Verdict{Code: model.CodeMaxRequest, Key: one.name, Asked: one.amount, Have: ad.MaxRequest[one.name], Config: ad.Config}
		}
		left = next
	}
	return r.roomy(spec, left, names)
}

func (r *refusing) roomy(spec *model.PodSpec, left []int, names []string) ([]int, model.Verdict) {
	for _, name := range names {
		want := spec.Requests[name]
		next := r.keep(left, func(k int) bool { return r.amount(k, name) >= want })
		if len(next) == 0 {
			v := model.Verdict{Code: model.CodeTooBig, Key: name, Asked: want}
			for _, k := range left {
				if have := r.amount(k, name); have > v.Have || v.Offered == nil {
					v.Have, v.Offered, v.Config = have, []string{r.a.m.snap.Types[r.a.m.kinds[k].typ].Name}, r.a.m.kinds[k].adv.Config
				}
			}
			return nil, v
		}
		left = next
	}
	next := r.keep(left, func(k int) bool { return fitsDevices(spec, &r.a.m.kinds[k]) })
	if len(next) == 0 {
		return nil, r.scant(spec, left)
	}
	return next, model.Verdict{}
}

// scant says of which amount no device of the kinds has as much as is asked of
// one; where some have, that no node has so many devices, or none with all of it.
func (r *refusing) scant(spec *model.PodSpec, kinds []int) model.Verdict {
	count := model.Verdict{Code: model.CodeTooBig}
	for _, s := range spec.Shares {
		count.Key, count.Asked = s.Resource, count.Asked+s.Count
		for _, name := range s.PerDevice.Names() {
			v := model.Verdict{Code: model.CodeTooBig, Key: name, Asked: s.PerDevice[name]}
			for _, k := range kinds {
				for _, d := range r.a.m.kinds[k].adv.Devices {
					if have := d.Shares[name]; have > v.Have {
						v.Have = have
					}
				}
			}
			if v.Asked > v.Have {
				return v
			}
		}
	}
	for _, k := range kinds {
		if have := int64(len(r.a.m.kinds[k].adv.Devices)); have > count.Have {
			count.Have = have
		}
	}
	if count.Asked <= count.Have {
		return model.Verdict{Code: model.CodeTooBig, Detail: "no device has all that is asked of one"}
	}
	return count
}

// askedNames lists what a pod asks, devices first: they narrow most.
func askedNames(spec *model.PodSpec) []string {
	var out []string
	for name, v := range spec.Requests {
		if v > 0 && !packedByDevice(spec, name) {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(x, y string) int {
		return cmp.Or(cmp.Compare(b2i(extended(y)), b2i(extended(x))), strings.Compare(x, y))
	})
	return out
}

func packedByDevice(spec *model.PodSpec, name string) bool {
	for _, s := range spec.Shares {
		if _, ok := s.PerDevice[name]; ok || s.Resource == name {
			return true
		}
	}
	return false
}

func (r *refusing) keep(kinds []int, f func(k int) bool) []int {
	return slices.DeleteFunc(slices.Clone(kinds), func(k int) bool { return !f(k) })
}

func (r *refusing) noResource(kinds []int, name string, asked int64) model.Verdict {
	v := model.Verdict{Code: model.CodeNoResource, Key: name, Asked: asked}
	for _, k := range kinds {
		kd := &r.a.m.kinds[k]
		v.Config, v.Detail = cmp.Or(v.Config, kd.adv.Config), cmp.Or(v.Detail, kd.advErr)
		for have, n := range kd.adv.Resources {
			if n > 0 && model.IsGPU(have) && have != name {
				v.Offered = append(v.Offered, have)
			}
		}
	}
	slices.Sort(v.Offered)
	v.Offered = slices.Compact(v.Offered)
	return v
}

func (r *refusing) fraction(kinds []int) model.Verdict {
	v := model.Verdict{Code: model.CodeFractional, Key: model.LabelInstanceType}
	for _, k := range kinds {
		v.Offered = append(v.Offered, r.a.m.snap.Types[r.a.m.kinds[k].typ].Name)
	}
	slices.Sort(v.Offered)
	v.Offered = slices.Compact(v.Offered)
	return v
}

// choice keeps the kinds beside which enough others hold the pod for minValues.
func (r *refusing) choice(spec *model.PodSpec, kinds []int, p int) ([]int, model.Verdict) {
	set := r.a.m.pools[p].set
	if len(set.Demanding()) == 0 {
		return kinds, model.Verdict{}
	}
	where := r.a.m.admit(spec, false)
	var out []int
	v := model.Verdict{Code: model.CodeMinValues, Have: -1}
	for _, k := range kinds {
		for _, at := range r.a.prices(k, where[k]) {
			beside := r.keep(kinds, func(o int) bool { return where[o]&at != 0 && r.a.m.kinds[o].variant == r.a.m.kinds[k].variant })
			key, want, have, ok := set.Flexible(func(key string) []string { return r.a.valuesAmong(beside, at, key) })
			if ok {
				out = append(out, k)
				break
			}
			if int64(have) > v.Have {
				v.Key, v.Asked, v.Have = key, int64(want), int64(have)
			}
		}
	}
	return out, v
}

// limit reports whether the pool may launch one of the kinds still.
func (r *refusing) limit(kinds []int) (model.Verdict, bool) {
	l := r.a.ledger
	var v model.Verdict
	for _, k := range kinds {
		p := r.a.m.kinds[k].pool
		if l.room(r.a.m, k, 1) > 0 {
			return model.Verdict{}, true
		}
		for i, c := range l.costs[k] {
			if c > 0 && l.left[p][i] < c && (v.Code == "" || (v.Key == l.names[p][i] && c < v.Asked)) {
				limit := r.a.m.pools[p].src.Limits[l.names[p][i]]
				v = model.Verdict{Code: model.CodeLimit, Key: l.names[p][i], Asked: c, Have: limit, Used: limit - l.left[p][i]}
				break
			}
		}
	}
	return v, false
}

// policy keeps the kinds that a pod without GPUs may use: none with GPUs where
// others hold it, and those only for the reasons of keepOffGPUs.
func (r *refusing) policy(spec *model.PodSpec, kinds []int, p int) ([]int, model.Verdict) {
	pl := &r.a.m.pools[p]
	if asksGPU(spec) || r.a.opts.CPUOnGPU || pl.src.CPUOnGPU {
		return kinds, model.Verdict{}
	}
	plain := r.keep(kinds, func(k int) bool { return !r.a.m.kinds[k].gpu })
	if len(plain) > 0 {
		return plain, model.Verdict{}
	}
	where := r.a.m.admit(spec, false)
	if !r.plainHolds(spec, where) && (pl.onlyGPU || toleratesByChoice(spec, pl.src.Taints) || r.a.m.onlyGPUs(where)) {
		return kinds, model.Verdict{}
	}
	v := model.Verdict{Code: model.CodeCPUOnGPU}
	least := math.Inf(1)
	for _, k := range kinds {
		if price := r.a.m.kinds[k].market[0].price; price < least {
			v.Key, least = r.a.m.snap.Types[r.a.m.kinds[k].typ].Name, price
		}
	}
	return nil, v
}

// plainHolds reports whether a kind without GPUs of any pool holds the pod.
func (r *refusing) plainHolds(spec *model.PodSpec, where []cells) bool {
	var plain []int
	for k := range r.a.m.kinds {
		if where[k] != 0 && !r.a.m.kinds[k].gpu {
			plain = append(plain, k)
		}
	}
	left, _ := r.holding(spec, plain)
	return len(left) > 0
}

// crowded is why a pod that a pool would take alone goes nowhere: other pods.
func (r *refusing) crowded() model.Verdict {
	for _, st := range r.a.stuck {
		if st.shape == r.shape {
			return st.why
		}
	}
	if rules := r.a.topo.rules[r.shape]; len(rules) > 0 {
		crowd := r.a.topo.crowds[rules[0].crowd]
		if rules[0].relation == spread {
			return model.Verdict{Code: model.CodeSpread, Key: crowd.key, Asked: int64(rules[0].maxSkew)}
		}
		return model.Verdict{Code: model.CodeAffinity, Key: crowd.key, Wanted: crowd.words}
	}
	if len(r.spec.HostPorts) > 0 {
		return model.Verdict{Code: model.CodeHostPort, Asked: int64(r.spec.HostPorts[0].Port)}
	}
	return model.Verdict{Code: model.CodeAffinity, Detail: "pods that are there keep apart from it"}
}
