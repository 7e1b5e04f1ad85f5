package solve

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// Changed copies of a spec, to try what a single change would do.

// dropLabel removes a key from a pod's selector, affinity and volumes.
func dropLabel(spec *model.PodSpec, key string) *model.PodSpec {
	out := *spec
	out.NodeSelector = maps.Clone(spec.NodeSelector)
	maps.DeleteFunc(out.NodeSelector, func(k, _ string) bool { return constraint.Normalize(k) == key })
	out.NodeAffinity = dropFromTerms(spec.NodeAffinity, key)
	out.Volumes = slices.Clone(spec.Volumes)
	for i := range out.Volumes {
		out.Volumes[i].Terms = dropFromTerms(spec.Volumes[i].Terms, key)
	}
	return &out
}

// dropFromTerms removes a key from every term; a term that asked nothing else
// asks nothing then, so that the terms as a whole ask nothing.
func dropFromTerms(terms []model.Term, key string) []model.Term {
	var out []model.Term
	for _, t := range terms {
		left := slices.DeleteFunc(slices.Clone(t), func(r model.Requirement) bool { return constraint.Normalize(r.Key) == key })
		if len(left) == 0 && len(t) > 0 {
			return nil
		}
		out = append(out, left)
	}
	return out
}

func setLabel(spec *model.PodSpec, key, value string) *model.PodSpec {
	out := dropLabel(spec, key)
	if out.NodeSelector == nil {
		out.NodeSelector = map[string]string{}
	}
	out.NodeSelector[key] = value
	return out
}

func tolerate(spec *model.PodSpec, t model.Toleration) *model.PodSpec {
	out := *spec
	out.Tolerations = append(slices.Clone(spec.Tolerations), t)
	return &out
}

// askAmount sets what a pod asks of a resource, in total and so that no
// container asks more.
func askAmount(spec *model.PodSpec, name string, amount int64) *model.PodSpec {
	out := *spec
	out.Requests = spec.Requests.Clone()
	out.Requests[name] = amount
	return mapContainers(&out, func(r model.Resources) {
		if r[name] > amount {
			r[name] = amount
		}
	})
}

func renameResource(spec *model.PodSpec, from, to string) *model.PodSpec {
	out := *spec
	rename := func(r model.Resources) {
		if v, ok := r[from]; ok {
			delete(r, from)
			r[to] += v
		}
	}
	out.Requests = spec.Requests.Clone()
	rename(out.Requests)
	return mapContainers(&out, rename)
}

// mapContainers changes the requests and limits of copies of the containers.
func mapContainers(spec *model.PodSpec, f func(model.Resources)) *model.PodSpec {
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Requests, c.Limits = c.Requests.Clone(), c.Limits.Clone()
		f(c.Requests)
		f(c.Limits)
	}
	return spec
}
