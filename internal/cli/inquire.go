package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/solve"
)

// inquire finds the pods that a name means and tries them on every pool alone.
func inquire(r render.Report, name string) (render.Inquiry, error) {
	pods, err := find(r.Snapshot.Pods, name)
	if err != nil {
		return render.Inquiry{}, err
	}
	q := render.Inquiry{Report: r, Pods: pods, Trials: trials(r.Snapshot, pods[0])}
	if l := q.First(); l != nil {
		q.Instead = instead(r.Snapshot, *l)
	}
	return q, nil
}

// find returns the pods called name, namespace/name or owned by it. A name that
// means pods of several owners is refused.
func find(pods []model.Pod, name string) ([]int, error) {
	var found []int
	for i, p := range pods {
		if named(p, name) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return nil, notFound(pods, name)
	}
	var titles []string
	for _, i := range found {
		if t := title(pods[i]); !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
	}
	if len(titles) > 1 {
		return nil, fail("ambiguous-pod", "say which: "+strings.Join(titles[:min(6, len(titles))], ", "), "--explain %s: %d things are called that", name, len(titles))
	}
	return found, nil
}

func named(p model.Pod, name string) bool {
	if name == p.Name || name == p.Namespace+"/"+p.Name || name == p.Owner {
		return true
	}
	_, owner, ok := strings.Cut(p.Owner, " ")
	if !ok {
		return false
	}
	_, short, _ := strings.Cut(owner, "/")
	return name == owner || name == short
}

// title names a pod's owner, or the pod when it has none.
func title(p model.Pod) string {
	if p.Owner != "" {
		return p.Owner
	}
	return p.Namespace + "/" + p.Name
}

func notFound(pods []model.Pod, name string) error {
	var names []string
	for _, p := range pods {
		_, owner, _ := strings.Cut(p.Owner, " ")
		_, short, _ := strings.Cut(owner, "/")
		for _, n := range []string{p.Name, p.Namespace + "/" + p.Name, owner, short} {
			if n != "" && !slices.Contains(names, n) && len(names) < 5000 {
				names = append(names, n)
			}
		}
	}
	fix := "kerf plan without --explain lists what was read"
	if near := nearest(name, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return fail("unknown-pod", fix, "--explain %s: no pod and no owner of pods is called that (%d pods read)", name, len(pods))
}

// trials plans one pod alone on every pool, and on the nodes that exist. Nodes
// keep their pods and count against limits, but take nothing more while a pool
// is tried.
func trials(s model.Snapshot, pod int) []render.Trial {
	p := s.Pods[pod]
	if p.Spec == nil || p.Node != "" {
		return nil
	}
	alone := s
	alone.Pods = nil
	for _, other := range s.Pods {
		if other.Node != "" {
			alone.Pods = append(alone.Pods, other)
		}
	}
	alone.Pods = append(alone.Pods, p)
	var out []render.Trial
	for i, pool := range s.Pools {
		one := alone
		one.Pools = s.Pools[i : i+1]
		one.Nodes = closed(s.Nodes)
		t := try(one, pool.Name)
		if t.Anywhere() {
			t.Pool = ""
			return []render.Trial{t}
		}
		out = append(out, t)
	}
	if len(s.Nodes) > 0 {
		alone.Pools = nil
		out = append(out, try(alone, ""))
	}
	return out
}

// closed returns the nodes as they would be if nothing could be added to them.
func closed(nodes []model.Node) []model.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Leaving = false
		if out[i].Unready == "" {
			out[i].Unready = "left out of this trial"
		}
	}
	return out
}

// runnersUp is how many other ways to hold a node's pods are shown.
const runnersUp = 4

// instead plans the pods of one launch again and again, each time without the
// types that came out before.
func instead(s model.Snapshot, l plan.Launch) []render.Instead {
	one := s
	one.Nodes = closed(s.Nodes)
	one.Pools = slices.DeleteFunc(slices.Clone(s.Pools), func(p model.Pool) bool { return p.Name != l.Pool })
	one.Pods = nil
	for _, p := range s.Pods {
		if p.Node != "" {
			one.Pods = append(one.Pods, p)
		}
	}
	for _, i := range l.Pods {
		one.Pods = append(one.Pods, s.Pods[i])
	}
	out := map[string]bool{l.Type: true}
	var list []render.Instead
	for range runnersUp {
		one.Types = slices.DeleteFunc(slices.Clone(one.Types), func(t model.InstanceType) bool { return out[t.Name] })
		p, _ := solve.Solve(one, solve.Options{})
		if len(p.Unplaced) > 0 || len(p.Launches) == 0 {
			return list
		}
		var types []string
		for _, n := range p.Launches {
			types = append(types, n.Type)
			out[n.Type] = true
		}
		list = append(list, render.Instead{Nodes: tally(types), Price: p.Cost})
	}
	return list
}

// tally counts names: "2 × c6i.large + m6i.large".
func tally(names []string) string {
	slices.Sort(names)
	var parts []string
	for i := 0; i < len(names); {
		n := i
		for n < len(names) && names[n] == names[i] {
			n++
		}
		if n-i > 1 {
			parts = append(parts, fmt.Sprintf("%d × %s", n-i, names[i]))
		} else {
			parts = append(parts, names[i])
		}
		i = n
	}
	return strings.Join(parts, " + ")
}

// try plans a snapshot whose last pod is the one in question.
func try(s model.Snapshot, pool string) render.Trial {
	t := render.Trial{Pool: pool}
	pod := len(s.Pods) - 1
	p, _ := solve.Solve(s, solve.Options{})
	for i, l := range p.Launches {
		if slices.Contains(l.Pods, pod) {
			t.Launch = &p.Launches[i]
		}
	}
	for _, b := range p.Binds {
		if slices.Contains(b.Pods, pod) {
			t.Node = b.Node
		}
	}
	for _, u := range p.Unplaced {
		if !slices.Contains(u.Pods, pod) {
			continue
		}
		for _, v := range u.Verdicts {
			if pool == "" || v.Node == "" {
				t.Verdicts = append(t.Verdicts, v)
			}
		}
	}
	return t
}
