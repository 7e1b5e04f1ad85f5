package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

var namespaceChecks = []check{
	{
		name: "quota-key", severity: model.Error, run: quotaKey,
		doc: "A ResourceQuota names an extended resource without the prefix requests. The API server accepts nvidia.com/gpu and limits.nvidia.com/gpu and counts nothing under them; " +
			"only requests.nvidia.com/gpu limits (Kubernetes 1.37, quota evaluator for pods).",
	},
	{
		name: "limit-range-gpu", severity: model.Error, run: limitRangeGPU,
		doc: "A LimitRange names an extended resource. Its defaulting then gives GPUs to containers that ask for none (max, default), or refuses the pods that ask for none " +
			"(min, defaultRequest, Pod max), as such a resource cannot be overcommitted (Kubernetes 1.37, LimitRanger).",
	},
}

func quotaKey(v *view) []model.Note {
	var out []model.Note
	for _, q := range v.Quotas {
		var wrong, right []string
		for _, key := range sortedKeys(q.Hard) {
			if base, ok := uncounted(key); ok {
				wrong = append(wrong, key)
				right = append(right, fmt.Sprintf("requests.%s: %q", base, q.Hard[key]))
			}
		}
		if len(wrong) > 0 {
			out = append(out, model.Note{
				Place: q.Place,
				Text:  fmt.Sprintf("%s in a ResourceQuota %s accepted and %s nothing", list(wrong), plural(len(wrong), "is", "are"), plural(len(wrong), "counts", "count")),
				Fix:   "write " + strings.Join(right, ", "),
			})
		}
	}
	return out
}

// uncounted reports whether a quota key looks like an extended resource and is
// counted by no evaluator; base is the resource.
func uncounted(key string) (base string, ok bool) {
	base = strings.TrimPrefix(key, "limits.")
	if strings.HasPrefix(key, "requests.") || strings.HasPrefix(key, "count/") || !extended(base) {
		return "", false
	}
	return base, !strings.Contains(base, "storageclass.storage.k8s.io/") && !strings.Contains(base, "deviceclass.resource.k8s.io/") &&
		!strings.Contains(base, "volumeattributesclass.storage.k8s.io/")
}

// extended reports whether a name is that of an extended resource (Kubernetes 1.37).
func extended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/")
}

func limitRangeGPU(v *view) []model.Note {
	var out []model.Note
	for _, l := range v.LimitRanges {
		for _, name := range limited(l) {
			if text := limitEffect(l, name); text != "" {
				out = append(out, model.Note{
					Place: l.Place,
					Text:  text,
					Fix:   fmt.Sprintf("take %s out of the LimitRange and cap it with a ResourceQuota: requests.%s", name, name),
				})
			}
		}
	}
	return out
}

// limited lists the extended resources that a LimitRange names.
func limited(l model.LimitRange) []string {
	var out []string
	for _, field := range sortedKeys(l.Fields) {
		for name := range l.Fields[field] {
			if extended(name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// limitEffect says what the LimitRange does to pods that do not name the
// resource, "" for nothing.
func limitEffect(l model.LimitRange, name string) string {
	maximum, hasMax := l.Fields["max"][name]
	minimum, hasMin := l.Fields["min"][name]
	def, hasDefault := l.Fields["default"][name]
	request, hasRequest := l.Fields["defaultRequest"][name]
	switch {
	case l.Type == "Pod" && hasMax:
		return fmt.Sprintf("type Pod with max %s: %s refuses every pod that asks for none", name, maximum)
	case l.Type == "Pod" && hasMin:
		return fmt.Sprintf("type Pod with min %s: %s refuses every pod that asks for none", name, minimum)
	case l.Type != "Container":
		return ""
	case hasDefault && zero(def):
		return fmt.Sprintf("default %s: 0 gives every container an entry of 0, and with it the pod the toleration of %s nodes", name, name)
	case hasDefault:
		return fmt.Sprintf("default %s: %s gives %s of it to every container that asks for none, sidecars too", name, def, def)
	case hasMax:
		return fmt.Sprintf("max %s: %s becomes the default, so every container that asks for none gets %s, sidecars too", name, maximum, maximum)
	case hasMin:
		return fmt.Sprintf("min %s: %s becomes a request without a limit, so every pod with a container that asks for none is refused", name, minimum)
	case hasRequest && !zero(request):
		return fmt.Sprintf("defaultRequest %s: %s is a request without a limit, so every pod with a container that asks for none is refused", name, request)
	}
	return ""
}

func zero(quantity string) bool { return strings.Trim(quantity, "0.+") == "" }
