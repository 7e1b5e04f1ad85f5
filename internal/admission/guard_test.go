package admission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/review"
)

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: app, namespace: team-a}\n"

func object(t testing.TB, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRepair(t *testing.T) {
	gpu := "resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}"
	for name, c := range map[string]struct {
		spec      string
		tolerates bool
		pools     map[string][]model.Taint
		want      string // the spec's fields that changed, as YAML
	}{
		"a container without a GPU is shown none, and one with a GPU is left alone": {
			spec:      "containers: [{name: a, image: x}, {name: b, image: x, " + gpu + "}]",
			tolerates: true,
			want:      "containers: [{name: a, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]}, {name: b, image: x, " + gpu + "}]",
		},
		"what a container says itself stays": {
			spec:      "containers: [{name: a, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]}]",
			tolerates: true,
			want:      "containers: [{name: a, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]}]",
		},
		"other variables stay before it, in init containers too": {
			spec:      "initContainers: [{name: i, image: x, env: [{name: A, value: b}]}]\ncontainers: [{name: b, image: x, " + gpu + "}]",
			tolerates: true,
			want:      "initContainers: [{name: i, image: x, env: [{name: A, value: b}, {name: NVIDIA_VISIBLE_DEVICES, value: void}]}]\ncontainers: [{name: b, image: x, " + gpu + "}]",
		},
		"an API server without the plugin leaves the toleration to the guard": {
			spec: "containers: [{name: b, image: x, " + gpu + "}]",
			want: "containers: [{name: b, image: x, " + gpu + "}]\ntolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
		},
		"a toleration that is there is not added again": {
			spec: "containers: [{name: b, image: x, " + gpu + "}]\ntolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
			want: "containers: [{name: b, image: x, " + gpu + "}]\ntolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
		},
		"zero GPUs get the toleration too, as from the plugin": {
			spec: "containers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], resources: {limits: {nvidia.com/gpu: 0}}}]",
			want: "containers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], resources: {limits: {nvidia.com/gpu: 0}}}]\ntolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
		},
		"names of Kubernetes and quota keys are no extended resources": {
			spec: "containers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], resources: {limits: {gpu.kubernetes.io/x: 1, cpu: 1, requests.nvidia.com/gpu: 1}}}]",
			want: "containers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], resources: {limits: {gpu.kubernetes.io/x: 1, cpu: 1, requests.nvidia.com/gpu: 1}}}]",
		},
		"a pod with GPUs that selects a pool tolerates that pool's taints": {
			spec: "nodeSelector: {karpenter.sh/nodepool: shared}\ncontainers: [{name: b, image: x, " + gpu + "}]",
			pools: map[string][]model.Taint{"shared": {
				{Key: "nvidia.com/gpu", Effect: "NoSchedule"}, {Key: "team", Value: "a", Effect: "NoSchedule"}, {Key: "soft", Effect: "PreferNoSchedule"},
			}},
			tolerates: false,
			want: "nodeSelector: {karpenter.sh/nodepool: shared}\ncontainers: [{name: b, image: x, " + gpu + "}]\n" +
				"tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: team, operator: Equal, value: a, effect: NoSchedule}]",
		},
		"a pod without GPUs stays off that pool": {
			spec:      "nodeSelector: {karpenter.sh/nodepool: shared}\ncontainers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]}]",
			pools:     map[string][]model.Taint{"shared": {{Key: "team", Value: "a", Effect: "NoSchedule"}}},
			tolerates: true,
			want:      "nodeSelector: {karpenter.sh/nodepool: shared}\ncontainers: [{name: b, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw := object(t, podHead+"spec:\n  "+strings.ReplaceAll(c.spec, "\n", "\n  "))
			r := ask(t, mutator(known{tolerates: c.tolerates, pools: c.pools}, nil), raw, nil, "")
			if !r.Allowed {
				t.Fatalf("refused: %s", r.Result.Message)
			}
			var got, want corev1.Pod
			if err := json.Unmarshal(patched(t, raw, r.Patch), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(object(t, podHead+"spec:\n  "+strings.ReplaceAll(c.want, "\n", "\n  ")), &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the pod (-want +got):\n%s", d)
			}
			again := ask(t, mutator(known{tolerates: c.tolerates, pools: c.pools}, nil), patched(t, raw, r.Patch), nil, "")
			if len(again.Patch) > 0 {
				t.Errorf("a second look changes the pod again: %s", again.Patch)
			}
		})
	}
}

func patched(t testing.TB, raw, patch []byte) []byte {
	t.Helper()
	if len(patch) == 0 {
		return raw
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExemptPodsAreLeftAlone(t *testing.T) {
	raw := object(t, strings.Replace(podHead, "team-a", "gpu-operator", 1)+"spec: {containers: [{name: a, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}, {name: b, image: x}]}")
	if r := ask(t, validator(known{}, guard.DefaultExemptions()), raw, nil, ""); !r.Allowed || len(r.Warnings) > 0 {
		t.Errorf("judged: %+v", r)
	}
	if r := ask(t, mutator(known{tolerates: true}, guard.DefaultExemptions()), raw, nil, ""); len(r.Patch) > 0 {
		t.Errorf("changed: %s", r.Patch)
	}
}

// What an object broke before is not a reason to refuse an update; what the
// update adds is.
func TestUpdates(t *testing.T) {
	pod := func(spec string) string {
		return podHead + "spec: {containers: [{name: main, image: x}], " + spec + "}"
	}
	hostDev := "volumes: [{name: d, hostPath: {path: /dev}}]"
	debug := func(env string) string {
		return "ephemeralContainers: [{name: dbg, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: " + env + "}]}]"
	}
	for name, c := range map[string]struct {
		old, now, subresource string
		allowed               bool
	}{
		"a finalizer goes from a pod that breaks a rule": {old: pod(hostDev), now: pod(hostDev), allowed: true},
		"a debug container that names GPUs":              {old: pod("dnsPolicy: Default"), now: pod(debug("all")), subresource: "ephemeralcontainers"},
		"a debug container that names none":              {old: pod("dnsPolicy: Default"), now: pod(debug("none")), subresource: "ephemeralcontainers", allowed: true},
		"a debug container that was there before":        {old: pod(debug("all")), now: pod(debug("all")), subresource: "ephemeralcontainers", allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, validator(known{}, nil), object(t, c.now), object(t, c.old), c.subresource)
			if r.Allowed != c.allowed {
				t.Errorf("allowed = %v, want %v: %+v", r.Allowed, c.allowed, r.Result)
			}
		})
	}
	r := ask(t, mutator(known{}, nil), object(t, pod("ephemeralContainers: [{name: old, image: x}, {name: new, image: x}]")), object(t, pod("ephemeralContainers: [{name: old, image: x}]")), "ephemeralcontainers")
	if want := `[{"op":"add","path":"/spec/ephemeralContainers/1/env","value":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]}]`; string(r.Patch) != want {
		t.Errorf("patch of a debug container\n got %s\nwant %s", r.Patch, want)
	}
}

func TestARefusalSaysWhereWhyAndWhatToDo(t *testing.T) {
	r := ask(t, validator(known{}, nil), object(t, podHead+"spec: {containers: [{name: main, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}"), nil, "")
	for _, part := range []string{"Pod team-a/app", "env-visible-devices", "spec.containers[0].env[0]", "container main", "→"} {
		if r.Allowed || !strings.Contains(r.Result.Message, part) {
			t.Errorf("the refusal does not say %q:\n%s", part, r.Result.Message)
		}
	}
}

func TestLabelsOfANamespaceChooseWhatIsDone(t *testing.T) {
	raw := object(t, podHead+"spec: {containers: [{name: main, image: x, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}")
	for mode, want := range map[string]string{"deny": "denied", "warn": "warned", "audit": "recorded", "off": "silent"} {
		c := readClaimText(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {guard.kerf.dev/mode: '"+mode+"'}}\n")
		r := ask(t, validator(known{inventory: c}, nil), raw, nil, "")
		got := map[[3]bool]string{{false, false, true}: "denied", {true, true, true}: "warned", {true, false, true}: "recorded", {true, false, false}: "silent"}[[3]bool{r.Allowed, len(r.Warnings) > 0, len(r.AuditAnnotations) > 0}]
		if got != want {
			t.Errorf("mode %s: %s, want %s: %+v", mode, got, want, r)
		}
	}
}

func TestWarningsFitIntoAnAnswer(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "{name: c%d, image: x, securityContext: {capabilities: {add: [SYS_ADMIN]}}, resources: {limits: {nvidia.com/gpu: 1}}, env: [{name: LD_PRELOAD, value: %s}]},", i, strings.Repeat("ö", 200))
	}
	r := ask(t, validator(known{}, nil), object(t, podHead+"spec: {containers: ["+b.String()+"]}"), nil, "")
	size := 0
	for _, w := range r.Warnings {
		size += len(w)
		if len(w) > 256 || strings.Contains(w, "\uFFFD") {
			t.Errorf("a warning that is cut badly: %q", w)
		}
	}
	if size > 4096 || len(r.Warnings) < 2 || !strings.Contains(r.Warnings[len(r.Warnings)-1], "more") {
		t.Errorf("%d bytes in %d warnings, the last is %q", size, len(r.Warnings), r.Warnings[len(r.Warnings)-1])
	}
}

