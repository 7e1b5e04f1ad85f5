package suite

import (
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// exact is the lowest cost in $/h of placing every pod of a small Snapshot: pods
// of a few specs that ask for CPU, memory, GPUs or parts of them, on types with
// one offering each, without any other constraint. It goes through every
// combination of pods that may be left to place, so their number, the product
// of one more than each spec's count, must stay in the thousands.
func exact(s model.Snapshot) (dollars float64, nodes int) {
	c := newCover(s)
	best, by := make([]float64, c.states), make([]int, c.states)
	for state := 1; state < c.states; state++ {
		best[state] = math.Inf(1)
		left := c.counts(state)
		for i := range c.fills {
			rest := c.after(left, c.fills[i].pods)
			if rest == state {
				continue
			}
			if sum := c.fills[i].price + best[rest]; sum < best[state] {
				best[state], by[state] = sum, i
			}
		}
	}
	at := c.states - 1
	for ; at > 0; nodes++ {
		at = c.after(c.counts(at), c.fills[by[at]].pods)
	}
	return best[c.states-1], nodes
}

// A cover is the problem as counts of specs and full nodes.
type cover struct {
	specs  []*model.PodSpec
	total  []int
	states int
	fills  []fill
}

// A fill is as many pods of each spec as one node holds together, such that
// none can be added.
type fill struct {
	price float64
	pods  []int
}

func newCover(s model.Snapshot) *cover {
	c := &cover{states: 1}
	for _, p := range s.Pods {
		at := slices.Index(c.specs, p.Spec)
		if at < 0 {
			at = len(c.specs)
			c.specs, c.total = append(c.specs, p.Spec), append(c.total, 0)
		}
		c.total[at]++
	}
	for _, n := range c.total {
		c.states *= n + 1
	}
	for i := range s.Types {
		t := &s.Types[i]
		c.extend(t, s.Sharing.Consumable, make([]int, len(c.specs)), 0)
	}
	return c
}

// extend adds the fills of a type that begin with so many pods of the specs
// before at.
func (c *cover) extend(t *model.InstanceType, shares bool, pods []int, at int) {
	if at == len(c.specs) {
		if c.full(t, shares, pods) {
			c.fills = append(c.fills, fill{price: t.Offerings[0].Price, pods: slices.Clone(pods)})
		}
		return
	}
	for n := 0; n <= c.total[at]; n++ {
		pods[at] = n
		if !c.fits(t, shares, pods) {
			break
		}
		c.extend(t, shares, pods, at+1)
	}
	pods[at] = 0
}

func (c *cover) full(t *model.InstanceType, shares bool, pods []int) bool {
	for i := range pods {
		if pods[i] == c.total[i] {
			continue
		}
		pods[i]++
		fits := c.fits(t, shares, pods)
		pods[i]--
		if fits {
			return false
		}
	}
	return slices.ContainsFunc(pods, func(n int) bool { return n > 0 })
}

// fits reports whether a node of the type holds so many pods of each spec.
func (c *cover) fits(t *model.InstanceType, shares bool, pods []int) bool {
	for _, name := range []string{model.CPU, model.Memory, model.Pods, model.NvidiaGPU} {
		used := int64(0)
		for i, n := range pods {
			used += int64(n) * c.specs[i].Requests[name]
		}
		if used > t.Allocatable[name] {
			return false
		}
	}
	whole, parts := int64(0), []int64(nil)
	for i, n := range pods {
		whole += int64(n) * c.specs[i].Requests[model.NvidiaGPU]
		for _, d := range c.specs[i].Shares {
			for range n {
				parts = append(parts, d.PerDevice[model.ShareMilli])
			}
		}
	}
	if len(parts) == 0 || !shares {
		return len(parts) == 0
	}
	slices.SortFunc(parts, func(a, b int64) int { return int(b - a) })
	free := make([]int64, t.Allocatable[model.NvidiaGPU]-whole)
	for i := range free {
		free[i] = 1000
	}
	return deal(parts, free)
}

// deal reports whether parts of devices, the largest first, go onto devices.
func deal(parts, free []int64) bool {
	if len(parts) == 0 {
		return true
	}
	tried := map[int64]bool{}
	for i := range free {
		if free[i] < parts[0] || tried[free[i]] {
			continue
		}
		tried[free[i]] = true
		free[i] -= parts[0]
		ok := deal(parts[1:], free)
		free[i] += parts[0]
		if ok {
			return true
		}
	}
	return false
}

// counts is how many pods of each spec a state has left.
func (c *cover) counts(state int) []int {
	out := make([]int, len(c.total))
	for i, n := range c.total {
		out[i] = state % (n + 1)
		state /= n + 1
	}
	return out
}

// after is the state in which so many pods of what is left are placed.
func (c *cover) after(left, placed []int) int {
	out := 0
	for i := len(left) - 1; i >= 0; i-- {
		out = out*(c.total[i]+1) + max(0, left[i]-placed[i])
	}
	return out
}
