package world

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// A Clock is the time of a controller: the real one, on which it can be moved
// ahead, so that a deadline of a quarter of an hour need not be waited for.
type Clock struct {
	clock.RealClock
	hurry float64 // waits are so many times shorter
	ahead atomic.Int64
}

// Ahead moves the clock.
func (c *Clock) Ahead(d time.Duration) { c.ahead.Add(int64(d)) }

// Now is the real time, and what the clock is ahead of it.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Since is by this clock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After waits for a part of d: Karpenter (v1.15) looks 15 seconds later whether
// a node is still empty, and asks the clock for them.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	return time.After(time.Duration(float64(d) / c.hurry))
}
