package headers

import (
	"sync"
	"time"
)

// longestHold is how long a destination is taken at its word before it is asked
// again. Whoever names more, a time since 1970 in place of a wait perhaps, would
// else be unheard until this process ends.
const longestHold = 24 * time.Hour

// mostHolds bounds how many destinations are remembered: a client of many hosts,
// a crawler, must not remember each for ever.
const mostHolds = 1024

// Holds remembers until when each destination asked for quiet, such as by what
// Hold reads. The zero value remembers none. It is safe for concurrent use, and
// remembers a bounded number.
type Holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Add notes that to asked at now for quiet: a day of it at most, whatever was asked
// for, and none, or less, is no request. A shorter quiet does not end a longer one:
// answers arrive in any order. Past the bound, what is over is forgotten,
// and if nothing is, what ends first.
func (h *Holds) Add(to string, now time.Time, quiet time.Duration) {
	if quiet <= 0 {
		return
	}
	end := now.Add(min(quiet, longestHold))
	h.mu.Lock()
	defer h.mu.Unlock()
	if end.Before(h.until[to]) {
		return
	}
	if _, known := h.until[to]; !known && len(h.until) >= mostHolds {
		h.forget(now)
	}
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	h.until[to] = end
}

// forget makes room. The caller holds mu.
func (h *Holds) forget(now time.Time) {
	first, end := "", time.Time{}
	for to, until := range h.until {
		if !until.After(now) {
			delete(h.until, to)
		} else if end.IsZero() || until.Before(end) {
			first, end = to, until
		}
	}
	if len(h.until) >= mostHolds {
		delete(h.until, first)
	}
}

// Left returns how long to's quiet still lasts.
func (h *Holds) Left(to string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[to]
	if !ok {
		return 0
	}
	if !until.After(now) {
		delete(h.until, to)
		return 0
	}
	return until.Sub(now)
}
