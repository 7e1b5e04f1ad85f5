package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kerfdev/kerf/internal/discovery"
)

// tellTimeout bounds one call to the API server.
const tellTimeout = 10 * time.Second

// An API is how the agent tells the cluster about its node; a
// *discovery.Client is one.
type API interface {
	SetCondition(ctx context.Context, to discovery.Condition) error
	SendEvent(ctx context.Context, e discovery.Event) error
	ApplyLabels(ctx context.Context, labels map[string]string) error
}

// condition sets a condition of the node, and reports whether it says something
// else than before. What cannot be told is logged and told later: no GPU waits
// for an API server.
func (a *agent) condition(ctx context.Context, c discovery.Condition) (changed bool) {
	a.mu.Lock()
	changed = a.reported[c.Type] != c
	a.reported[c.Type] = c
	a.mu.Unlock()
	if changed && a.API != nil && !a.set(ctx, c) {
		a.changed() // so that the loop comes to untold
	}
	return changed
}

// set sets a condition, or remembers that it could not be set.
func (a *agent) set(ctx context.Context, c discovery.Condition) bool {
	limited, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := a.API.SetCondition(limited, c)
	if err != nil && ctx.Err() == nil {
		a.Log.Warn("node condition not set", "type", c.Type, "error", err, "retry", retryConfig)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.late[c.Type] = true; err == nil {
		delete(a.late, c.Type)
	}
	return err == nil
}

// untold tells what could not be told before, and reports whether some of it
// is still to be told.
func (a *agent) untold(ctx context.Context) bool {
	a.mu.Lock()
	var late []discovery.Condition
	for _, kind := range slices.Sorted(maps.Keys(a.late)) {
		late = append(late, a.reported[kind])
	}
	a.mu.Unlock()
	for _, c := range late {
		a.set(ctx, c)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.late) > 0
}

// event records an event of the node.
func (a *agent) event(ctx context.Context, e discovery.Event) {
	if a.API == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err := a.API.SendEvent(limited, e); err != nil && ctx.Err() == nil {
		a.Log.Warn("event not sent", "reason", e.Reason, "error", err)
	}
}
