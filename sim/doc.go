// Package sim shows what limits do to traffic, on a virtual clock.
//
//	Preset ─▶ arrivals, in order of time ─▶ Limiter on a clock that is set ─▶ Row
//
// Nothing here is a model of the engine: every arrival is decided by a
// weir.Limiter over the memory store, whose clock is the arrival's instant, so a
// picture can be trusted to be what production would have answered. The run
// begins at an instant that is a whole number of periods since the Unix epoch,
// which is where aligned windows begin; two runs of a preset are equal.
//
// Some presets put others beside the engine: the same traffic through a counter
// that is read and then raised, a script that believes its clients' clocks,
// instances that borrow or share nothing, a store that goes away.
package sim

import (
	"sync/atomic"
	"time"
)

// Clock is a virtual clock. It is safe for concurrent use, but only one
// goroutine can know what it reads.
type Clock struct{ us atomic.Int64 }

// NewClock returns a clock that stands at the first whole number of periods
// since the Unix epoch from 2026 on.
func NewClock(period time.Duration) *Clock {
	const from = 1_767_225_600_000_000 // 2026-01-01
	c := new(Clock)
	p := max(1, period.Microseconds())
	c.us.Store((from + p - 1) / p * p)
	return c
}

// Now returns microseconds since the Unix epoch.
func (c *Clock) Now() int64 { return c.us.Load() }

// Set moves the clock, back as well as forward.
func (c *Clock) Set(us int64) { c.us.Store(us) }
