package solve

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// remedies lists the single changes after which the pool would take the pod.
// Each has been tried.
func (r *refusing) remedies(v model.Verdict, p int) []model.Remedy {
	var out []model.Remedy
	try := func(m model.Remedy, spec *model.PodSpec) {
		if _, ok := r.pool(spec, p); ok {
			out = append(out, m)
		}
	}
	switch v.Code {
	case model.CodeTaint:
		t := model.Toleration{Key: v.Key, Operator: "Exists"}
		try(model.Remedy{Kind: model.RemedyTolerate, Key: v.Key, Values: v.Offered}, tolerate(r.spec, t))
	case model.CodeRequirement, model.CodeNoOffering:
		out = r.labelRemedies(v, p)
	case model.CodeCPUOnGPU:
		try(model.Remedy{Kind: model.RemedySetLabel, Key: model.LabelInstanceType, Values: []string{v.Key}}, setLabel(r.spec, model.LabelInstanceType, v.Key))
	case model.CodeNoResource:
		out = r.nameConfig(v, p)
		for _, name := range v.Offered {
			try(model.Remedy{Kind: model.RemedyRename, Key: v.Key, Values: []string{name}}, renameResource(r.spec, v.Key, name))
		}
	case model.CodeMaxRequest:
		try(model.Remedy{Kind: model.RemedyAsk, Key: v.Key, Amount: v.Have}, askAmount(r.spec, v.Key, v.Have))
		r.allowMore(v, p, &out)
	case model.CodeTooBig:
		if v.Have > 0 && v.Key != "" {
			try(model.Remedy{Kind: model.RemedyAsk, Key: v.Key, Amount: v.Have}, askAmount(r.spec, v.Key, v.Have))
		}
	case model.CodeLimit:
		out = r.raise(v, p)
	case model.CodeFractional:
		out = r.nameFamily(v, p)
	}
	switch v.Code {
	case model.CodeNoType, model.CodeNoResource, model.CodeTooBig, model.CodeMinValues:
		out = append(out, r.addValue(p)...)
	case model.CodeRequirement:
		if r.a.m.typeDecides(v.Key) {
			out = append(out, r.addValue(p)...)
		}
	}
	return out
}

const maxOffers = 3 // remedies of one kind

// labelRemedies are for a label that a pod selects and a pool does not offer.
func (r *refusing) labelRemedies(v model.Verdict, p int) []model.Remedy {
	var out []model.Remedy
	values := v.Offered
	if r.shuns(v.Key) {
		values = nil // to ask for a value is the opposite of what was meant
	}
	if v.Key == model.LabelNodePool {
		values = []string{r.a.m.pools[p].src.Name}
	}
	for _, value := range values {
		if len(out) == maxOffers {
			break
		}
		if _, ok := r.pool(setLabel(r.spec, v.Key, value), p); !ok {
			continue
		}
		kind := model.RemedySetLabel
		if v.Key == model.LabelNodePool {
			kind = model.RemedyUsePool
		}
		out = append(out, model.Remedy{Kind: kind, Key: v.Key, Values: []string{value}})
	}
	if _, ok := r.pool(dropLabel(r.spec, v.Key), p); !ok {
		return out
	}
	out = append(out, model.Remedy{Kind: model.RemedyDropLabel, Key: v.Key})
	if len(v.Wanted) > 0 && len(v.Offered) == 0 && v.Code == model.CodeRequirement && r.free(v.Key) {
		if value, ok := r.wantedValue(v.Key); ok {
			out = append(out, model.Remedy{Kind: model.RemedyLabelPool, Key: v.Key, Values: []string{value}})
		}
	}
	return out
}

// shuns reports whether the pod wants a label away, or some of its values.
func (r *refusing) shuns(key string) bool {
	return slices.ContainsFunc(wishes(r.spec), func(q model.Requirement) bool {
		return constraint.Normalize(q.Key) == key && (q.Operator == model.DoesNotExist || q.Operator == model.NotIn)
	})
}

