package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/overlay"
)

// A Sort is a kind of node and how many of it each plan orders.
type Sort struct {
	Pool, Type, CapacityType string
	Price                    float64 // $/h of one, the cheaper where the plans differ by zone
	Kerf, Karpenter          int
}

// sorts lists the kinds of node of both plans, the dearest in all first.
func (c *Comparison) sorts() []Sort {
	at := map[[3]string]int{}
	var out []Sort
	find := func(pool, typ, capacity string, price float64) *Sort {
		key := [3]string{pool, typ, capacity}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Sort{Pool: pool, Type: typ, CapacityType: capacity, Price: price})
		}
		out[i].Price = min(out[i].Price, price)
		return &out[i]
	}
	for _, l := range c.Kerf.Launches {
		find(l.Pool, l.Type, l.CapacityType, l.Price).Kerf++
	}
	for _, n := range c.Karpenter.Nodes {
		find(n.Pool, n.Type, n.CapacityType, n.Price).Karpenter++
	}
	total := func(s Sort) float64 { return s.Price * float64(s.Kerf+s.Karpenter) }
	slices.SortStableFunc(out, func(a, b Sort) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Type, b.Type), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// A Group is pods of one owner that one plan leaves out for one reason.
type Group struct {
	Owner string
	Pods  []int
	Why   []string
}

// split sorts the pods that are left out: by Karpenter alone, by Kerf alone, by both.
func (c *Comparison) split() (byKarpenter, byKerf []Group, both int) {
	left := map[int]bool{}
	var refused []model.Refusal
	for _, r := range c.Kerf.Unplaced {
		only := model.Refusal{Verdicts: r.Verdicts}
		for _, p := range r.Pods {
			left[p] = true
			if _, too := c.Karpenter.Unplaced[p]; too {
				both++
				continue
			}
			only.Pods = append(only.Pods, p)
		}
		if len(only.Pods) > 0 {
			refused = append(refused, only)
		}
	}
	for _, cause := range explain.Group(c.Snapshot, refused) {
		for _, o := range cause.Owners {
			byKerf = append(byKerf, Group{Owner: o.Name, Pods: o.Pods, Why: reasons(cause)})
		}
	}
	return c.messages(left), byKerf, both
}

// reasons puts a cause's reasons in a line each.
func reasons(c explain.Cause) []string {
	var out []string
	for _, r := range c.Reasons {
		where := strings.Join(slices.Concat(r.Pools, r.Nodes), ", ")
		if where != "" {
			where += ": "
		}
		out = append(out, where+r.Text)
	}
	return out
}

// messages groups what Karpenter says of the pods that it alone leaves out.
func (c *Comparison) messages(but map[int]bool) []Group {
	var pods []int
	for p := range c.Karpenter.Unplaced {
		if !but[p] {
			pods = append(pods, p)
		}
	}
	slices.Sort(pods)
	at := map[[2]string]int{}
	var out []Group
	for _, p := range pods {
		pod := c.Snapshot.Pods[p]
		owner := cmp.Or(pod.Owner, "Pod "+pod.Namespace+"/"+pod.Name)
		key := [2]string{owner, c.Karpenter.Unplaced[p]}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Group{Owner: owner, Why: strings.Split(c.Karpenter.Unplaced[p], "; ")})
		}
		out[i].Pods = append(out[i].Pods, p)
	}
	return out
}

