package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A Cause is one list of reasons with every pod that it holds for.
type Cause struct {
	Owners []Owner
	Count  int // pods in all
	// Asks is what each of the pods asks: "nvidia.com/gpu: 2, cpu 4, memory 8 GiB".
	// Of what they do not have in common it says nothing.
	Asks    string
	Reasons []Reason
}

// An Owner is a workload, or a bare pod, and its pods among Snapshot.Pods.
type Owner struct {
	Name string // "Deployment team-a/web" or "Pod team-a/web"
	Pods []int
}

// A Reason is one sentence and where it holds.
type Reason struct {
	Pools []string // with Nodes empty too: wherever the pod would go
	Nodes []string
	Sentence
}

// Group folds refusals with the same reasons into one Cause, and places with
// the same reason into one Reason, each in the order in which it first appears.
func Group(s model.Snapshot, refusals []model.Refusal) []Cause {
	var out []Cause
	var asks [][]string
	at := map[string]int{}
	for _, r := range refusals {
		reasons := fold(r.Verdicts)
		key := fmt.Sprintf("%q", reasons)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Cause{Reasons: reasons})
			asks = append(asks, nil)
		}
		for _, p := range r.Pods {
			if p < 0 || p >= len(s.Pods) {
				continue
			}
			out[i].add(s.Pods[p], p)
			asks[i] = common(asks[i], requests(s.Pods[p]), out[i].Count == 1)
		}
	}
	for i := range out {
		out[i].Asks = strings.Join(asks[i], ", ")
	}
	return out
}

// add counts a pod under its owner.
func (c *Cause) add(pod model.Pod, index int) {
	c.Count++
	name := pod.Owner
	if name == "" {
		name = "Pod " + pod.Namespace + "/" + pod.Name
	}
	i := slices.IndexFunc(c.Owners, func(o Owner) bool { return o.Name == name })
	if i < 0 {
		i = len(c.Owners)
		c.Owners = append(c.Owners, Owner{Name: name})
	}
	c.Owners[i].Pods = append(c.Owners[i].Pods, index)
}

// fold makes reasons of verdicts. Nodes that refuse for want of the same
// resource are one reason, with the largest amount that any of them has.
func fold(verdicts []model.Verdict) []Reason {
	var out []Reason
	at := map[string]int{}
	for _, v := range widest(verdicts) {
		s := Verdict(v.Verdict)
		i, ok := at[fmt.Sprintf("%q %v", s, v.Pool+v.Node == "")]
		if !ok {
			i = len(out)
			at[fmt.Sprintf("%q %v", s, v.Pool+v.Node == "")] = i
			out = append(out, Reason{Sentence: s})
		}
		switch {
		case v.Node != "":
			out[i].Nodes = append(out[i].Nodes, v.nodes...)
		case v.Pool != "" && !slices.Contains(out[i].Pools, v.Pool):
			out[i].Pools = append(out[i].Pools, v.Pool)
		}
	}
	return out
}

// onNodes is a verdict and every node that it holds for.
type onNodes struct {
	model.Verdict
	nodes []string
}

// widest folds the verdicts on nodes that differ in their amounts only.
func widest(verdicts []model.Verdict) []onNodes {
	var out []onNodes
	at := map[string]int{}
	for _, v := range verdicts {
		if v.Node == "" {
			out = append(out, onNodes{Verdict: v})
			continue
		}
		key := fmt.Sprintf("%q %d", []any{v.Code, v.Key, v.Wanted, v.Offered, v.Config, v.Detail, v.Remedy}, v.Asked)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, onNodes{Verdict: v})
		}
		out[i].nodes = append(out[i].nodes, v.Node)
		if v.Have > out[i].Have {
			out[i].Have, out[i].Used = v.Have, v.Used
		}
	}
	return out
}

// requests lists what a pod asks, GPUs first.
func requests(pod model.Pod) []string {
	if pod.Spec == nil {
		return nil
	}
	var gpus, rest []string
	for _, name := range pod.Spec.Requests.Names() {
		n := pod.Spec.Requests[name]
		switch {
		case n <= 0 || name == model.Pods:
		case model.IsGPU(name):
			gpus = append(gpus, fmt.Sprintf("%s: %d", name, n))
		default:
			rest = append(rest, name+" "+bare(name, n))
		}
	}
	return append(gpus, rest...)
}

// common keeps of a list what the next one has as well.
func common(kept, next []string, first bool) []string {
	if first {
		return next
	}
	return slices.DeleteFunc(slices.Clone(kept), func(ask string) bool { return !slices.Contains(next, ask) })
}