// Whatever is posted gets an answer that says what was wrong with it.
func TestHostileReviews(t *testing.T) {
	envelope := func(object string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"team-a","object":` + object + `}}`
	}
	for name, c := range map[string]struct {
		body string
		code int32
		says string
	}{
		"nothing":                             {"", 400, "no object"},
		"no JSON":                             {"GPU", 400, ""},
		"another object":                      {`{"apiVersion":"v1","kind":"Pod"}`, 400, ""},
		"a review without object":             {envelope("null"), 400, "no object"},
		"a list for an object":                {envelope(`[1,2]`), 400, "read the object"},
		"an object that is very deep":         {envelope(`{"spec":` + strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600) + "}"), 400, "nested more than"},
		"more than the API server ever sends": {envelope(`{"x":"` + strings.Repeat("a", 7<<20) + `"}`), 413, "too large"},
		"3 MiB of variables":                  {envelope(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[` + strings.TrimSuffix(strings.Repeat(`{"name":"A","value":"B"},`, 120_000), ",") + `]}]}}`), 200, ""},
		"types that are not those of a pod":   {envelope(`{"apiVersion":"v1","kind":"Pod","metadata":7,"spec":{"containers":{"a":[]},"volumes":"x","tolerations":[[]]}}`), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, h := range []http.Handler{validator(known{}, nil), mutator(known{tolerates: true}, nil)} {
				out := post(t, h, []byte(c.body))
				if out.Response == nil {
					t.Fatal("no response")
				}
				code := int32(200)
				if out.Response.Result != nil {
					code = out.Response.Result.Code
				}
				if code != c.code {
					t.Errorf("code %d, want %d: %+v", code, c.code, out.Response.Result)
				}
				if c.says != "" && !strings.Contains(out.Response.Result.Message, c.says) {
					t.Errorf("it does not say %q: %s", c.says, out.Response.Result.Message)
				}
			}
		})
	}
}

// A cluster that cannot be asked is no reason to judge wrongly: the object is
// refused for now, and the refusal says why.
func TestAClusterThatCannotBeAsked(t *testing.T) {
	raw := object(t, podHead+"spec: {containers: [{name: main, image: x}]}")
	h := validator(known{err: errors.New("the API server is away")}, nil)
	if r := ask(t, h, raw, nil, ""); r.Allowed || r.Result.Code != http.StatusInternalServerError || !strings.Contains(r.Result.Message, "away") {
		t.Errorf("answer: %+v", r)
	}
}

var _ review.Cluster = known{}
