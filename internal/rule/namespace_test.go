package rule

import (
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestQuotaKey(t *testing.T) {
	quota := func(pairs ...string) model.Snapshot {
		hard := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			hard[pairs[i]] = pairs[i+1]
		}
		return model.Snapshot{Quotas: []model.Quota{{Hard: hard}}}
	}
	run(t, "quota-key", map[string]scenario{
		"the bare name": {
			in:   quota("nvidia.com/gpu", "4"),
			want: []said{{"nvidia.com/gpu in a ResourceQuota is accepted and counts nothing", `write requests.nvidia.com/gpu: "4"`}},
		},
		"under limits, with another": {
			in: quota("limits.nvidia.com/gpu", "4", "nvidia.com/gpu.shared", "8"),
			want: []said{{
				"limits.nvidia.com/gpu and nvidia.com/gpu.shared in a ResourceQuota are accepted and count nothing",
				`write requests.nvidia.com/gpu: "4", requests.nvidia.com/gpu.shared: "8"`,
			}},
		},
		"under requests":  {in: quota("requests.nvidia.com/gpu", "4")},
		"native keys":     {in: quota("limits.cpu", "4", "pods", "3", "requests.storage", "1Ti", "count/jobs.batch", "2")},
		"a storage class": {in: quota("gold.storageclass.storage.k8s.io/requests.storage", "1Ti")},
	})
}

func TestLimitRangeGPU(t *testing.T) {
	limits := func(kind string, fields ...string) model.Snapshot {
		l := model.LimitRange{Type: kind, Fields: map[string]map[string]string{}}
		for i := 0; i < len(fields); i += 2 {
			l.Fields[fields[i]] = map[string]string{model.NvidiaGPU: fields[i+1], model.CPU: "1"}
		}
		return model.Snapshot{LimitRanges: []model.LimitRange{l}}
	}
	say := func(text string) []said {
		return []said{{text, "take nvidia.com/gpu out of the LimitRange and cap it with a ResourceQuota: requests.nvidia.com/gpu"}}
	}
	run(t, "limit-range-gpu", map[string]scenario{
		"a maximum hands GPUs out": {
			in:   limits("Container", "max", "2"),
			want: say("max nvidia.com/gpu: 2 becomes the default, so every container that asks for none gets 2, sidecars too"),
		},
		"a minimum refuses": {
			in:   limits("Container", "min", "1"),
			want: say("min nvidia.com/gpu: 1 becomes a request without a limit, so every pod with a container that asks for none is refused"),
		},
		"a default request refuses": {
			in:   limits("Container", "defaultRequest", "1"),
			want: say("defaultRequest nvidia.com/gpu: 1 is a request without a limit, so every pod with a container that asks for none is refused"),
		},
		"a default hands GPUs out": {
			in:   limits("Container", "default", "1", "defaultRequest", "1"),
			want: say("default nvidia.com/gpu: 1 gives 1 of it to every container that asks for none, sidecars too"),
		},
		"a default of 0 opens the GPU nodes": {
			in:   limits("Container", "max", "2", "default", "0", "defaultRequest", "0"),
			want: say("default nvidia.com/gpu: 0 gives every container an entry of 0, and with it the pod the toleration of nvidia.com/gpu nodes"),
		},
		"a maximum for pods refuses": {
			in:   limits("Pod", "max", "4"),
			want: say("type Pod with max nvidia.com/gpu: 4 refuses every pod that asks for none"),
		},
		"a LimitRange of native resources": {in: model.Snapshot{LimitRanges: []model.LimitRange{{
			Type: "Container", Fields: map[string]map[string]string{"max": {model.CPU: "4", model.Memory: "8Gi"}},
		}}}},
		"claims": {in: limits("PersistentVolumeClaim", "max", "4")},
	})
}
