package rule

import (
	"github.com/kerfdev/kerf/internal/guard"
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
		if text, fix := guard.QuotaKeys(q.Hard); text != "" {
			out = append(out, model.Note{Place: q.Place, Text: text, Fix: fix})
		}
	}
	return out
}

func limitRangeGPU(v *view) []model.Note {
	var out []model.Note
	for _, l := range v.LimitRanges {
		for _, e := range guard.LimitEffects(l) {
			out = append(out, model.Note{Place: l.Place, Text: e.Text, Fix: e.Fix})
		}
	}
	return out
}
