package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
)

// A word is what a pod that goes nowhere is told.
type word struct {
	pod  *corev1.Pod
	text string
}

// longest is how long an event's message may be (Kubernetes 1.37).
const longest = 1024

// refusals puts into words why pods go nowhere: pool by pool, then what would
// help.
func refusals(v *view, list []model.Refusal, restock time.Time) []word {
	var out []word
	for _, c := range explain.Group(v.snapshot, lasting(list)) {
		text := sentence(c)
		if !restock.IsZero() && v.wares.gone > 0 {
			text += fmt.Sprintf("; %d offerings are out of stock and are tried again from %s", v.wares.gone, restock.UTC().Format("15:04 MST"))
		}
		for _, o := range c.Owners {
			for _, i := range o.Pods {
				out = append(out, word{v.objects[i], cut(text)})
			}
		}
	}
	return out
}

// lasting is what is said of refusals: nothing of pods for which somebody else
// is to be waited for, and of nodes, which come and go, only where no pool
// refuses the pod.
func lasting(list []model.Refusal) []model.Refusal {
	var out []model.Refusal
	for _, r := range list {
		if slices.ContainsFunc(r.Verdicts, func(v model.Verdict) bool { return v.Code == model.CodeGated || v.Code == model.CodeScheduler }) {
			continue
		}
		ofPools := slices.DeleteFunc(slices.Clone(r.Verdicts), func(v model.Verdict) bool { return v.Node != "" })
		if len(ofPools) > 0 {
			r.Verdicts = ofPools
		}
		out = append(out, r)
	}
	return out
}

// sentence is one line: "gpu: why -> what to do; cpu: ...". Reasons without a
// pool hold everywhere.
func sentence(c explain.Cause) string {
	var parts []string
	for _, r := range c.Reasons {
		where := strings.Join(append(append([]string{}, r.Pools...), prefixed("node ", r.Nodes)...), ", ")
		part := r.Text
		if where != "" {
			part = where + ": " + part
		}
		if len(r.Fixes) > 0 {
			part += " -> " + strings.Join(r.Fixes, ", or ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func prefixed(prefix string, names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest-4], "") + " ..."
}

// An announcer keeps one event on every pod that goes nowhere. It writes only
// when the text changes, or when the event is about to be forgotten by the API
// server, which keeps events for an hour.
type announcer struct {
	client client.Client
	clock  clock.Clock
	pace   flowcontrol.RateLimiter
	settle time.Duration // how long a text must hold before it is told

	mu    sync.Mutex
	want  map[types.UID]wish
	told  map[types.UID]telling
	ready chan struct{}
}

// A wish is what a pod is to be told, and since when.
type wish struct {
	word
	since time.Time
}

type telling struct {
	text string
	at   time.Time
}

const (
	speaker     = "kerf-controller"
	notPlaced   = "FailedScheduling"
	forgotten   = 50 * time.Minute
	perSecond   = 50
	eventSuffix = ".kerf"
	settling    = 2 * time.Second // pools that have just been applied are ready after that
)

func newAnnouncer(c client.Client, clk clock.Clock) *announcer {
	return &announcer{
		client: c, clock: clk, pace: flowcontrol.NewTokenBucketRateLimiter(perSecond, 4*perSecond), settle: settling,
		want: map[types.UID]wish{}, told: map[types.UID]telling{}, ready: make(chan struct{}, 1),
	}
}

// keep says which pods go nowhere now; of others nothing more is said.
func (a *announcer) keep(words []word) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, now := a.want, a.clock.Now()
	a.want = make(map[types.UID]wish, len(words))
	for _, w := range words {
		since := now
		if b, ok := before[w.pod.UID]; ok && b.text == w.text {
			since = b.since
		}
		a.want[w.pod.UID] = wish{w, since}
	}
	for uid := range a.told {
		if _, still := a.want[uid]; !still {
			delete(a.told, uid)
		}
	}
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// Run writes events until ctx is done.
func (a *announcer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.ready:
		}
		select {
		case <-ctx.Done():
			return
		case <-a.clock.After(a.settle):
		}
		for w, ok := a.next(); ok; w, ok = a.next() {
			if err := a.pace.Wait(ctx); err != nil {
				return
			}
			if err := a.write(ctx, w); err != nil {
				log.FromContext(ctx).V(1).Info("an event was not written", "pod", keyOf(w.pod), "error", err.Error())
			}
		}
	}
}

// next takes a pod that is to be told something new.
func (a *announcer) next() (word, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for uid, w := range a.want {
		if t, ok := a.told[uid]; now.Sub(w.since) < a.settle || ok && t.text == w.text && now.Sub(t.at) < forgotten {
			continue
		}
		a.told[uid] = telling{w.text, now}
		return w.word, true
	}
	return word{}, false
}

// write creates the pod's event, or changes the one that is there.
func (a *announcer) write(ctx context.Context, w word) error {
	now := metav1.NewTime(a.clock.Now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: eventName(w.pod)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: w.pod.Namespace, Name: w.pod.Name, UID: w.pod.UID, ResourceVersion: w.pod.ResourceVersion,
		},
		Reason: notPlaced, Message: w.text, Type: corev1.EventTypeWarning, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: speaker}, ReportingController: speaker,
	}
	err := a.client.Create(ctx, event)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	var have corev1.Event
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(event), &have); err != nil {
		return err
	}
	if have.Message == w.text && now.Sub(have.LastTimestamp.Time) < forgotten {
		return nil // said before this process began
	}
	changed := have.DeepCopy()
	changed.Message, changed.LastTimestamp, changed.Count = w.text, now, have.Count+1
	return a.client.Patch(ctx, changed, client.MergeFrom(&have))
}

// eventName is the name of the one event of a pod: of another pod of the same
// name it is another one.
func eventName(p *corev1.Pod) string {
	uid := strings.ReplaceAll(string(p.UID), "-", "")
	return p.Name[:min(len(p.Name), 200)] + eventSuffix + uid[:min(len(uid), 16)]
}
