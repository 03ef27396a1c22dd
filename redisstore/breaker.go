package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
)

// The breaker keeps callers from waiting for a server that does not answer.
//
//	           3 failed flights in a row, or one that found nobody or a replica
//	admitting ───────────────────────────────────────────────────▶ refusing
//	    ▲                                                              │ a probe every 100 to 200 ms
//	    └──────────────────── a probe succeeded ◀──────────────────────┘
//
// While it refuses every bill is answered at once with the error that made it refuse,
// which the Limiter turns into the stated answers, and nothing is sent but the
// probe, so a server that comes back is not met by a herd. There is no half-open
// state in which a share of the callers is made to try: the probe is its own
// caller.
//
// The probe is a write. A replica that was not promoted answers PING, and must
// not be taken for a server that decides.
//
// A server that is slow is not one that is gone: limits that answer `open` must
// not be switched off by load. A flight that timed out therefore makes
// it refuse as slow; only when the probe, alone on the line, fails as well is the
// server called unreachable.
type breaker struct {
	probe  func(context.Context) error
	notify func(Health)
	within time.Duration // for a probe

	refusal atomic.Pointer[weir.StoreError] // what it refuses with; nil admits

	mu     sync.Mutex // guards the rest; not held while probing
	failed int        // flights in a row
	since  time.Time
	stop   context.CancelFunc
	ended  bool
	work   sync.WaitGroup
}

// tolerated is how many flights may fail in a row before the breaker refuses.
const tolerated = 3

const (
	probePause  = 100 * time.Millisecond
	probeJitter = 100 * time.Millisecond
)

// Health is whether a store can be used.
type Health struct {
	Up    bool
	Kind  string    // of the failure, as in weir.StoreError; empty when up
	Since time.Time // of the last change; zero if there was none
}

// outage reports whether e means that the server cannot be used at all, as
// opposed to an error of one bill.
func outage(e *weir.StoreError) bool {
	k := kindOf[e.Kind]
	return k != nil && k.outage
}

// demoted reports whether e is of a server that was a primary and is a replica.
func demoted(e *weir.StoreError) bool {
	return e != nil && (e.Kind == "readonly" || e.Kind == "masterdown")
}

// admit returns the error to answer with while the breaker refuses.
func (b *breaker) admit() *weir.StoreError { return b.refusal.Load() }

// record takes the outcome of a flight; e is nil if the server answered.
func (b *breaker) record(e *weir.StoreError) {
	if e == nil || !outage(e) {
		if b.refusal.Load() == nil {
			b.mu.Lock()
			b.failed = 0
			b.mu.Unlock()
		}
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
	if b.failed < tolerated && !e.Unreachable && !demoted(e) || b.refusal.Load() != nil || b.ended {
		return
	}
	b.refuse(e)
}

// refuse refuses from now on and starts probing. mu is held.
func (b *breaker) refuse(e *weir.StoreError) {
	b.refusal.Store(&weir.StoreError{Kind: e.Kind, Err: e.Err, Unreachable: e.Unreachable})
	b.since = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.work.Go(func() { b.keepProbing(ctx) })
	b.tell(Health{Kind: e.Kind, Since: b.since})
}

func (b *breaker) tell(h Health) {
	if b.notify != nil {
		b.work.Go(func() { b.notify(h) }) // its own goroutine: mu is held here
	}
}

func (b *breaker) keepProbing(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		t.Reset(probePause + rand.N(probeJitter))
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		within, cancel := context.WithTimeout(ctx, b.within)
		err := b.probe(within)
		cancel()
		if err == nil {
			b.readmit()
			return
		}
		e := storeError(err)
		b.refusal.Store(&weir.StoreError{Kind: e.Kind, Err: e.Err, Unreachable: e.Unreachable || e.Kind == "timeout"})
	}
}

// readmit admits again.
func (b *breaker) readmit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal.Store(nil)
	b.failed = 0
	b.since = time.Now()
	b.tell(Health{Up: true, Since: b.since})
}

// health says how things stand.
func (b *breaker) health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{Up: true, Since: b.since}
	if e := b.refusal.Load(); e != nil {
		h.Up, h.Kind = false, e.Kind
	}
	return h
}

// end stops probing and waits for it.
func (b *breaker) end() {
	b.mu.Lock()
	b.ended = true
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.work.Wait()
}
