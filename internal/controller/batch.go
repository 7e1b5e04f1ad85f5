package controller

import (
	"context"
	"time"
)

// A batch gathers what happens to a cluster into one decision: it ends when
// nothing has happened for idle, or longest after the first event.
type batch struct {
	idle, longest time.Duration
	events        chan struct{}
}

func newBatch(idle, longest time.Duration) *batch {
	return &batch{idle: idle, longest: longest, events: make(chan struct{}, 1)}
}

// Trigger says that something happened. It never blocks.
func (b *batch) Trigger() {
	select {
	case b.events <- struct{}{}:
	default: // one is waiting already
	}
}

// Wait returns when a batch has ended, or after quiet without any event. It
// returns false when ctx is done.
func (b *batch) Wait(ctx context.Context, quiet time.Duration) bool {
	first := time.NewTimer(quiet)
	defer first.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-first.C:
		return true
	case <-b.events:
	}
	end := time.NewTimer(b.longest)
	defer end.Stop()
	pause := time.NewTimer(b.idle)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return true
		case <-pause.C:
			return true
		case <-b.events:
			pause.Reset(b.idle)
		}
	}
}
