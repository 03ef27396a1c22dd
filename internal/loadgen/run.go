package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is what came of one check.
type Outcome uint8

// The outcomes. Failed is a check that the store did not decide, whatever the
// limit answered in its place.
const (
	Allowed Outcome = iota
	Denied
	Failed
)

// Ask makes one check on key. It is called by one client at a time.
type Ask func(ctx context.Context, key string) Outcome

// Load says what to put on.
type Load struct {
	Clients  int // callers at a time, at least 1
	Keys     int // at least 1
	Spread   Spread
	Duration time.Duration
	Rate     int    // checks a second over all clients; 0 is a closed loop
	Seed     uint64 // of the order of keys

	// Progress, if set, is told every Tick how many checks are done.
	Progress func(done int64, elapsed time.Duration)
}

// Tick is how often Load.Progress is called.
const Tick = 250 * time.Millisecond

// Result is what came of a load. It can be sent as JSON but for Latency.
type Result struct {
	Allowed, Denied, Failed int64
	Elapsed                 time.Duration // from the first start to the last answer, or to the end of the schedule
	CPU                     time.Duration // of this process meanwhile; 0 where it cannot be told
	Machine                 int           // how busy all of the machine was, in percent; 0 where it cannot be told
	Latency                 Histogram     `json:"-"`
}

// Merge adds the result of another part of the same load.
func (r *Result) Merge(o *Result) {
	r.Allowed += o.Allowed
	r.Denied += o.Denied
	r.Failed += o.Failed
	r.Elapsed = max(r.Elapsed, o.Elapsed)
	r.CPU += o.CPU
	r.Machine = max(r.Machine, o.Machine)
	r.Latency.Merge(&o.Latency)
}

// client is one caller. What it counts is read by others while it runs.
type client struct {
	counts  [Failed + 1]atomic.Int64
	latency *tally
	_       [64]byte
}

// tally is a histogram of many clients. One a client would be 18 kB each, which
// push what is measured out of the processor's caches.
type tally struct {
	mu sync.Mutex
	Histogram
}

const (
	tallies = 8
	pocket  = 32 // what a client keeps before it adds it to its tally
)

func (t *tally) addAll(ds []time.Duration) {
	t.mu.Lock()
	for _, d := range ds {
		t.Add(d)
	}
	t.mu.Unlock()
}

// Run puts load on and returns when the last check is answered. open is called
// once for every client. When ctx ends the load does, early.
func Run(ctx context.Context, load Load, open func() Ask) *Result {
	clients := make([]client, load.Clients)
	latency := make([]tally, tallies)
	for i := range clients {
		clients[i].latency = &latency[i%tallies]
	}
	began, cpu, before := time.Now(), processCPU(), readMachine()
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() { clients[i].run(ctx, &load, i, began, open()) })
	}
	stop := watch(load.Progress, clients, began)
	running.Wait()
	r := &Result{Elapsed: time.Since(began), CPU: processCPU() - cpu, Machine: readMachine().busySince(before)}
	stop()
	if load.Rate > 0 && ctx.Err() == nil { // the last check leaves its interval to the schedule
		r.Elapsed = max(r.Elapsed, load.Duration)
	}
	for i := range clients {
		c := &clients[i]
		r.Allowed += c.counts[Allowed].Load()
		r.Denied += c.counts[Denied].Load()
		r.Failed += c.counts[Failed].Load()
	}
	for i := range latency {
		r.Latency.Merge(&latency[i].Histogram)
	}
	return r
}

// run asks until the time is up. Client i of n makes every n-th check of the
// schedule; one that is late goes on at once, and its lateness is latency. It has a
// context of its own, as requests have: if all waited on one, its lock would be what
// is measured.
func (c *client) run(ctx context.Context, load *Load, i int, began time.Time, ask Ask) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := newPicker(load.Spread, load.Keys, load.Seed, uint64(i))
	taken := make([]time.Duration, 0, pocket)
	defer func() { c.latency.addAll(taken) }()
	// Times are read as time since began: one clock instead of two. Without a
	// schedule a check starts when the one before it ended.
	start := time.Since(began)
	for n := i; ; n += load.Clients {
		if load.Rate > 0 {
			start = due(n, load.Rate)
			if start < load.Duration && !sleepUntil(ctx, began.Add(start)) {
				return
			}
		}
		if start >= load.Duration || ctx.Err() != nil {
			return
		}
		outcome := ask(ctx, keys.next())
		if outcome == Failed && ctx.Err() != nil {
			return // broken off, which is nobody's failure
		}
		end := time.Since(began)
		if taken = append(taken, end-start); len(taken) == pocket {
			c.latency.addAll(taken)
			taken = taken[:0]
		}
		start = end
		c.counts[outcome].Add(1)
	}
}

// due returns when check n of a schedule of rate a second is meant to start.
func due(n, rate int) time.Duration {
	return time.Duration(n/rate)*time.Second + time.Duration(n%rate)*time.Second/time.Duration(rate)
}

// sleepUntil reports whether t came before ctx's end.
func sleepUntil(ctx context.Context, t time.Time) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch reports progress until the function it returns is called.
func watch(progress func(int64, time.Duration), clients []client, began time.Time) (stop func()) {
	if progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(Tick)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			total := int64(0)
			for i := range clients {
				for o := range clients[i].counts {
					total += clients[i].counts[o].Load()
				}
			}
			progress(total, time.Since(began))
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}