// free reports whether a pool may set a label as it likes.
func (r *refusing) free(key string) bool {
	return !r.open(key) && !strings.HasPrefix(key, "karpenter.sh/") && !strings.HasPrefix(key, "kubernetes.io/") && key != constraint.NodeNameField
}

// wantedValue is a value of a label that would suit the pod.
func (r *refusing) wantedValue(key string) (string, bool) {
	for _, q := range wishes(r.spec) {
		if constraint.Normalize(q.Key) == key && q.Operator == model.In && len(q.Values) > 0 {
			return q.Values[0], true
		}
	}
	return "", false
}

// nameConfig tries, where a pool's label names a device config that does not
// exist, those that do.
func (r *refusing) nameConfig(v model.Verdict, p int) []model.Remedy {
	if v.Detail == "" {
		return nil
	}
	var out []model.Remedy
	for _, name := range slices.Sorted(maps.Keys(r.a.m.snap.Sharing.Configs)) {
		if len(out) < maxOffers && r.with(p, "", func(q *model.Pool) {
			q.Labels = maps.Clone(q.Labels)
			if q.Labels == nil {
				q.Labels = map[string]string{}
			}
			q.Labels[model.LabelDeviceConfig] = name
		}) {
			out = append(out, model.Remedy{Kind: model.RemedyLabelPool, Key: model.LabelDeviceConfig, Values: []string{name}})
		}
	}
	return out
}

// allowMore tries the device config without failRequestsGreaterThanOne.
func (r *refusing) allowMore(v model.Verdict, p int, out *[]model.Remedy) {
	if v.Config == "" {
		return
	}
	spec := mapContainers(ptr(*r.spec), func(res model.Resources) {
		if res[v.Key] > v.Have {
			res[v.Key] = v.Have
		}
	})
	if _, ok := r.pool(spec, p); ok {
		*out = append(*out, model.Remedy{Kind: model.RemedyAllowMore, Key: v.Config})
	}
}

func ptr[T any](v T) *T { return &v }

// raise tries a higher limit: enough for all the pods that went nowhere.
func (r *refusing) raise(v model.Verdict, p int) []model.Remedy {
	kinds := r.kindsOf(p)
	where := r.a.m.admit(r.spec, false)
	best, amount := -1, int64(0)
	for _, k := range kinds {
		if where[k] == 0 || !r.a.fits[r.shape].has(k) {
			continue
		}
		each := r.perNode(k)
		nodes := (r.pods + max(each, 1) - 1) / max(each, 1)
		need, ok := r.needs(k, v.Key, nodes)
		if ok && (best < 0 || need < amount) {
			best, amount = k, need
		}
	}
	if best < 0 {
		return nil
	}
	return []model.Remedy{{Kind: model.RemedyRaiseLimit, Key: v.Key, Amount: v.Used + amount}}
}

// perNode is how many pods of the shape a new node of a kind holds.
func (r *refusing) perNode(k int) int {
	n := times(r.a.g.shapes[r.shape].vec, r.a.m.kinds[k].alloc, math.MaxInt32)
	if r.a.clash(r.shape, r.shape) {
		return min(n, 1)
	}
	for _, rule := range r.a.topo.rules[r.shape] {
		if rule.relation == spread && rule.self && r.a.topo.crowds[rule.crowd].key == model.LabelHostname {
			n = min(n, rule.maxSkew)
		}
	}
	return n
}

// needs returns what n nodes of a kind take of one limit, if the pool's other
// limits allow them.
func (r *refusing) needs(k int, limit string, n int) (amount int64, ok bool) {
	l := r.a.ledger
	p := r.a.m.kinds[k].pool
	for i, c := range l.costs[k] {
		need := saturated(c, int64(n))
		if l.names[p][i] == limit {
			amount = need
		} else if need > l.left[p][i] && c > 0 {
			return 0, false
		}
	}
	return amount, true
}

