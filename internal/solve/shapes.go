package solve

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A shape is a class of pods that no decision can tell apart.
type shape struct {
	spec      *model.PodSpec
	namespace string
	pods      []int // pending ones, rising; empty for a shape that only residents have
	vec       []int64
	asks      []ask // largest amount of an extended resource that one container asks
	gpu       bool  // asks for a GPU or a part of one
}

// An ask is an amount of one resource.
type ask struct {
	name   string
	amount int64
}

// A group holds the pods of a Snapshot by what is to be done with them.
type group struct {
	shapes    []shape
	refused   []model.Refusal // the pod itself says no
	residents [][]int         // by node index: shapes of the pods that stay there
	daemons   []map[string]bool
}

// grouping gathers pods. A pod that is bound to a node that stays is a
// resident; one bound to a node outside the Snapshot is none of our business;
// pods of DaemonSets are overhead wherever they are.
type grouping struct {
	snap    *model.Snapshot
	nodes   map[string]int
	canon   canon
	ids     map[string]int
	bySpec  map[specKey]int
	out     group
	refused map[int]int // shape to index in out.refused
	saysNo  []bool      // by shape
}

type specKey struct {
	spec      *model.PodSpec
	namespace string
}

func groupPods(s *model.Snapshot) group {
	g := grouping{
		snap: s, nodes: map[string]int{}, canon: newCanon(s), ids: map[string]int{}, bySpec: map[specKey]int{}, refused: map[int]int{},
	}
	for i := range s.Nodes {
		g.nodes[s.Nodes[i].Name] = i
	}
	g.out.residents = make([][]int, len(s.Nodes))
	g.out.daemons = make([]map[string]bool, len(s.Nodes))
	for i := range s.Pods {
		g.pod(i)
	}
	return g.out
}

func (g *grouping) pod(i int) {
	p := &g.snap.Pods[i]
	daemon := ownedByNode(p.Owner)
	if p.Node != "" {
		at, known := g.nodes[p.Node]
		if !known {
			return
		}
		if !g.snap.Nodes[at].Leaving {
			g.resident(p, at, daemon)
			return
		}
	}
	if daemon || p.Spec == nil {
		return
	}
	id := g.shape(p)
	if g.saysNo[id] {
		g.refuse(id, i)
		return
	}
	g.out.shapes[id].pods = append(g.out.shapes[id].pods, i)
}

func (g *grouping) resident(p *model.Pod, at int, daemon bool) {
	if p.Spec == nil {
		return
	}
	g.out.residents[at] = append(g.out.residents[at], g.shape(p))
	if !daemon {
		return
	}
	if g.out.daemons[at] == nil {
		g.out.daemons[at] = map[string]bool{}
	}
	g.out.daemons[at][p.Owner] = true
}

// ownedByNode reports whether a pod belongs to its node: it is never moved,
// and a new node brings its own.
func ownedByNode(owner string) bool {
	return strings.HasPrefix(owner, "DaemonSet ") || strings.HasPrefix(owner, "Node ")
}

func (g *grouping) shape(p *model.Pod) int {
	key := specKey{p.Spec, p.Namespace}
	if id, ok := g.bySpec[key]; ok {
		return id
	}
	text := g.canon.key(p.Namespace, p.Spec)
	id, ok := g.ids[text]
	if !ok {
		id = len(g.out.shapes)
		g.ids[text] = id
		g.out.shapes = append(g.out.shapes, shape{spec: p.Spec, namespace: p.Namespace, asks: containerAsks(p.Spec), gpu: asksGPU(p.Spec)})
		g.saysNo = append(g.saysNo, len(ownVerdicts(p.Spec)) > 0)
	}
	g.bySpec[key] = id
	return id
}

func (g *grouping) refuse(id, pod int) {
	at, ok := g.refused[id]
	if !ok {
		at = len(g.out.refused)
		g.refused[id] = at
		g.out.refused = append(g.out.refused, model.Refusal{Verdicts: ownVerdicts(g.out.shapes[id].spec)})
	}
	g.out.refused[at].Pods = append(g.out.refused[at].Pods, pod)
}

// ownVerdicts says why a pod goes nowhere whatever the cluster offers.
func ownVerdicts(spec *model.PodSpec) []model.Verdict {
	out := slices.Clone(spec.Refused)
	if len(spec.Gates) > 0 {
		out = append(out, model.Verdict{Code: model.CodeGated, Key: spec.Gates[0], Wanted: spec.Gates})
	}
	if spec.SchedulerName != "" && spec.SchedulerName != "default-scheduler" {
		out = append(out, model.Verdict{Code: model.CodeScheduler, Key: spec.SchedulerName, Wanted: []string{spec.SchedulerName}, Offered: []string{"default-scheduler"}})
	}
	if len(spec.Claims) > 0 {
		out = append(out, model.Verdict{Code: model.CodeClaims, Key: spec.Claims[0], Wanted: spec.Claims})
	}
	return out
}

// containerAsks lists, sorted by name, the largest amount of each extended
// resource that one container asks: what failRequestsGreaterThanOne looks at.
func containerAsks(spec *model.PodSpec) []ask {
	largest := model.Resources{}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		for _, r := range []model.Resources{c.Requests, c.Limits} {
			for name, v := range r {
				if extended(name) {
					largest[name] = max(largest[name], v)
				}
			}
		}
	}
	var out []ask
	for _, name := range largest.Names() {
		out = append(out, ask{name, largest[name]})
	}
	return out
}

func extended(name string) bool {
	return name != model.CPU && name != model.Memory && name != model.EphemeralStorage && name != model.Pods && !strings.HasPrefix(name, "hugepages-")
}

func asksGPU(spec *model.PodSpec) bool {
	for name, v := range spec.Requests {
		if v > 0 && model.IsGPU(name) {
			return true
		}
	}
	return len(spec.Shares) > 0
}

// vectors gives each shape its dense request. Amounts that are packed per
// device are left to the devices.
func (g *group) vectors(d dims) {
	for i := range g.shapes {
		sh := &g.shapes[i]
		sh.vec = d.vector(sh.spec.Requests)
		if d.devices >= 0 {
			sh.vec[d.devices] = deviceUse(sh.spec)
		}
		for _, share := range sh.spec.Shares {
			for name := range share.PerDevice {
				if at, ok := d.index[name]; ok {
					sh.vec[at] = 0
				}
			}
			if at, ok := d.index[share.Resource]; ok {
				sh.vec[at] = 0
			}
		}
	}
}
