package nvml

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Recorded is a Library that plays an inventory. It answers at once and never
// fails, until it is told to.
type Recorded struct {
	mu       sync.Mutex
	inv      Inventory
	lost     map[string]bool
	deaf     map[string]error // no events of these GPUs, and why
	recovery map[string]Recovery
	slow     time.Duration
	broken   error
	closed   bool
	watching map[*queue]bool
	made     int // instances, for their UUIDs
}

var _ Library = (*Recorded)(nil)

// NewRecorded returns a library that plays inv.
func NewRecorded(inv Inventory) *Recorded {
	return &Recorded{
		inv: inv.clone(), lost: map[string]bool{}, deaf: map[string]error{}, recovery: map[string]Recovery{}, watching: map[*queue]bool{},
	}
}

// Inventory returns the inventory, without what was lost.
func (r *Recorded) Inventory(ctx context.Context) (Inventory, error) {
	if err := r.call(ctx); err != nil {
		return Inventory{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.inv.clone()
	out.Links = nil
	out.GPUs = slices.DeleteFunc(out.GPUs, func(g GPU) bool { return r.lost[g.UUID] })
	for _, g := range r.inv.GPUs {
		if r.lost[g.UUID] {
			out.Unreadable = append(out.Unreadable, Unreadable{Index: g.Index, UUID: g.UUID, Why: ErrLost.Error()})
		}
	}
	return out, nil
}

// Links returns the recorded links between GPUs that were not lost. With slow
// calls each pair takes its time, as with a driver.
func (r *Recorded) Links(ctx context.Context) ([]Link, error) {
	if err := r.call(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	lost := map[int]bool{}
	for _, g := range r.inv.GPUs {
		lost[g.Index] = r.lost[g.UUID]
	}
	links := slices.Clone(r.inv.Links)
	r.mu.Unlock()
	var out []Link
	for _, l := range links {
		if lost[l.A] || lost[l.B] {
			continue
		}
		if err := r.call(ctx); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Probe answers for a GPU that was not lost.
func (r *Recorded) Probe(ctx context.Context, uuid string) (Probe, error) {
	if err := r.call(ctx); err != nil {
		return Probe{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := slices.ContainsFunc(r.inv.GPUs, func(g GPU) bool { return g.UUID == uuid })
	if r.lost[uuid] || !known {
		return Probe{}, fmt.Errorf("probe %s: %w", uuid, ErrLost)
	}
	return Probe{Recovery: r.recovery[uuid]}, nil
}

// Watch delivers the events that are sent from now on.
func (r *Recorded) Watch(ctx context.Context) (Events, error) {
	if err := r.call(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &queue{library: r, more: make(chan struct{}, 1), unwatched: map[string]error{}}
	for _, g := range r.inv.GPUs {
		switch {
		case r.lost[g.UUID]:
			q.unwatched[g.UUID] = ErrLost
		case r.deaf[g.UUID] != nil:
			q.unwatched[g.UUID] = r.deaf[g.UUID]
		}
	}
	r.watching[q] = true
	return q, nil
}

// Close makes every later call fail with ErrClosed.
func (r *Recorded) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.fail(ErrClosed)
	return nil
}

// call is what every call to a driver does first: take its time, and fail when
// the driver is broken.
func (r *Recorded) call(ctx context.Context) error {
	r.mu.Lock()
	slow := r.slow
	r.mu.Unlock()
	if slow > 0 {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	return r.broken
}

// fail ends the delivery of all events; the lock is held.
func (r *Recorded) fail(err error) {
	for q := range r.watching {
		q.end(err)
		delete(r.watching, q)
	}
}

// A queue is one delivery of events; the library's lock guards it.
type queue struct {
	library   *Recorded
	events    []Event
	err       error
	more      chan struct{} // holds a token when there may be something new
	unwatched map[string]error
}

func (q *queue) Next(ctx context.Context) (Event, error) {
	for {
		q.library.mu.Lock()
		events, err := q.events, q.err
		if len(events) > 0 {
			q.events = events[1:]
		}
		q.library.mu.Unlock()
		switch {
		case len(events) > 0:
			return events[0], nil
		case err != nil:
			return Event{}, err
		}
		select {
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-q.more:
		}
	}
}

func (q *queue) Unwatched() map[string]error { return q.unwatched }

func (q *queue) Close() error {
	q.library.mu.Lock()
	defer q.library.mu.Unlock()
	delete(q.library.watching, q)
	q.end(ErrClosed)
	return nil
}

// end stops the delivery; the lock is held.
func (q *queue) end(err error) {
	if q.err == nil {
		q.err = err
	}
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}
