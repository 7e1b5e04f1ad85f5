package intake

import (
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

const guardedPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: greedy, namespace: team-a}
spec:
  replicas: 2
  selector: {matchLabels: {app: greedy}}
  template:
    metadata: {labels: {app: greedy}}
    spec:
      containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: honest, namespace: team-a}
spec:
  containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
`

const guardBinding = `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kerf-guard-pods-deny}
spec: {policyName: kerf-guard-pods-deny, validationActions: [Deny]}
`

func TestPodsThatTheGuardRefusesAreNotPlannedFor(t *testing.T) {
	tests := map[string]struct {
		mode    GuardMode
		in      string
		refused int
		noted   bool
	}{
		"nothing shows that the guard is enforced": {GuardAuto, guardedPods, 0, true},
		"the input enforces it":                    {GuardAuto, guardedPods + guardBinding, 2, false},
		"asked for":                                {GuardOn, guardedPods, 2, false},
		"asked not to":                             {GuardOff, guardedPods + guardBinding, 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := Load([]source.File{{Name: "in.yaml", Data: []byte(tc.in)}}, Options{Guard: tc.mode})
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for _, p := range l.Snapshot.Pods {
				for _, v := range p.Spec.Refused {
					if v.Code == model.CodeGuard {
						refused++
					}
					if p.Owner == "" {
						t.Errorf("the honest pod is refused: %+v", v)
					}
				}
			}
			if refused != tc.refused {
				t.Errorf("%d pods are refused, want %d", refused, tc.refused)
			}
			noted := false
			for _, n := range l.Notes {
				noted = noted || (n.Code == "guard" && strings.Contains(n.Text, "would refuse 2 pods"))
			}
			if noted != tc.noted {
				t.Errorf("noted: %v, want %v: %+v", noted, tc.noted, l.Notes)
			}
		})
	}
}
