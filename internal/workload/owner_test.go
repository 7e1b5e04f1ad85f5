package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// owned is a Pod of a cluster with a controller.
func owned(name, kind, owner, extra string) string {
	return lines("---", "apiVersion: v1", "kind: Pod", "metadata:", "  name: "+name, "  uid: u-"+name,
		"  ownerReferences: [{apiVersion: apps/v1, kind: "+kind+", name: "+owner+", uid: x, controller: true}]",
		"spec: {containers: [{name: c, image: i}]}", "status: {phase: Running}", extra)
}

func workload(kind, name, spec string) string {
	version := "apps/v1"
	if kind == "Job" || kind == "CronJob" {
		version = "batch/v1"
	}
	if kind == "ReplicationController" {
		version = "v1"
	}
	return lines("---", "apiVersion: "+version, "kind: "+kind, "metadata: {name: "+name+"}", "spec:", spec)
}

const (
	forever = "  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}"
	once    = "  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
)

func TestEachWorkloadMakesThePodsThatItWantsAtOnce(t *testing.T) {
	replicaSet := lines("---", "apiVersion: apps/v1", "kind: ReplicaSet",
		"metadata: {name: d-5c6, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: x, controller: true}]}",
		"spec:", "  replicas: 3", forever)
	for name, c := range map[string]struct {
		text string
		want []string // owner, pod, node
	}{
		"a deployment without a number wants one":   {workload("Deployment", "d", forever), []string{"Deployment d: d-0"}},
		"a deployment wants its replicas":           {workload("Deployment", "d", "  replicas: 2\n"+forever), []string{"Deployment d: d-0", "Deployment d: d-1"}},
		"a deployment may want none":                {workload("Deployment", "d", "  replicas: 0\n"+forever), nil},
		"a stateful set counts from where it says":  {workload("StatefulSet", "s", "  replicas: 2\n  ordinals: {start: 5}\n"+forever), []string{"StatefulSet s: s-5", "StatefulSet s: s-6"}},
		"a replication controller":                  {workload("ReplicationController", "r", "  selector: {a: b}\n"+strings.SplitN(forever, "\n", 2)[1]), []string{"ReplicationController r: r-0"}},
		"a job runs as many as are left":            {workload("Job", "j", "  parallelism: 5\n  completions: 2\n"+once), []string{"Job j: j-0", "Job j: j-1"}},
		"a job takes off what is done":              {workload("Job", "j", "  parallelism: 5\n  completions: 3\n"+once) + "status: {succeeded: 2}\n", []string{"Job j: j-0"}},
		"a job without a number of completions":     {workload("Job", "j", "  parallelism: 2\n"+once), []string{"Job j: j-0", "Job j: j-1"}},
		"a job that is done makes none":             {workload("Job", "j", once) + "status: {conditions: [{type: Complete, status: \"True\"}]}\n", nil},
		"a suspended job makes none":                {workload("Job", "j", "  suspend: true\n"+once), nil},
		"a cron job runs once":                      {workload("CronJob", "c", "  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n      parallelism: 2\n    "+once), []string{"CronJob c: c-0", "CronJob c: c-1"}},
		"a suspended cron job does not run":         {workload("CronJob", "c", "  schedule: 0 3 * * *\n  suspend: true\n  jobTemplate:\n    spec:\n    "+once), nil},
		"a replica set of a deployment counts once": {workload("Deployment", "d", "  replicas: 3\n"+forever) + replicaSet, []string{"Deployment d: d-0", "Deployment d: d-1", "Deployment d: d-2"}},
		"live pods take the place of replicas": {
			workload("Deployment", "d", "  replicas: 3\n"+forever) + replicaSet + owned("d-5c6-x", "ReplicaSet", "d-5c6", "") + owned("d-5c6-y", "ReplicaSet", "d-5c6", ""),
			[]string{"Deployment d: d-0", "Deployment d: d-5c6-x", "Deployment d: d-5c6-y"},
		},
		"a live pod takes its own place in a stateful set": {
			workload("StatefulSet", "s", "  replicas: 3\n"+forever) + owned("s-1", "StatefulSet", "s", ""),
			[]string{"StatefulSet s: s-0", "StatefulSet s: s-2", "StatefulSet s: s-1"},
		},
		"a finished pod is left out and is no replica": {
			workload("Deployment", "d", forever) + replicaSet + strings.Replace(owned("d-5c6-x", "ReplicaSet", "d-5c6", ""), "Running", "Failed", 1),
			[]string{"Deployment d: d-0"},
		},
		"a pod that the kubelet refused is left out": {
			strings.Replace(owned("p", "ReplicaSet", "r", ""), "phase: Running", "phase: Failed, reason: UnexpectedAdmissionError", 1), nil,
		},
		"a run of a cron job that is under way is the one": {
			workload("CronJob", "c", "  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n    "+once) +
				lines("---", "apiVersion: batch/v1", "kind: Job", "metadata: {name: c-1, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: x, controller: true}]}", "spec:", once),
			[]string{"CronJob c: c-1-0"},
		},
		"the deployment of a lone pod is known by the hash": {
			strings.Replace(owned("web-5c6-x", "ReplicaSet", "web-5c6", ""), "  uid:", "  labels: {pod-template-hash: 5c6}\n  uid:", 1),
			[]string{"Deployment web: web-5c6-x"},
		},
		"a daemonset is named with its namespace": {owned("p", "DaemonSet", "d", "") + workload("DaemonSet", "d", forever), []string{"DaemonSet default/d: p"}},
		"owners that go round": {
			lines("---", "apiVersion: apps/v1", "kind: ReplicaSet", "metadata: {name: a, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: a, uid: x, controller: true}]}", "spec:", forever) + owned("p", "ReplicaSet", "a", ""),
			[]string{"ReplicaSet a: p"},
		},
		"a bare pod has no owner":             {"---\n" + pod("  containers: [{name: c, image: i}]\n"), []string{": p"}},
		"a pod of which only a stem is named": {"---\n" + strings.Replace(pod("  containers: [{name: c, image: i}]\n"), "name: p}", "generateName: p-}", 1), []string{": p-0"}},
		"of an object given twice the last counts": {
			workload("Deployment", "d", "  replicas: 3\n"+forever) + workload("Deployment", "d", forever), []string{"Deployment d: d-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, c.text)
			var got []string
			for _, p := range r.Pods {
				if len(p.Spec.Refused) > 0 {
					t.Errorf("%s is refused: %v", p.Name, words(p.Spec))
				}
				got = append(got, p.Owner+": "+p.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicasShareOneSpec(t *testing.T) {
	r, _ := read(t, workload("Deployment", "d", "  replicas: 50\n"+forever))
	for _, p := range r.Pods {
		if p.Spec != r.Pods[0].Spec {
			t.Fatal("two replicas have specs of their own")
		}
	}
}

func TestWhatIsSaidAboutWorkloads(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a cron job": {
			workload("CronJob", "c", "  schedule: 0 3 * * *\n  jobTemplate:\n    spec:\n      parallelism: 2\n    "+once),
			[]string{`info scheduled in.yaml:6 spec.schedule: its job runs on the schedule "0 3 * * *"; the plan holds room for one run of 2 pods`},
		},
		"an autoscaler": {
			lines("apiVersion: autoscaling/v2", "kind: HorizontalPodAutoscaler", "metadata: {name: h}", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 9}"),
			[]string{"info autoscaler in.yaml:4 spec: it scales Deployment web between 1 and 9 replicas; the plan counts the replicas that Deployment web names"},
		},
		"a selector that does not pick its own pods": {
			workload("Deployment", "d", strings.Replace(forever, "matchLabels: {a: b}", "matchLabels: {a: c}", 1)),
			[]string{"error invalid in.yaml:7 spec.template.metadata.labels: the API server refuses the object: spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"},
		},
		"a deployment that is to end": {
			workload("Deployment", "d", strings.Replace(forever, "spec: {", "spec: {restartPolicy: Never, ", 1)),
			[]string{`error invalid in.yaml:7 spec.template.spec.restartPolicy: the API server refuses the object: spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`},
		},
		"a job that is not": {
			workload("Job", "j", strings.Replace(once, "restartPolicy: Never, ", "", 1)),
			[]string{`error invalid in.yaml:6 spec.template.spec.restartPolicy: the API server refuses the object: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`},
		},
		"a template that only its pods are refused for": {
			workload("Deployment", "d", strings.Replace(forever, "image: i", "image: i, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}, ports: [{containerPort: 80}]", 1)), nil,
		},
		"more pods than a fleet has": {
			workload("Deployment", "d", "  replicas: 2000000000\n"+forever),
			[]string{"error too-many in.yaml:8 spec.template: more than 1048576 pods in all: only the first are planned -> check the number of replicas"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes := read(t, c.text)
			if diff := cmp.Diff(c.want, say(notes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The API server refuses the template where it can, and the pods otherwise.
func TestWhoIsRefused(t *testing.T) {
	half := strings.Replace(forever, "image: i", "image: i, resources: {limits: {nvidia.com/gpu: 500m}}", 1)
	r, notes := read(t, workload("Deployment", "d", half))
	want := []string{`spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer`}
	if diff := cmp.Diff(want, words(only(t, r).Spec)); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if len(notes) != 1 || notes[0].Place.Line != 7 || notes[0].Fix == "" {
		t.Errorf("notes: %q", say(notes))
	}
	limits := "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, min: {nvidia.com/gpu: 1}}]}\n"
	r, _ = read(t, limits+workload("Deployment", "d", forever))
	want = []string{"spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"}
	if diff := cmp.Diff(want, words(only(t, r).Spec)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestBoundPods(t *testing.T) {
	bound := strings.Replace(owned("p", "ReplicaSet", "r", ""), "spec: {", "spec: {nodeName: n1, ", 1)
	node := func(name string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: 4}}\n", name)
	}
	for name, c := range map[string]struct {
		text string
		node string
		pods int
		code string
	}{
		"on a node of the input":                       {bound + node("n1"), "n1", 1, ""},
		"without any node it is planned anew":          {bound, "", 1, "no-nodes"},
		"on a node that is missing it is out of reach": {bound + node("n2"), "", 0, "unknown-node"},
		"one that is being deleted keeps its place":    {strings.Replace(bound, "  uid:", "  deletionTimestamp: \"2026-01-01T00:00:00Z\"\n  uid:", 1) + node("n1"), "n1", 1, "terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			r, notes := read(t, c.text)
			if len(r.Pods) != c.pods || c.pods > 0 && r.Pods[0].Node != c.node {
				t.Errorf("pods: %+v", r.Pods)
			}
			if c.code != "" && len(with(notes, c.code)) != 1 || c.code == "" && len(notes) > 0 {
				t.Errorf("notes: %q", say(notes))
			}
		})
	}
}

func TestALivePodWithoutTheTolerationSpeaksAgainstThePlugin(t *testing.T) {
	p := strings.Replace(owned("p", "ReplicaSet", "r", ""), "image: i", "image: i, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}", 1)
	r, notes := read(t, p)
	if len(with(notes, "no-extended-toleration")) != 1 {
		t.Errorf("notes: %q", say(notes))
	}
	if tolerations := only(t, r).Spec.Tolerations; len(tolerations) != 0 {
		t.Errorf("a pod that exists was given tolerations: %v", tolerations)
	}
	_, notes = Read(parse(t, p), Options{NoExtendedResourceToleration: true})
	if len(notes) != 0 {
		t.Errorf("notes: %q", say(notes))
	}
}