// why lists what of the two plans' difference can be named.
func (c *Comparison) why() []string {
	var out []string
	for _, say := range []func() string{c.cut, c.slices, c.doomed, c.sizes, c.strays, c.overshoot, c.parts} {
		if s := say(); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (c *Comparison) cut() string {
	if !c.Karpenter.Cut {
		return ""
	}
	return "karpenter's search was ended by --limit; what it had by then is shown"
}

// slices says that Karpenter counts other GPUs than nodes advertise.
func (c *Comparison) slices() string {
	switch n := len(c.Overlays); {
	case n == 0:
		return ""
	case c.Given:
		return fmt.Sprintf("karpenter had %s that kerf overlay writes; without, it counts physical GPUs", plural(n, "NodeOverlay"))
	default:
		o, typ := c.telling()
		name := o.Capacity.Names()[len(o.Capacity)-1]
		return fmt.Sprintf("karpenter counts physical GPUs and does not know that a %s of pool %s advertises %s: %d; compare with --node-overlay, which gives it %s that kerf overlay writes",
			typ, o.Pool, name, o.Capacity[name], plural(n, "NodeOverlay"))
	}
}

// telling is an overlay and a type of it that one of the plans launches, or the
// first where there is none.
func (c *Comparison) telling() (overlay.Overlay, string) {
	launched := map[[2]string]bool{}
	for _, l := range c.Kerf.Launches {
		launched[[2]string{l.Pool, l.Type}] = true
	}
	for _, n := range c.Karpenter.Nodes {
		launched[[2]string{n.Pool, n.Type}] = true
	}
	for _, o := range c.Overlays {
		for _, t := range o.Types {
			if launched[[2]string{o.Pool, t}] {
				return o, t
			}
		}
	}
	return c.Overlays[0], c.Overlays[0].Types[0]
}

// doomed counts pods that Karpenter places where the device plugin then refuses them.
func (c *Comparison) doomed() string {
	n := 0
	for _, r := range c.Kerf.Unplaced {
		if !slices.ContainsFunc(r.Verdicts, func(v model.Verdict) bool { return v.Code == model.CodeMaxRequest }) {
			continue
		}
		for _, p := range r.Pods {
			if _, left := c.Karpenter.Unplaced[p]; !left {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s that karpenter places would fail on the node: the device plugin refuses more than one slice (failRequestsGreaterThanOne), which karpenter does not know", plural(n, "pod"))
}

// sizes compares how large the nodes of the plans are.
func (c *Comparison) sizes() string {
	a, b := len(c.Kerf.Launches), len(c.Karpenter.Nodes)
	if a == 0 || b == 0 || c.Karpenter.Cost <= c.Kerf.Cost*1.001 {
		return ""
	}
	mine, theirs := c.Kerf.Cost/float64(a), c.Karpenter.Cost/float64(b)
	if theirs <= mine*1.05 {
		return ""
	}
	return fmt.Sprintf("karpenter adds pods to a node for as long as any type can hold them, and takes the cheapest type that does at the end, however dear: its nodes cost %.3f $/h on average, kerf's %.3f", theirs, mine)
}

// strays counts pods without GPUs that Karpenter puts on nodes with GPUs.
func (c *Comparison) strays() string {
	gpu := map[string]bool{}
	for i := range c.Snapshot.Types {
		gpu[c.Snapshot.Types[i].Name] = len(c.Snapshot.Types[i].GPUs) > 0
	}
	n, nodes := 0, 0
	for _, node := range c.Karpenter.Nodes {
		here := 0
		for _, p := range node.Pods {
			if gpu[node.Type] && !asksGPU(c.Snapshot.Pods[p].Spec) {
				here++
			}
		}
		if here > 0 {
			n, nodes = n+here, nodes+1
		}
	}
	if n == 0 {
		return ""
	}
	out := fmt.Sprintf("karpenter puts %s without a GPU on %s with GPUs; kerf keeps GPU nodes for pods that ask for GPUs, so that they can be scaled in", plural(n, "pod"), plural(nodes, "node"))
	if c.Karpenter.Cost < c.Kerf.Cost {
		out += fmt.Sprintf(", which costs %.4f $/h here", c.Kerf.Cost-c.Karpenter.Cost)
	}
	return out
}

func asksGPU(p *model.PodSpec) bool {
	return len(p.Shares) > 0 || slices.ContainsFunc(p.Requests.Names(), func(name string) bool { return model.IsGPU(name) && p.Requests[name] > 0 })
}

// overshoot names the pools whose limit on nodes Karpenter's plan exceeds.
func (c *Comparison) overshoot() string {
	nodes := map[string]int64{}
	for _, n := range c.Karpenter.Nodes {
		nodes[n.Pool]++
	}
	for _, n := range c.Snapshot.Nodes {
		if n.Pool != "" && !n.Leaving {
			nodes[n.Pool]++
		}
	}
	var over []string
	for _, p := range c.Snapshot.Pools {
		if most, ok := p.Limits[model.Nodes]; ok && nodes[p.Name] > most {
			over = append(over, fmt.Sprintf("pool %s has a limit of %s and would get %d", p.Name, plural(int(most), "node"), nodes[p.Name]))
		}
	}
	if len(over) == 0 {
		return ""
	}
	return "karpenter does not count nodes against limits.nodes within one round: " + strings.Join(over, ", ")
}

// parts says what becomes of pods that ask for a part of a GPU.
func (c *Comparison) parts() string {
	n := 0
	for _, p := range c.Snapshot.Pods {
		if p.Spec != nil && slices.ContainsFunc(p.Spec.Shares, func(d model.DeviceShare) bool { return d.PerDevice[model.ShareMilli] > 0 }) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s for a part of a GPU; to karpenter that is a whole one", verb(n))
}

func verb(n int) string {
	if n == 1 {
		return "1 pod asks"
	}
	return fmt.Sprintf("%d pods ask", n)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
