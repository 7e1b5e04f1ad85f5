package controller

import (
	"time"

	"k8s.io/utils/clock"
)

// A stopwatch says how long each step of a decision took.
type stopwatch struct {
	clock       clock.Clock
	begin, last time.Time
	laps        []any // for a logger: the steps in their order, each with its time
}

func newStopwatch(c clock.Clock) *stopwatch {
	now := c.Now()
	return &stopwatch{clock: c, begin: now, last: now}
}

// lap ends a step and returns how long it took.
func (s *stopwatch) lap(step string) time.Duration {
	now := s.clock.Now()
	took := now.Sub(s.last)
	s.last = now
	s.laps = append(s.laps, step, took.Round(100*time.Microsecond).String())
	return took
}

// total is the time from the beginning to the end of the last step.
func (s *stopwatch) total() time.Duration { return s.last.Sub(s.begin) }
