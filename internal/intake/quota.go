package intake

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kerfdev/kerf/internal/model"
)

// quotas refuses the pods that ResourceQuotas leave no room for, as Kubernetes
// 1.37 does when pods are created in the order of the input. Pods that are
// bound exist already and are counted first.
func (l *loader) quotas() {
	for _, q := range l.snapshot.Quotas {
		a := &account{quota: q, used: model.Resources{}, refused: map[string]*model.PodSpec{}}
		for _, key := range sortedKeys(q.Hard) {
			if hard, ok := amountOf(key, q.Hard[key]); ok && counts(key) {
				a.keys = append(a.keys, key)
				a.hard = append(a.hard, hard)
			}
		}
		if len(a.keys) == 0 {
			continue
		}
		for i := range l.snapshot.Pods {
			if p := &l.snapshot.Pods[i]; p.Namespace == q.Namespace && p.Node != "" {
				a.add(p.Spec)
			}
		}
		for i := range l.snapshot.Pods {
			if p := &l.snapshot.Pods[i]; p.Namespace == q.Namespace && p.Node == "" && len(p.Spec.Refused) == 0 {
				a.admit(p)
			}
		}
	}
}

// An account is a quota and what has been used of it.
type account struct {
	quota   model.Quota
	keys    []string // sorted
	hard    []int64  // by key
	used    model.Resources
	refused map[string]*model.PodSpec // refused copies, so that equal pods go on sharing a spec
}

func (a *account) add(spec *model.PodSpec) {
	for _, key := range a.keys {
		a.used[key] += charge(spec, key)
	}
}

// admit counts a pod, or gives it a spec that says why it is refused.
func (a *account) admit(p *model.Pod) {
	if words := a.unspecified(p.Spec); words != "" {
		a.refuse(p, words, model.Verdict{Code: model.CodeInvalid, Detail: "failed quota: " + a.quota.Name + ": must specify " + words})
		return
	}
	for i, key := range a.keys {
		asked := charge(p.Spec, key)
		if asked == 0 || a.used[key]+asked <= a.hard[i] {
			continue
		}
		a.refuse(p, fmt.Sprint(key, a.used[key]), a.verdict(key, asked, a.hard[i]))
		return
	}
	a.add(p.Spec)
}

// refuse gives a pod a spec with the verdict; pods of one spec that are refused
// for one reason share it.
func (a *account) refuse(p *model.Pod, reason string, v model.Verdict) {
	id := fmt.Sprintf("%p %s", p.Spec, reason)
	if a.refused[id] == nil {
		clone := *p.Spec
		clone.Refused = append(slices.Clone(clone.Refused), v)
		a.refused[id] = &clone
	}
	p.Spec = a.refused[id]
}

// unspecified says which requests and limits of cpu and memory a quota counts
// and a container does not give: Kubernetes refuses such a pod. Amounts that
// the pod gives as a whole do.
func (a *account) unspecified(spec *model.PodSpec) string {
	var parts []string
	for _, key := range a.keys {
		name := unit(key)
		if name != model.CPU && name != model.Memory {
			continue
		}
		limits := strings.HasPrefix(key, "limits.")
		var without []string
		for _, c := range spec.Containers {
			given := c.Requests
			if limits {
				given = c.Limits
			}
			if _, ok := given[name]; !ok {
				without = append(without, c.Name)
			}
		}
		whole := !limits && len(without) == len(spec.Containers) && spec.Requests[name] > 0
		if len(without) > 0 && !whole {
			parts = append(parts, key+" for: "+strings.Join(without, ","))
		}
	}
	return strings.Join(parts, "; ")
}

func (a *account) verdict(key string, asked, hard int64) model.Verdict {
	return model.Verdict{
		Code: model.CodeQuota, Key: key, Asked: asked, Have: hard, Used: a.used[key],
		Detail: fmt.Sprintf("exceeded quota: %s, requested: %s=%s, used: %s=%s, limited: %s=%s", a.quota.Name,
			key, written(key, asked), key, written(key, a.used[key]), key, written(key, hard)),
	}
}

// counts reports whether a key of a quota counts pods or what they ask; others,
// like nvidia.com/gpu without "requests.", are accepted and count nothing.
func counts(key string) bool {
	switch key {
	case "pods", "count/pods", "cpu", "memory", "ephemeral-storage":
		return true
	}
	if name, ok := strings.CutPrefix(key, "limits."); ok {
		return native(name)
	}
	name, ok := strings.CutPrefix(key, "requests.")
	return ok && name != "storage"
}

func native(name string) bool {
	return name == model.CPU || name == model.Memory || name == model.EphemeralStorage
}

// charge is what one pod takes of a key.
func charge(spec *model.PodSpec, key string) int64 {
	if key == "pods" || key == "count/pods" {
		return 1
	}
	if name, ok := strings.CutPrefix(key, "limits."); ok {
		return limit(spec, name)
	}
	return spec.Requests[strings.TrimPrefix(key, "requests.")]
}

// limit adds up a pod's limits: containers and sidecars together, against init
// containers one at a time beside the sidecars that started before them.
func limit(spec *model.PodSpec, name string) int64 {
	var running, sidecars, peak int64
	for _, c := range spec.Containers {
		switch v := c.Limits[name]; {
		case c.Sidecar:
			sidecars += v
			peak = max(peak, sidecars)
		case c.Init:
			peak = max(peak, sidecars+v)
		default:
			running += v
		}
	}
	return max(running+sidecars, peak)
}

// unit is the resource whose unit a key is in.
func unit(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, "requests."), "limits.")
}

// amountOf reads a quantity in the unit of the model.
func amountOf(key, text string) (int64, bool) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, false
	}
	if unit(key) == model.CPU {
		return q.MilliValue(), true
	}
	return q.Value(), true
}

// written is an amount as Kubernetes prints it.
func written(key string, v int64) string {
	switch name := unit(key); {
	case name == model.CPU:
		return resource.NewMilliQuantity(v, resource.DecimalSI).String()
	case name == model.Memory || name == model.EphemeralStorage || strings.HasPrefix(name, "hugepages-"):
		return resource.NewQuantity(v, resource.BinarySI).String()
	}
	return resource.NewQuantity(v, resource.DecimalSI).String()
}