// nameFamily tries the families of fractional types that hold the pod.
func (r *refusing) nameFamily(v model.Verdict, p int) []model.Remedy {
	var out []model.Remedy
	for _, name := range v.Offered {
		i := slices.IndexFunc(r.a.m.snap.Types, func(t model.InstanceType) bool { return t.Name == name })
		family := familyOf(&r.a.m.snap.Types[i])
		if family == "" || slices.ContainsFunc(out, func(m model.Remedy) bool { return m.Values[0] == family }) {
			continue
		}
		if r.with(p, name, func(q *model.Pool) {
			q.Requirements = append(q.Requirements, model.Requirement{Key: familyKey, Operator: model.In, Values: []string{family}})
		}) {
			out = append(out, model.Remedy{Kind: model.RemedyNameFamily, Key: familyKey, Values: []string{family}})
		}
	}
	return out
}

const familyKey = "karpenter.k8s.aws/instance-family"

func familyOf(t *model.InstanceType) string { return t.Labels[familyKey] }

// maxTrials bounds how many changed pools are tried for one plan.
const maxTrials = 4000

// addValue tries to let a pool launch one more type, or one more family, that
// would hold the pod: the cheapest, where the pool names types or families.
func (r *refusing) addValue(p int) []model.Remedy {
	src := r.a.m.pools[p].src
	for _, key := range []string{model.LabelInstanceType, familyKey} {
		at := slices.IndexFunc(src.Requirements, func(q model.Requirement) bool {
			return constraint.Normalize(q.Key) == key && q.Operator == model.In
		})
		if at < 0 {
			continue
		}
		for _, t := range r.byPrice() {
			value, ok := t.Labels[key]
			if !ok || slices.Contains(src.Requirements[at].Values, value) || !r.mayHold(t) {
				continue
			}
			if r.with(p, t.Name, func(q *model.Pool) {
				q.Requirements[at].Values = append(slices.Clone(q.Requirements[at].Values), value)
			}) {
				return []model.Remedy{{Kind: model.RemedyAddValue, Key: key, Values: []string{value}}}
			}
		}
		return nil
	}
	return nil
}

// byPrice lists the types that are sold, cheapest first.
func (r *refusing) byPrice() []*model.InstanceType {
	var out []*model.InstanceType
	for i := range r.a.m.snap.Types {
		if t := &r.a.m.snap.Types[i]; len(t.Offerings) > 0 {
			out = append(out, t)
		}
	}
	price := func(t *model.InstanceType) float64 {
		least := math.Inf(1)
		for _, o := range t.Offerings {
			least = min(least, o.Price)
		}
		return least
	}
	slices.SortStableFunc(out, func(x, y *model.InstanceType) int {
		switch px, py := price(x), price(y); {
		case px < py:
			return -1
		case px > py:
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	return out
}

// mayHold is a quick look at whether a type is large enough at all.
func (r *refusing) mayHold(t *model.InstanceType) bool {
	for name, v := range r.spec.Requests {
		if !strings.HasPrefix(name, "nvidia.com/") && v > t.Allocatable[name] {
			return false
		}
		if v > 0 && strings.HasPrefix(name, "nvidia.com/") && len(t.GPUs) == 0 {
			return false
		}
	}
	return true
}

// with reports whether a changed copy of a pool takes the pod on a type, or on
// any with GPUs.
func (r *refusing) with(p int, typeName string, change func(*model.Pool)) bool {
	if r.a.trials >= maxTrials {
		return false
	}
	r.a.trials++
	q := *r.a.m.pools[p].src
	q.Requirements = slices.Clone(q.Requirements)
	change(&q)
	s := *r.a.m.snap
	s.Pools = []model.Pool{q}
	s.Types = slices.DeleteFunc(slices.Clone(s.Types), func(t model.InstanceType) bool {
		return t.Name != typeName && (typeName != "" || len(t.GPUs) == 0)
	})
	m := r.a.m.like(&s)
	trial := *r.a
	trial.m = m
	trial.ledger = newLedger(m)
	trial.fits, trial.classes = nil, nil
	t := refusing{a: &trial, shape: r.shape, spec: r.spec, pods: 1}
	_, ok := t.pool(r.spec, 0)
	return ok
}
