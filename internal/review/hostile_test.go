package review

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A webhook has five seconds. Whoever writes an object may make it as large as
// the API server takes, 3 MiB, and as awkward as its fields allow: a review that
// takes longer, or more memory than there is, would let the next object in where
// the guard fails open.
func TestNoObjectHoldsTheGuardUp(t *testing.T) {
	const most, patience = 3 << 20, 5 * time.Second
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < most; i++ {
			fmt.Fprintf(&b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	half := func(list string) string {
		return strings.TrimRight(list[:strings.LastIndex(list[:most/2], "},")+1], ",")
	}
	pod := func(spec string) string { return `{"apiVersion":"v1","kind":"Pod","spec":{` + spec + `}}` }
	one := func(container string) string { return pod(`"containers":[{"name":"a",` + container + `}]`) }
	devices := `{"name":"NVIDIA_VISIBLE_DEVICES","value":"$(A40)"}`
	var doubled strings.Builder
	doubled.WriteString(`{"name":"A0","value":"0123456789"}`)
	for i := range 40 {
		fmt.Fprintf(&doubled, `,{"name":"A%d","value":"$(A%d)$(A%d)"}`, i+1, i, i)
	}
	hostPaths, mounts := many(`{"name":"v%d","hostPath":{"path":"/etc/cdi"}}`), many(`{"name":"v%d","mountPath":"/m","readOnly":true}`)
	for name, object := range map[string]string{
		"variables that double":                   one(`"env":[` + doubled.String() + `,` + devices + `]`),
		"a long variable, again and again":        one(`"env":[{"name":"A40","value":"` + strings.Repeat("x", 120<<10) + `"},` + devices + `,` + many(`{"name":"B%d","value":"$(A40)"}`) + `]`),
		"a dollar sign, again and again":          one(`"env":[` + devices + `,{"name":"B","value":"` + strings.Repeat("$(", most/2) + `"}]`),
		"containers that all double":              pod(`"containers":[` + many(`{"name":"a%d","env":[`+strings.ReplaceAll(doubled.String(), "%", "%%")+`,`+devices+`]}`) + `]`),
		"containers that name GPUs":               pod(`"containers":[` + many(`{"name":"a%d","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}`) + `]`),
		"folders of the node, and mounts of them": pod(`"volumes":[` + half(hostPaths) + `],"containers":[{"name":"a","volumeMounts":[` + half(mounts) + `]}]`),
		"mounts that ask for devices": pod(`"volumes":[` + half(many(`{"name":"v%d","hostPath":{"path":"/dev/null"}}`)) + `],"containers":[{"name":"a","volumeMounts":[` +
			half(many(`{"name":"v%d","mountPath":"/var/run/nvidia-container-devices/0"}`)) + `]}]`),
		"one volume's name, again and again": pod(`"volumes":[` + half(many(`{"name":"v","hostPath":{"path":"/dev/null","type":"%d"}}`)) + `],"containers":[{"name":"a","volumeMounts":[` +
			half(many(`{"name":"v","mountPath":"/var/run/nvidia-container-devices/%d"}`)) + `]}]`),
		"resources":                one(`"resources":{"limits":{` + many(`"x.example/r%d":"1"`) + `}}`),
		"slices":                   one(`"resources":{"limits":{` + many(`"nvidia.com/mig-%d":"1"`) + `}}`),
		"annotations":              `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{` + many(`"nvidia.cdi.k8s.io/%d":"all"`) + `}},"spec":{"containers":[{"name":"a"}]}}`,
		"a quota's keys":           `{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{` + many(`"limits.nvidia.com/r%d":"1"`) + `}}}`,
		"a limit range's names":    `{"apiVersion":"v1","kind":"LimitRange","spec":{"limits":[{"type":"Container","default":{` + many(`"nvidia.com/r%d":"1"`) + `}}]}}`,
		"a limit range's items":    `{"apiVersion":"v1","kind":"LimitRange","spec":{"limits":[` + many(`{"type":"Container","max":{"nvidia.com/r%d":"1"}}`) + `]}}`,
		"a claim's requests":       `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","spec":{"devices":{"requests":[` + many(`{"name":"r%d"}`) + `]}}}`,
		"templates in an object":   `{"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{"groups":[` + many(`{"spec":{"containers":[{"name":"a%d","securityContext":{"privileged":true}}]}}`) + `]}}`,
		"tolerations of one taint": pod(`"nodeSelector":{"karpenter.sh/nodepool":"a"},"tolerations":[` + many(`{"key":"k%d"}`) + `],"containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpu":1}}}]`),
	} {
		for what, fields := range map[string]string{"created": `"operation":"CREATE","object":` + object, "changed": `"operation":"UPDATE","object":` + object + `,"oldObject":` + object} {
			t.Run(name+", "+what, func(t *testing.T) {
				g := &Guard{Cluster: cluster{}}
				body := []byte(`{` + head + `,"request":{"uid":"7","namespace":"team-a",` + fields + `}}`)
				for _, judge := range []func() []byte{
					func() []byte { return g.Validate(t.Context(), body) },
					func() []byte { return g.Mutate(t.Context(), body) },
				} {
					begin := time.Now()
					answer := judge()
					t.Logf("%v, %d KiB", time.Since(begin).Round(time.Millisecond), len(answer)>>10)
					if took := time.Since(begin); took > patience {
						t.Errorf("the answer took %v", took)
					}
				}
			})
		}
	}
}
