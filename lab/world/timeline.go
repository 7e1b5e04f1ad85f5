package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/hands"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// A Timeline is what has happened in a world: a line for each step in the life
// of NodeClaims, nodes and pods, and for each event that Kerf or Karpenter's
// library wrote.
type Timeline struct {
	start time.Time
	line  func(string)
	terse bool

	mu    sync.Mutex
	lines []string
	last  map[string]string // what was last said of an object
}

func newTimeline(c Config) *Timeline {
	return &Timeline{start: time.Now(), line: c.Line, terse: c.Terse, last: map[string]string{}}
}

// Note adds a line of one's own.
func (t *Timeline) Note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(fmt.Sprintf(format, args...))
}

// Lines returns what was written so far.
func (t *Timeline) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// add writes a line. The caller holds the lock.
func (t *Timeline) add(text string) {
	line := fmt.Sprintf("%7.2fs  %s", time.Since(t.start).Seconds(), text)
	t.lines = append(t.lines, line)
	if t.line != nil {
		t.line(line)
	}
}

// say writes how an object is, if that differs from what was last said of it.
func (t *Timeline) say(key, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[key] == text {
		return
	}
	t.last[key] = text
	t.add(key + "  " + text)
}

// forget says the last word on an object.
func (t *Timeline) forget(key, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, key)
	t.add(key + "  " + text)
}

// follow has the timeline written from a cache.
func (t *Timeline) follow(ctx context.Context, c cache.Cache) error {
	for _, o := range []client.Object{&karpenter.NodeClaim{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Event{}} {
		informer, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("follow %T: %w", o, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: t.seen, UpdateFunc: func(_, now any) { t.seen(now) }, DeleteFunc: t.gone,
		})
		if err != nil {
			return fmt.Errorf("follow %T: %w", o, err)
		}
	}
	return nil
}

func (t *Timeline) seen(o any) {
	switch v := o.(type) {
	case *karpenter.NodeClaim:
		t.say("nodeclaim "+v.Name, claimText(v))
	case *corev1.Node:
		t.say("node      "+v.Name, nodeText(v))
	case *corev1.Pod:
		if !t.terse {
			t.say("pod       "+v.Name, podText(v))
		}
	case *corev1.Event:
		t.event(v)
	}
}

func (t *Timeline) gone(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	switch v := o.(type) {
	case *karpenter.NodeClaim:
		t.forget("nodeclaim "+v.Name, "gone")
	case *corev1.Node:
		t.forget("node      "+v.Name, "gone")
	case *corev1.Pod:
		if !t.terse {
			t.forget("pod       "+v.Name, "gone")
		}
	}
}

// event writes down what Kerf or Karpenter's library says of the objects.
func (t *Timeline) event(e *corev1.Event) {
	from := cmp.Or(e.Source.Component, e.ReportingController)
	if !strings.HasPrefix(from, "kerf") && from != "karpenter" || e.LastTimestamp.Time.Before(t.start.Truncate(time.Second)) {
		return
	}
	if t.terse && e.InvolvedObject.Kind == "Pod" && e.Type == corev1.EventTypeNormal {
		return
	}
	t.say("event     "+strings.ToLower(e.InvolvedObject.Kind)+" "+e.InvolvedObject.Name, e.Reason+": "+e.Message)
}

func claimText(c *karpenter.NodeClaim) string {
	if !c.DeletionTimestamp.IsZero() {
		return "leaving"
	}
	var parts []string
	for _, kind := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
		if condition := c.StatusConditions().Get(kind); condition.IsTrue() {
			parts = []string{strings.ToLower(kind)}
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("ordered for %d pods: %s", strings.Count(c.Annotations[nodepool.AnnotationPods], "/"), typesOf(c))
	}
	parts = append(parts, c.Labels[model.LabelInstanceType], c.Labels[model.LabelCapacityType], c.Labels[model.LabelZone])
	if g := c.StatusConditions().Get(hands.ConditionGPUs); g != nil && g.IsFalse() {
		parts = append(parts, g.Reason)
	}
	return strings.Join(parts, " ")
}

// typesOf are the first of the types that a claim may become.
func typesOf(c *karpenter.NodeClaim) string {
	for i := range c.Spec.Requirements {
		r := &c.Spec.Requirements[i]
		if r.Key != model.LabelInstanceType {
			continue
		}
		if more := len(r.Values) - 3; more > 0 {
			return fmt.Sprintf("%s and %d more", strings.Join(r.Values[:3], ", "), more)
		}
		return strings.Join(r.Values, ", ")
	}
	return "any type"
}

func nodeText(n *corev1.Node) string {
	parts := []string{"not ready"}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			parts[0] = "ready"
		}
	}
	gpus := map[string]int64{}
	for name, q := range n.Status.Allocatable {
		if cloud.Shareable(name) && !q.IsZero() {
			gpus[string(name)] = q.Value()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gpus)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, gpus[name]))
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == karpenter.DisruptedTaintKey || taint.Key == cloud.InterruptionTaint.Key {
			parts = append(parts, "draining")
			break
		}
	}
	if !n.DeletionTimestamp.IsZero() {
		parts = append(parts, "leaving")
	}
	return strings.Join(parts, " ")
}

func podText(p *corev1.Pod) string {
	text := strings.ToLower(string(p.Status.Phase))
	if p.Spec.NodeName != "" {
		text += " on " + p.Spec.NodeName
	}
	if !p.DeletionTimestamp.IsZero() {
		text += ", leaving"
	}
	if p.Status.Reason != "" {
		text += " (" + p.Status.Reason + ")"
	}
	return text
}
