package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

// added is the toleration that ExtendedResourceToleration adds.
const added = "nvidia.com/gpu Exists NoSchedule assumed"

// The figures are those of an executed run: scheme defaulting, the plugin, and
// the pod strategy of Kubernetes 1.37.2.
func TestAdmissionMatrix(t *testing.T) {
	missing := "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"
	for name, c := range map[string]struct {
		spec        string
		refused     []string
		requests    model.Resources
		tolerations []string
	}{
		"row 1: one GPU":                {gpus("nvidia.com/gpu: 1"), nil, model.Resources{"nvidia.com/gpu": 1}, []string{added}},
		"row 23: one GPU as a string":   {gpus(`nvidia.com/gpu: "1"`), nil, model.Resources{"nvidia.com/gpu": 1}, []string{added}},
		"row 6: one GPU in thousandths": {gpus("nvidia.com/gpu: 1000m"), nil, model.Resources{"nvidia.com/gpu": 1}, []string{added}},
		"row 2: a request without a limit": {
			"  containers:\n  - {name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}}}\n",
			[]string{missing},
			model.Resources{"nvidia.com/gpu": 1},
			[]string{added},
		},
		"row 3: a request below the limit": {
			"  containers:\n  - {name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}\n",
			[]string{`spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2`},
			model.Resources{"nvidia.com/gpu": 1},
			[]string{added},
		},
		"row 4: a request above the limit": {
			"  containers:\n  - {name: c, image: i, resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 1}}}\n",
			[]string{`spec.containers[0].resources.requests: Invalid value: "2": must be equal to nvidia.com/gpu limit of 1`},
			model.Resources{"nvidia.com/gpu": 2},
			[]string{added},
		},
		"row 5: half a GPU": {
			gpus("nvidia.com/gpu: 0.5"), []string{
				`spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer`,
				`spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer`,
			}, model.Resources{"nvidia.com/gpu": 1}, []string{added},
		},
		"row 7: minus one GPU": {
			gpus("nvidia.com/gpu: -1"), []string{
				`spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-1": must be greater than or equal to 0`,
				`spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "-1": must be greater than or equal to 0`,
			}, nil, []string{added},
		},
		"row 8: no GPU still tolerates": {gpus("nvidia.com/gpu: 0"), nil, nil, []string{added}},
		"row 27: a thousand GPUs":       {gpus("nvidia.com/gpu: 1k"), nil, model.Resources{"nvidia.com/gpu": 1000}, []string{added}},
		"row 28: a gibi of GPUs":        {gpus("nvidia.com/gpu: 1Gi"), nil, model.Resources{"nvidia.com/gpu": 1 << 30}, []string{added}},
		"row 9: only the init container asks": {
			"  initContainers:\n  - {name: a, image: i, resources: {limits: {nvidia.com/gpu: 1}}}\n  containers:\n  - {name: c, image: i}\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{added},
		},
		"row 10: two resources in two containers": {
			"  initContainers:\n  - {name: a, image: i, resources: {limits: {nvidia.com/gpu: 1}}}\n  containers:\n  - {name: c, image: i, resources: {limits: {nvidia.com/mig-1g.5gb: 1}}}\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1},
			[]string{added, "nvidia.com/mig-1g.5gb Exists NoSchedule assumed"},
		},
		"row 11: the toleration is there": {
			gpus("nvidia.com/gpu: 1") + "  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{"nvidia.com/gpu Exists NoSchedule"},
		},
		"row 12: the toleration has no effect": {
			gpus("nvidia.com/gpu: 1") + "  tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{"nvidia.com/gpu Exists", added},
		},
		"row 13: the toleration has a value": {
			gpus("nvidia.com/gpu: 1") + "  tolerations: [{key: nvidia.com/gpu, operator: Equal, value: \"true\", effect: NoSchedule}]\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{"nvidia.com/gpu Equal true NoSchedule", added},
		},
		"row 15: the toleration is for another effect": {
			gpus("nvidia.com/gpu: 1") + "  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoExecute}]\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{"nvidia.com/gpu Exists NoExecute", added},
		},
		"row 14: the plugin drops the seconds of its own toleration": {
			gpus("nvidia.com/gpu: 1") + "  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 30}]\n",
			nil,
			model.Resources{"nvidia.com/gpu": 1},
			[]string{"nvidia.com/gpu Exists NoSchedule"},
		},
		"row 25: seconds on NoSchedule": {
			"  containers: [{name: c, image: i}]\n  tolerations: [{key: x, operator: Exists, effect: NoSchedule, tolerationSeconds: 30}]\n",
			[]string{"spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"},
			nil,
			[]string{"x Exists NoSchedule"},
		},
		"row 16: a GPU at pod level": {
			"  resources: {limits: {nvidia.com/gpu: 1}}\n  containers: [{name: c, image: i}]\n",
			[]string{`spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported values: "cpu", "hugepages-", "memory"`},
			nil, nil,
		},
		"row 17: pod-level cpu beside a container's GPU": {
			"  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}\n" + gpus("nvidia.com/gpu: 1"),
			nil,
			model.Resources{"nvidia.com/gpu": 1, "cpu": 1000, "memory": 1 << 30},
			[]string{added},
		},
		"row 18: no domain": {
			gpus("gpu: 1"), []string{
				`spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
				`spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers`,
				`spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
				`spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers`,
			}, model.Resources{"gpu": 1}, nil,
		},
		"row 19: Kubernetes' own domain is not extended": {gpus("gpu.kubernetes.io/x: 1"), nil, model.Resources{"gpu.kubernetes.io/x": 1}, nil},
		"row 26: nor is that of device classes": {
			gpus("deviceclass.resource.kubernetes.io/gpu.nvidia.com: 1"), nil,
			model.Resources{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1},
			nil,
		},
		"row 20: a quota key": {
			gpus("requests.nvidia.com/gpu: 1"), []string{
				`spec.containers[0].resources.limits[requests.nvidia.com/gpu]: Invalid value: "requests.nvidia.com/gpu": doesn't follow extended resource name standard`,
				`spec.containers[0].resources.requests[requests.nvidia.com/gpu]: Invalid value: "requests.nvidia.com/gpu": doesn't follow extended resource name standard`,
			}, model.Resources{"requests.nvidia.com/gpu": 1}, nil,
		},
		"row 21: a time slice": {
			gpus("nvidia.com/gpu.shared: 1"), nil,
			model.Resources{"nvidia.com/gpu.shared": 1},
			[]string{"nvidia.com/gpu.shared Exists NoSchedule assumed"},
		},
		"row 22: GPU memory of ACK": {
			gpus("aliyun.com/gpu-mem: 3"), nil,
			model.Resources{"aliyun.com/gpu-mem": 3},
			[]string{"aliyun.com/gpu-mem Exists NoSchedule assumed"},
		},
		"row 24: an ephemeral container at creation": {
			"  containers: [{name: c, image: i}]\n  ephemeralContainers: [{name: e, image: i, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}]\n",
			[]string{
				"spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
				"spec.ephemeralContainers: Forbidden: cannot be set on create",
			},
			nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, pod(c.spec))
			spec := only(t, r).Spec
			if diff := cmp.Diff(c.refused, words(spec)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			want := c.requests.Plus(model.Resources{model.Pods: 1}, 1)
			if diff := cmp.Diff(want, spec.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			var tolerations []string
			for _, tol := range spec.Tolerations {
				s := tol.Key + " " + tol.Operator
				if tol.Value != "" {
					s += " " + tol.Value
				}
				if tol.Effect != "" {
					s += " " + tol.Effect
				}
				if tol.Assumed {
					s += " assumed"
				}
				tolerations = append(tolerations, s)
			}
			if diff := cmp.Diff(c.tolerations, tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

// In force: what a LimitRange makes of a pod with the containers c and sidecar.
func TestLimitRangeMatrix(t *testing.T) {
	ask := map[string]string{"none": "{}", "1": "{limits: {nvidia.com/gpu: 1}}", "3": "{limits: {nvidia.com/gpu: 3}}"}
	required := "Required value: Limit must be set for non overcommitable resources"
	first, second := "spec.containers[0].resources", "spec.containers[1].resources"
	for name, c := range map[string]struct {
		limits, ask string
		refused     []string
		c, sidecar  int64 // GPUs of each after defaulting
	}{
		"a maximum is given to whoever asks for nothing":    {"type: Container, max: {nvidia.com/gpu: 2}", "none", nil, 2, 2},
		"a maximum is given to the sidecar":                 {"type: Container, max: {nvidia.com/gpu: 2}", "1", nil, 1, 2},
		"a maximum caps":                                    {"type: Container, max: {nvidia.com/gpu: 2}", "3", []string{first + ": maximum nvidia.com/gpu usage per Container is 2, but limit is 3"}, 3, 2},
		"a minimum refuses every pod":                       {"type: Container, min: {nvidia.com/gpu: 1}", "none", []string{first + ".limits: " + required, second + ".limits: " + required}, 1, 1},
		"a minimum refuses because of the sidecar":          {"type: Container, min: {nvidia.com/gpu: 1}", "1", []string{second + ".limits: " + required}, 1, 1},
		"a default is given to whoever asks for nothing":    {"type: Container, default: {nvidia.com/gpu: 1}", "none", nil, 1, 1},
		"a default is given to the sidecar":                 {"type: Container, default: {nvidia.com/gpu: 1}", "3", nil, 3, 1},
		"a maximum for pods refuses pods without GPUs":      {"type: Pod, max: {nvidia.com/gpu: 2}", "none", []string{"spec: maximum nvidia.com/gpu usage per Pod is 2.  No limit is specified"}, 0, 0},
		"a maximum for pods lets one GPU pass":              {"type: Pod, max: {nvidia.com/gpu: 2}", "1", nil, 1, 0},
		"a maximum for pods caps":                           {"type: Pod, max: {nvidia.com/gpu: 2}", "3", []string{"spec: maximum nvidia.com/gpu usage per Pod is 2, but limit is 3"}, 3, 0},
		"a default of none gives the toleration and no GPU": {"type: Container, max: {nvidia.com/gpu: 2}, default: {nvidia.com/gpu: 0}, defaultRequest: {nvidia.com/gpu: 0}", "none", nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits: [{"+c.limits+"}]\n---\n"+
				pod("  containers:\n  - {name: c, image: i, resources: "+ask[c.ask]+"}\n  - {name: sidecar, image: i}\n"))
			spec := only(t, r).Spec
			if diff := cmp.Diff(c.refused, words(spec)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			got := []int64{spec.Containers[0].Requests["nvidia.com/gpu"], spec.Containers[1].Requests["nvidia.com/gpu"]}
			if diff := cmp.Diff([]int64{c.c, c.sidecar}, got); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}
