package hands

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

var agent = corev1.Taint{Key: "example.com/agent", Value: "starting", Effect: corev1.TaintEffectNoSchedule}

func TestWhichTaintsAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		taint    corev1.Taint
		declared []corev1.Taint
		age      time.Duration
		want     bool
	}{
		"one that a tool puts on fresh nodes":      {taint: agent, want: true},
		"one that evicts":                          {taint: corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}, want: true},
		"one that the pool declares":               {taint: agent, declared: []corev1.Taint{{Key: agent.Key, Value: "other", Effect: agent.Effect}}},
		"one that only prefers":                    {taint: corev1.Taint{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}},
		"a cordon":                                 {taint: corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}},
		"karpenter's own":                          {taint: karpenter.DisruptedNoScheduleTaint},
		"one of the node readiness controller":     {taint: corev1.Taint{Key: "readiness.k8s.io/network", Effect: corev1.TaintEffectNoSchedule}},
		"a spot interruption":                      {taint: cloud.InterruptionTaint},
		"one on a node that is not fresh any more": {taint: agent, age: DefaultDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, four(), node(nil, c.taint))
			w.clock.Step(c.age)
			h := Hands{holder: w.watcher.holder}
			var n corev1.Node
			if err := w.client.Get(w.ctx, client.ObjectKey{Name: "a"}, &n); err != nil {
				t.Fatal(err)
			}
			var want []corev1.Taint
			if c.want {
				want = []corev1.Taint{c.taint}
			}
			if d := cmp.Diff(want, h.Held(&n, c.declared)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAnUndeclaredTaintIsExplained(t *testing.T) {
	up := map[corev1.ResourceName]int64{model.NvidiaGPU: 4}
	w := newWorld(t, installed(), initialized(claim()), node(up, agent), plugin(nil))
	if wait := w.look(); wait != DefaultDeadline {
		t.Errorf("it is looked at again in %s, want when the node is not fresh any more", wait)
	}
	said := strings.Join(w.events.about("UndeclaredTaint"), "\n")
	for _, text := range []string{"example.com/agent=starting:NoSchedule", "pool gpu", "startupTaints"} {
		if !strings.Contains(said, text) {
			t.Errorf("the event does not say %q: %s", text, said)
		}
	}
	if is, reason := w.condition(ConditionTaints); is != "False" || reason != "UndeclaredTaint" {
		t.Errorf("the condition is %s, %s", is, reason)
	}
	if _, avoided := w.watcher.avoid.Of("gpu", "g5.xlarge"); avoided {
		t.Error("the pool is avoided while its node is held")
	}

	t.Run("until it goes", func(t *testing.T) {
		var n corev1.Node
		if err := w.client.Get(w.ctx, client.ObjectKey{Name: "a"}, &n); err != nil {
			t.Fatal(err)
		}
		n.Spec.Taints = nil
		if err := w.client.Update(w.ctx, &n); err != nil {
			t.Fatal(err)
		}
		w.look()
		if is, _ := w.condition(ConditionTaints); is != "True" {
			t.Errorf("the taint is gone, and the condition is %s", is)
		}
	})
}

func TestAnUndeclaredTaintThatStays(t *testing.T) {
	up := map[corev1.ResourceName]int64{model.NvidiaGPU: 4}
	w := newWorld(t, installed(), initialized(claim()), node(up, agent), plugin(nil))
	w.look()
	w.clock.Step(DefaultDeadline)
	w.look()
	if _, reason := w.condition(ConditionTaints); reason != "UndeclaredTaintStays" {
		t.Errorf("the reason is %s", reason)
	}
	first, avoided := w.watcher.avoid.Of("gpu", "g5.xlarge")
	if !avoided {
		t.Fatal("nodes for the same pods would get the taint too, and the pool is not avoided")
	}
	w.clock.Step(time.Minute)
	w.look()
	if again, _ := w.watcher.avoid.Of("gpu", "g5.xlarge"); !again.Until.Equal(first.Until) {
		t.Error("one node counts as several failures")
	}
}

func TestAvoid(t *testing.T) {
	w := newWorld(t, four())
	a := w.watcher.avoid
	var waits []time.Duration
	for range 6 {
		waits = append(waits, a.Failed("gpu", "g5.xlarge", "no GPUs", w.clock.Now()).Sub(w.clock.Now()))
	}
	minutes := func(all ...int) (out []time.Duration) {
		for _, m := range all {
			out = append(out, time.Duration(m)*time.Minute)
		}
		return out
	}
	if d := cmp.Diff(minutes(5, 10, 20, 40, 60, 60), waits); d != "" {
		t.Errorf("back-off: %s", d)
	}
	a.Failed("other", "", "the plugin does not run there", w.clock.Now())
	want := []Avoided{
		{Pool: "gpu", Type: "g5.xlarge", Until: start.Add(time.Hour), Cause: "no GPUs"},
		{Pool: "other", Until: start.Add(5 * time.Minute), Cause: "the plugin does not run there"},
	}
	if d := cmp.Diff(want, a.List()); d != "" {
		t.Error(d)
	}
	if _, is := a.Of("gpu", "g4dn.xlarge"); is {
		t.Error("another type of the pool is avoided")
	}
	w.clock.Step(time.Hour)
	if got := a.List(); len(got) != 0 {
		t.Errorf("after their time there are left %v", got)
	}
}

// A pool's first nodes are bought together, and fail together.
func TestNodesBoughtTogetherAreOneTry(t *testing.T) {
	w := newWorld(t, four())
	a, bought := w.watcher.avoid, w.clock.Now()
	w.clock.Step(10 * time.Minute)
	for range 3 {
		a.Failed("gpu", "g5.xlarge", "no GPUs", bought)
	}
	w.clock.Step(time.Minute)
	late := a.Failed("gpu", "g5.xlarge", "no GPUs", bought.Add(9*time.Minute))
	if d := late.Sub(w.clock.Now()); d != 5*time.Minute {
		t.Errorf("four nodes that were bought before the first failed are avoided for %s, want 5m0s", d)
	}
	again := late.Add(time.Second)
	w.clock.SetTime(again.Add(10 * time.Minute))
	if d := a.Failed("gpu", "g5.xlarge", "no GPUs", again).Sub(w.clock.Now()); d != 10*time.Minute {
		t.Errorf("after the next try the type is avoided for %s, want 10m0s", d)
	}
}
