package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"

	"github.com/kerfdev/kerf/internal/source"
)

func TestWhatDoesNotFitIsNamed(t *testing.T) {
	deployment := func(spec, template string) string {
		return lines("apiVersion: apps/v1", "kind: Deployment", "metadata: {name: d}", "spec:",
			"  selector: {matchLabels: {a: b}}", spec, "  template:", "    metadata: {labels: {a: b}}", "    spec:", template,
			"      containers: [{name: c, image: i}]")
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a misspelled field is an error with the right name": {
			deployment("  replica: 3", "      nodeSelektor: {a: b}"), []string{
				"error unknown-field in.yaml:6 spec.replica: DeploymentSpec has no such field; kubectl refuses the object, other clients drop the field -> write replicas",
				"error unknown-field in.yaml:10 spec.template.spec.nodeSelektor: PodSpec has no such field; kubectl refuses the object, other clients drop the field -> write nodeSelector",
			},
		},
		"a field in the wrong place is an error with the right place": {
			deployment("  tolerations: []", "      dnsPolicy: Default"), []string{
				"error unknown-field in.yaml:6 spec.tolerations: DeploymentSpec has no such field; kubectl refuses the object, other clients drop the field -> write spec.template.spec.tolerations",
			},
		},
		"a field that nothing is like is a warning": {
			deployment("  zzz: 1", "      dnsPolicy: Default"), []string{
				"warning unknown-field in.yaml:6 spec.zzz: DeploymentSpec has no such field; kubectl refuses the object, other clients drop the field -> remove it",
			},
		},
		"a resource outside limits": {
			pod("  containers:\n  - name: c\n    image: i\n    resources:\n      nvidia.com/gpu: 1\n"), []string{
				"error unknown-field in.yaml:9 spec.containers[0].resources.nvidia.com/gpu: ResourceRequirements has no such field; kubectl refuses the object, other clients drop the field -> write limits[nvidia.com/gpu]",
			},
		},
		"a number where a string belongs": {
			pod("  containers:\n  - name: c\n    image: i\n    env:\n    - name: PORT\n      value: 8080\n"), []string{
				`error invalid in.yaml:10 spec.containers[0].env[0].value: the number 8080 where a string belongs: the API server refuses the object -> quote it: "8080"`,
			},
		},
		"an amount that is none": {
			pod(gpus("memory: 16 GB")), []string{
				`error invalid in.yaml:6 spec.containers[0].resources.limits[memory]: "16 GB" where a quantity such as 1, 500m or 16Gi belongs: the API server refuses the object -> write a number with one of the suffixes m, k, M, G, T, Ki, Mi, Gi or Ti, or none`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes := read(t, c.text)
			if diff := cmp.Diff(c.want, say(notes)); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnObjectThatDoesNotDecodeIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"the server's JSON decoder": {
			"  containers: [{name: c, image: i, env: [{name: A, value: 1}]}]\n",
			"spec.containers[0].env[0].value: json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
		},
		"the server's quantity": {
			gpus("cpu: lots"),
			"spec.containers[0].resources.limits[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, pod(c.spec))
			if diff := cmp.Diff([]string{c.want}, words(only(t, r).Spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The decoder agrees with the one of the API server: the same object, the same
// unknown fields, and the same words for the first value of a wrong type.
func TestDecoderAgreesWithSigs(t *testing.T) {
	for name, text := range map[string]string{
		"a deployment":        deployments(1, 3),
		"a pod of a cluster":  dump(1),
		"unknown fields":      pod("  x: 1\n  containers: [{name: c, y: 2, ports: [{z: 3, containerPort: 1}]}]\n"),
		"a wrong scalar":      pod("  hostNetwork: \"yes\"\n  containers: []\n"),
		"a list for a map":    pod("  nodeSelector: [a]\n  containers: []\n"),
		"a map for a list":    pod("  containers: {name: c}\n"),
		"a fraction":          pod("  priority: 1.5\n  containers: []\n"),
		"a label of a number": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: 1}}\n",
		"nulls":               pod("  nodeSelector: null\n  containers: [{name: c, resources: {limits: {cpu: null}}}]\n"),
		"inlined structs":     pod("  volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]\n  containers: [{name: c, livenessProbe: {httpGet: {port: web}, periodSeconds: 3}}]\n"),
	} {
		t.Run(name, func(t *testing.T) {
			root := parse(t, text)[0].Root
			d := newDecoder()
			d.status = true
			var mine, theirs any = &corev1.Pod{}, &corev1.Pod{}
			if root.Get("kind").Str() == "Deployment" {
				mine, theirs = &appsv1.Deployment{}, &appsv1.Deployment{}
			}
			problems := d.decode(root, mine)
			strict, err := json.UnmarshalStrict(root.JSON(), theirs)
			if err != nil {
				if len(problems) == 0 || !strings.Contains(err.Error(), problems[0].Server) {
					t.Fatalf("theirs: %v, mine: %+v", err, problems)
				}
				return
			}
			if diff := cmp.Diff(theirs, mine); diff != "" {
				t.Errorf("(-theirs +mine):\n%s", diff)
			}
			var got, want []string
			for _, p := range problems {
				got = append(got, `unknown field "`+p.Path+`"`)
			}
			for _, e := range strict {
				want = append(want, e.Error())
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unknown fields (-theirs +mine):\n%s", diff)
			}
		})
	}
}

func TestVersionsThatNobodyServes(t *testing.T) {
	old := lines("apiVersion: extensions/v1beta1", "kind: Deployment", "metadata: {name: d}", "spec:",
		"  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}")
	r, notes := read(t, old)
	if len(r.Pods) != 1 || len(r.Pods[0].Spec.Refused) != 0 {
		t.Errorf("the evident meaning was not planned: %+v", r.Pods)
	}
	want := []string{"error api-version in.yaml:1 apiVersion: Kubernetes does not serve Deployment as extensions/v1beta1 since 1.16; it is read as apps/v1 -> write apiVersion: apps/v1 and give spec.selector, which it demands"}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, notes = read(t, strings.Replace(deployments(1, 1), "apps/v1", "v1", 1))
	want = []string{`error api-version in.yaml:2 apiVersion: no Kubernetes serves Deployment as "v1"; it is read as apps/v1 -> write apiVersion: apps/v1`}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOtherGroupsAreLeftAlone(t *testing.T) {
	docs, _ := source.Parse(source.File{Name: "in.yaml", Data: []byte("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec: {tasks: []}\n")})
	r, notes := Read(docs, Options{})
	if len(r.Pods) != 0 || len(notes) != 0 {
		t.Errorf("a Job of another group was read: %v %v", r.Pods, notes)
	}
	if kinds := Kinds(); !slices.Contains(kinds, "apps/Deployment") || !slices.Contains(kinds, "/Pod") || slices.Contains(kinds, "batch.volcano.sh/Job") {
		t.Errorf("kinds: %v", kinds)
	}
}
