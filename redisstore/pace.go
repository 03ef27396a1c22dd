package redisstore

import (
	"context"
	"sync"
	"time"
)

// A server runs nothing else while a script runs, so no flight may keep it for
// more than a millisecond. What a bill costs there differs by a factor of fifty:
// the server's speed, the algorithm, how many entries a log has. So it is
// measured and the weight of flights follows:
//
//	every quarter second in use ─▶ INFO: calls and µs of scripts since last time
//	    µs a call ÷ our weight a flight = µs a unit of weight ─▶ weight for 1 ms
//
// Our own round trip is no measure: it holds the network and our own scheduler,
// and to send less at a time because this process is busy would make it busier.
// Scripts of others on the same server are in the average; they move the weight
// within its bounds.

const (
	maxWeight  = 128 // of a flight
	minWeight  = 16
	scriptTime = 1000 // µs that a flight may take
	paceEvery  = 250 * time.Millisecond
	paceLeast  = 32 // flights that say something
)

// pace measures what flights cost. It is safe for concurrent use; its lock is
// not held while the server is asked.
type pace struct {
	mu              sync.Mutex
	asked           time.Time
	asking          bool
	flights, weight int64 // since asked
	calls, us       int64 // of the server's scripts, when last asked
	limit           int
}

// weighs returns the weight that flights may have.
func (p *pace) weighs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		return maxWeight
	}
	return p.limit
}

// flown takes note of a flight, and reports whether the caller is to ask the
// server and tell learned.
func (p *pace) flown(requests []*request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flights++
	for _, r := range requests {
		p.weight += int64(r.weight + (r.seats-1)/8) // as the queue weighs seats
	}
	if p.asking || p.flights < paceLeast || time.Since(p.asked) < paceEvery {
		return false
	}
	p.asking = true
	return true
}

// learned takes the server's figures and returns the weight that flights may
// have from now on. Without figures it stays as it is.
func (p *pace) learned(calls, us int64, ok bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		p.limit = maxWeight
	}
	if n := calls - p.calls; ok && p.flights > 0 && p.calls > 0 && n > 0 && us >= p.us {
		p.limit = pacedWeight(p.limit, float64(us-p.us)/float64(n), float64(p.weight)/float64(p.flights))
	}
	if ok {
		p.calls, p.us = calls, us
	}
	p.asking, p.asked, p.flights, p.weight = false, time.Now(), 0, 0
	return p.limit
}

// pacedWeight returns the weight for the next flights after ones of weight on
// average that took us each. It falls at once and rises by a quarter at a time.
func pacedWeight(limit int, us, weight float64) int {
	fits := maxWeight
	if us > 0 {
		fits = int(min(scriptTime*weight/us, maxWeight))
	}
	return max(minWeight, min(fits, limit+limit/4+1))
}

// keepPace asks the server how long scripts took, and tells the queue.
func (l *line) keepPace() {
	ctx, cancel := context.WithTimeout(context.Background(), l.store.options.Timeout)
	defer cancel()
	reply, err := l.store.run(ctx, load, []string{l.store.keys.mark(l.group, l.store.cluster)}, nil)
	in := reader{rest: reply}
	in.array()
	calls, us := in.int(), in.int()
	l.queue.SetMaxWeight(l.paced.learned(calls, us, err == nil && in.err == nil))
}
