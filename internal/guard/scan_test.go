package guard_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

func parse(t *testing.T, text string) []manifest.Document {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "in.yaml", Data: []byte(text)})
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return docs
}

// rules are those of findings, each with its object.
func rules(found []guard.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Rule+" in "+f.Place.Object)
	}
	return out
}

const dump = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: "1", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: "0", controller: true}]}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1-a, namespace: shop, uid: "2", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: "1", controller: true}]}
spec:
  nodeName: n1
  containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]
  ephemeralContainers: [{name: debugger, image: i, securityContext: {privileged: true}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: shop, uid: "3"}
spec: {containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: orphan, namespace: shop, uid: "4", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: gone, uid: "9", controller: true}]}
spec: {nodeName: n1, containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}
status: {phase: Running}
`

func TestADumpOfAClusterSaysEachThingOnce(t *testing.T) {
	want := []string{"env-visible-devices in Deployment shop/web", "ephemeral-privileged in Pod shop/web-1-a", "env-visible-devices in Pod shop/orphan"}
	for name, docs := range map[string][]manifest.Document{"whole": parse(t, dump), "heads": heads(t, dump)} {
		got := rules(guard.Scan(guard.Read(docs), nil).Findings)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// heads are documents as they are kept of a large dump.
func heads(t *testing.T, text string) []manifest.Document {
	t.Helper()
	docs, notes := source.ParseHeads([]source.File{{Name: "in.yaml", Data: []byte(text)}})
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return docs
}

func TestExcusedIsWhatWouldBeRefusedWithoutExemptionsAndLabels(t *testing.T) {
	pod := func(name, namespace string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n" +
			"spec: {containers: [{name: main, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}, {name: NVIDIA_DRIVER_CAPABILITIES, value: all}]}]}\n"
	}
	docs := parse(t, pod("a", "kube-system")+pod("b", "soft")+pod("c", "hard")+
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: soft, labels: {guard.kerf.dev/mode: warn}}\n")
	r := guard.Scan(guard.Read(docs), guard.DefaultExemptions())
	if d := cmp.Diff([]string{"env-visible-devices in Pod kube-system/a", "env-visible-devices in Pod soft/b"}, rules(r.Excused)); d != "" {
		t.Errorf("excused (-want +got):\n%s", d)
	}
	want := []string{
		"env-visible-devices in Pod hard/c", "env-visible-devices in Pod soft/b", "env-driver-capabilities in Pod soft/b", "env-driver-capabilities in Pod hard/c",
	}
	if d := cmp.Diff(want, rules(r.Findings)); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestRefusalsAreOfWhatIsYetToBeCreated(t *testing.T) {
	got := guard.Refusals(parse(t, dump), guard.DefaultExemptions())
	at := guard.Spec{File: "in.yaml", Object: "Deployment shop/web", Field: "spec.template.spec"}
	if d := cmp.Diff([]string{"env-visible-devices in Deployment shop/web"}, rules(got[at])); d != "" {
		t.Errorf("the Deployment (-want +got):\n%s", d)
	}
	for spec := range got {
		if strings.HasPrefix(spec.Object, "Pod ") {
			t.Errorf("%v is in the cluster already and is refused", spec)
		}
	}
}

func TestSign(t *testing.T) {
	const binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n"
	tests := map[string]struct{ in, want string }{
		"a binding that denies":    {binding + "spec: {policyName: kerf-guard-pods-deny, validationActions: [Deny]}\n", "ValidatingAdmissionPolicyBinding b"},
		"a binding that warns":     {binding + "spec: {policyName: kerf-guard-pods-deny, validationActions: [Warn]}\n", ""},
		"a binding of another":     {binding + "spec: {policyName: other, validationActions: [Deny]}\n", ""},
		"the webhook":              {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: kerf-guard}\n", "ValidatingWebhookConfiguration kerf-guard"},
		"a webhook of another":     {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: other}\n", ""},
		"a policy without binding": {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: kerf-guard-pods-deny}\n", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := guard.Sign(parse(t, tc.in)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseExemption(t *testing.T) {
	for _, text := range []string{"monitoring", "monitoring/dcgm", "monitoring:sys-admin", "monitoring/dcgm:sys-admin,pod-resources"} {
		e, err := guard.ParseExemption(text)
		if err != nil || e.String() != text {
			t.Errorf("%s reads as %s, %v", text, e, err)
		}
	}
	for text, want := range map[string]string{
		"":               `"" names no namespace`,
		"/dcgm":          `"/dcgm" names no namespace`,
		"a/b/c":          `"a/b/c" names no namespace`,
		"a:no-such":      `"a:no-such" names no rule "no-such"`,
		"a/b:sys-admin,": `"a/b:sys-admin," names no rule ""`,
	} {
		if _, err := guard.ParseExemption(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestVoidsLeaveAloneWhoIsExemptAndWhoAsks(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team-a}
spec:
  initContainers: [{name: init, image: i}]
  containers:
  - {name: gpu, image: i, resources: {limits: {nvidia.com/gpu: 1}}}
  - {name: shared, image: i, resources: {limits: {nvidia.com/gpu.shared: 1}}}
  - {name: share, image: i, resources: {limits: {aliyun.com/gpu-mem: 3}}}
  - {name: claim, image: i, resources: {claims: [{name: gpu}]}}
  - {name: says, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]}
  - {name: zero, image: i, resources: {limits: {nvidia.com/gpu: 0}}}
  - {name: plain, image: i}
`
	p := guard.Pods(parse(t, pod)[0])[0]
	var got []string
	for _, c := range guard.Voids(&p, nil, guard.DefaultExemptions()) {
		got = append(got, c.Name)
	}
	if d := cmp.Diff([]string{"zero", "plain", "init"}, got); d != "" {
		t.Errorf("containers (-want +got):\n%s", d)
	}
	if got := guard.Voids(&p, nil, guard.Exemptions{{Namespace: "team-a", ServiceAccount: "default"}}); got != nil {
		t.Errorf("an exempt pod is changed: %v", got)
	}
	if got := guard.Voids(&p, &guard.Facts{Labels: map[string]string{guard.LabelMode: guard.ModeOff}}, nil); got != nil {
		t.Errorf("a pod is changed where the guard is off: %v", got)
	}
}
