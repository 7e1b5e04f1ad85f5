package solve

import "github.com/kerfdev/kerf/internal/model"

// fitKinds returns the kinds that can hold a pod of the shape at all.
func (a *attempt) fitKinds(s int) set {
	sh, cl := &a.g.shapes[s], a.classes[s]
	out := newSet(len(a.m.kinds))
	plain := false // some kind without GPUs fits
	for i := range a.m.kinds {
		k := &a.m.kinds[i]
		if k.barred || cl.where[i] == 0 || !within(sh.vec, k.alloc) || exceeds(sh.asks, k.adv.MaxRequest) || !fitsDevices(sh.spec, k) {
			continue
		}
		out.add(i)
		plain = plain || !k.gpu
	}
	if !sh.gpu && !a.opts.CPUOnGPU {
		a.keepOffGPUs(s, out, plain)
	}
	return out
}

func exceeds(asks []ask, limits map[string]int64) bool {
	if len(limits) == 0 {
		return false
	}
	for _, a := range asks {
		if limit, ok := limits[a.name]; ok && a.amount > limit {
			return true
		}
	}
	return false
}

func fitsDevices(spec *model.PodSpec, k *kind) bool {
	if !k.shared {
		return len(spec.Shares) == 0
	}
	return k.chassis.ask(spec).fits
}

// keepOffGPUs drops from fits the GPU kinds of a shape that asks for no GPU,
// but for those that it may have: nothing else holds it, and the pool sells
// only GPU nodes, or the pod chose GPU nodes by what it selects or tolerates.
func (a *attempt) keepOffGPUs(s int, fits set, plain bool) {
	chosen := !plain && a.m.onlyGPUs(a.classes[s].where)
	for i := range a.m.kinds {
		k := &a.m.kinds[i]
		if !k.gpu || !fits.has(i) {
			continue
		}
		p := &a.m.pools[k.pool]
		if p.src.CPUOnGPU {
			continue
		}
		if plain || !(chosen || p.onlyGPU || toleratesByChoice(a.specs[s], p.src.Taints)) {
			fits.drop(i)
		}
	}
}

// onlyGPUs reports whether what a pod selects leaves GPU nodes only.
func (m *market) onlyGPUs(where []cells) bool {
	for i, at := range where {
		if at != 0 && !m.kinds[i].gpu {
			return false
		}
	}
	return true
}

// toleratesByChoice reports whether a pod tolerates some of the taints by a
// toleration that its author wrote for that key.
func toleratesByChoice(spec *model.PodSpec, taints []model.Taint) bool {
	for _, t := range taints {
		for _, tol := range spec.Tolerations {
			if !tol.Assumed && tol.Key != "" && tol.Key == t.Key {
				return true
			}
		}
	}
	return false
}
