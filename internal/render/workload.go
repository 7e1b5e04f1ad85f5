package render

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A workload is the pods that a reader thinks of as one thing: those of one
// owner, or bare pods whose names differ by a number only.
type workload struct {
	name string // "web", "team-a/web", "team-a/job-*"
	pods int
	gpus int64 // GPUs and slices that its placed pods ask
}

// A tenant is some pods of one workload on one node.
type tenant struct {
	workload int // index into fleet.workloads
	count    int
}

// roster gives every pod its workload.
type roster struct {
	of        []int // by pod index
	workloads []workload
}

// newRoster numbers the workloads by the GPUs that they hold, then by their
// pods, then by name, so that the first ones get the picture's own colours.
func newRoster(pods []model.Pod, unplaced []model.Refusal) roster {
	nowhere := map[int]bool{}
	for _, u := range unplaced {
		for _, i := range u.Pods {
			nowhere[i] = true
		}
	}
	twins := map[string]int{}
	for _, p := range pods {
		if p.Owner == "" {
			twins[stem(p)]++
		}
	}
	byName := map[string]int{}
	r := roster{of: make([]int, len(pods))}
	for i, p := range pods {
		name := workloadName(p)
		if p.Owner == "" && twins[stem(p)] > 1 {
			name = stem(p)
		}
		w, ok := byName[name]
		if !ok {
			w = len(r.workloads)
			byName[name] = w
			r.workloads = append(r.workloads, workload{name: name})
		}
		r.of[i] = w
		r.workloads[w].pods++
		if !nowhere[i] {
			r.workloads[w].gpus += gpusAsked(p.Spec)
		}
	}
	r.sort()
	return r
}

func (r *roster) sort() {
	order := make([]int, len(r.workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := r.workloads[i], r.workloads[j]
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(b.pods, a.pods), strings.Compare(a.name, b.name))
	})
	rank := make([]int, len(order))
	sorted := make([]workload, len(order))
	for to, from := range order {
		rank[from] = to
		sorted[to] = r.workloads[from]
	}
	for i, w := range r.of {
		r.of[i] = rank[w]
	}
	r.workloads = sorted
}

// tenants counts pods by workload, in the order of the workloads.
func (r *roster) tenants(pods []int) []tenant {
	n := map[int]int{}
	for _, i := range pods {
		n[r.of[i]]++
	}
	out := make([]tenant, 0, len(n))
	for w, c := range n {
		out = append(out, tenant{workload: w, count: c})
	}
	slices.SortFunc(out, func(a, b tenant) int { return cmp.Compare(a.workload, b.workload) })
	return out
}

// workloadName names a pod's owner, or the pod itself; the namespace default
// goes without saying.
func workloadName(p model.Pod) string {
	name := p.Namespace + "/" + p.Name
	if _, owner, ok := strings.Cut(p.Owner, " "); ok {
		name = owner
	}
	return strings.TrimPrefix(name, "default/")
}

// stem is a bare pod's name with a last "-<number>" made a star.
func stem(p model.Pod) string {
	name := workloadName(p)
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 || cut == len(name)-1 || strings.Trim(name[cut+1:], "0123456789") != "" {
		return name
	}
	return name[:cut] + "-*"
}

func gpusAsked(spec *model.PodSpec) int64 {
	var n int64
	if spec == nil {
		return 0
	}
	for name, v := range spec.Requests {
		if model.IsGPU(name) {
			n += v
		}
	}
	for _, s := range spec.Shares {
		n += s.Count
	}
	return n
}
