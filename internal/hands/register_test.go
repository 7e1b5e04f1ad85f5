package hands

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnInstanceThatDoesNotBecomeANodeIsNamed(t *testing.T) {
	late := claim()
	late.Status.NodeName = ""
	late.Status.Conditions[1].Status = metav1.ConditionUnknown
	w := newWorld(t, four(), late)
	if wait := w.look(); wait != slowStart {
		t.Errorf("it is looked at again after %v; want %v", wait, slowStart)
	}
	if said := w.events.about("NotRegistered"); len(said) > 0 {
		t.Errorf("too early: %q", said)
	}
	w.clock.Step(slowStart + time.Second)
	w.look()
	said := w.events.about("NotRegistered")
	if len(said) != 1 || !strings.Contains(said[0], "no node has registered 5m0s after instance sim:///us-east-1a/i-a was launched") {
		t.Errorf("said %q", said)
	}
}
