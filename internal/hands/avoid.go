package hands

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// How long a pool's type is left alone after its GPUs failed to come up: the
// first time, and at most, doubling between.
const (
	firstAvoid = 5 * time.Minute
	mostAvoid  = time.Hour
)

// Avoid remembers where nodes were bought in vain. It may be used from several
// goroutines. It forgets when the process ends: the first node after a restart
// tries again.
type Avoid struct {
	clock clock.Clock

	mu    sync.Mutex
	marks map[where]*mark
}

// where is a pool and an instance type; type "" is the whole pool.
type where struct{ pool, kind string }

type mark struct {
	since time.Time // of the failure that was counted last
	until time.Time
	times int // in a row
	cause string
}

// An Avoided is a pool's type that is not to be bought now.
type Avoided struct {
	Pool  string
	Type  string // "" = every type with GPUs
	Until time.Time
	Cause string
}

// NewAvoid returns an empty memory.
func NewAvoid(c clock.Clock) *Avoid { return &Avoid{clock: c, marks: map[where]*mark{}} }

// Failed remembers a failure of a node that was bought at a time: type "" when
// the whole pool would fail alike. It returns until when it counts: 5 minutes
// after the first try, doubling to an hour with each further one. Nodes that
// were bought before the last try was known to have failed belong to that try,
// however many they are.
func (a *Avoid) Failed(pool, kind, cause string, bought time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	m := a.marks[where{pool, kind}]
	if m == nil {
		m = &mark{}
		a.marks[where{pool, kind}] = m
	}
	if m.times == 0 || !bought.Before(m.since) {
		m.times++
		m.since = now
	}
	d := firstAvoid << min(m.times-1, 10)
	m.cause, m.until = cause, now.Add(min(d, mostAvoid))
	return m.until
}

// Succeeded forgets a pool's type, and its pool: nodes come up there.
func (a *Avoid) Succeeded(pool, kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.marks, where{pool, kind})
	delete(a.marks, where{pool, ""})
}

// Forgive lets everything be tried again, since the installation has changed.
func (a *Avoid) Forgive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.marks)
}

// Of reports whether a pool's type is not to be bought now.
func (a *Avoid) Of(pool, kind string) (Avoided, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range []where{{pool, ""}, {pool, kind}} {
		if m := a.marks[w]; m != nil && a.clock.Now().Before(m.until) {
			return Avoided{w.pool, w.kind, m.until, m.cause}, true
		}
	}
	return Avoided{}, false
}

// List returns what is not to be bought now, by pool and type.
func (a *Avoid) List() []Avoided {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Avoided
	for w, m := range a.marks {
		if a.clock.Now().Before(m.until) {
			out = append(out, Avoided{w.pool, w.kind, m.until, m.cause})
		}
	}
	slices.SortFunc(out, func(x, y Avoided) int {
		return cmp.Or(strings.Compare(x.Pool, y.Pool), strings.Compare(x.Type, y.Type))
	})
	return out
}
