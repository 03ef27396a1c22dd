// Package top knows which keys are asked for most, and which are refused most, in
// little memory and whatever keys there are.
package top

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// Options configures New. The zero value is right for production.
type Options struct {
	Window time.Duration // counts reach back one to two of these; a minute if 0
	Now    func() time.Time
}

// Top is a weir.Observer. It is safe for concurrent use.
type Top struct {
	o       Options
	seed    maphash.Seed
	turning sync.Mutex
	window  atomic.Pointer[window]
}

// window counts what happens now; the one before it still counts as well.
type window struct {
	since          time.Time
	asked, refused *sketch
	before         *window // has none itself
}

// New returns a Top that has seen nothing.
func New(o Options) *Top {
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Top{o: o, seed: maphash.MakeSeed()}
	now := o.Now()
	t.window.Store(&window{now, new(sketch), new(sketch), &window{since: now, asked: new(sketch), refused: new(sketch)}})
	return t
}

// Observe implements weir.Observer. Every charge that decides is a request of its
// key.
func (t *Top) Observe(_ context.Context, e weir.Event) {
	w := t.window.Load()
	if t.count(w, e.Bill) {
		t.turn(w)
	}
}

// ObserveAll implements observe.Batch. What a batch will count is read first:
// reads wait for memory together, additions each by itself.
func (t *Top) ObserveAll(_ context.Context, bills []*weir.Bill, _ time.Duration) {
	w := t.window.Load()
	for _, b := range bills {
		if b.Verb == algo.Take && len(b.Each) == 1 {
			w.asked.estimate(t.hash(&b.Charges[0]))
		}
	}
	look := false
	for _, b := range bills {
		look = t.count(w, b) || look
	}
	if look {
		t.turn(w)
	}
}

// count counts a bill in w and reports whether it is time to look at the clock.
func (t *Top) count(w *window, b *weir.Bill) (look bool) {
	if b.Verb != algo.Take {
		return false
	}
	note := observe.NoteOf(&weir.Event{Bill: b})
	for i := range b.Each {
		c := &b.Charges[i]
		if c.Trial != 0 {
			continue
		}
		rule := note.RuleName(i)
		if rule == "" {
			rule = observe.Adhoc
		}
		h := t.hash(c)
		look = w.asked.count(h, rule, c.Key) || look
		if !b.Each[i].Allowed {
			w.refused.count(h, rule, c.Key)
		}
	}
	return look
}

// hash names a key; it is never 0.
func (t *Top) hash(c *weir.Charge) uint64 {
	h := maphash.String(t.seed, c.Key)
	if c.Space != "" {
		h ^= maphash.String(t.seed, c.Space) * 0x9E3779B97F4A7C15
	}
	return h | 1
}

// turn begins a new window if w's time is up.
func (t *Top) turn(w *window) {
	now := t.o.Now()
	if now.Sub(w.since) < t.o.Window || !t.turning.TryLock() {
		return
	}
	defer t.turning.Unlock()
	if t.window.Load() != w {
		return
	}
	before := &window{since: w.since, asked: w.asked, refused: w.refused}
	if now.Sub(w.since) >= 2*t.o.Window { // nothing that it counted is of the window before this one
		before = &window{since: now, asked: new(sketch), refused: new(sketch)}
	}
	t.window.Store(&window{now, new(sketch), new(sketch), before})
}

// Report is what was asked for most since a while.
type Report struct {
	Since    time.Time
	Asked    int64 // requests in all, each charge being one
	Refused  int64
	Hottest  []Count // by requests
	Refusals []Count // by refusals
}

// Report returns the n keys asked for most and the n refused most.
func (t *Top) Report(n int) Report {
	t.turn(t.window.Load())
	w := t.window.Load()
	return Report{
		Since:    w.before.since,
		Asked:    w.asked.total() + w.before.asked.total(),
		Refused:  w.refused.total() + w.before.refused.total(),
		Hottest:  most(n, w.asked, w.before.asked),
		Refusals: most(n, w.refused, w.before.refused),
	}
}
