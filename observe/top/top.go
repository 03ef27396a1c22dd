// Package top knows which keys are asked for most, and which are refused most, in
// little memory and whatever keys there are.
package top

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/prefetch"
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
	near    sync.Pool // of *int: which part this core counts in
	drawn   atomic.Uint64
}

// window counts what happens now; the one before it still counts as well.
type window struct {
	since  time.Time
	parts  []atomic.Pointer[part] // made at first use
	before *window                // has none itself
}

// part is what counts on one core go into, mostly: counters that two cores write
// by turns cost each of them a trip to the other, at every request. Which part a
// request is counted in makes no difference to what is told.
type part struct {
	asked   sketch // first, so that its lines are cache lines
	mu      sync.Mutex
	refused *sketch // nil until there is a refusal
}

// mostParts bounds the memory of a window: 2 MiB, and the keys of 16,384 places, which
// come to 16 MiB if somebody asks for nothing but the longest keys there are. They are
// kept whole, since who is told of one may want to reset or block it.
const mostParts = 8

var places = func() (all [mostParts]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()

// New returns a Top that has seen nothing.
func New(o Options) *Top {
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Top{o: o, seed: maphash.MakeSeed()}
	n := min(runtime.GOMAXPROCS(0), mostParts)
	t.near.New = func() any { return &places[t.drawn.Add(1)%uint64(n)] }
	now := o.Now()
	w := newWindow(now, n)
	w.before = newWindow(now, n)
	t.window.Store(w)
	return t
}

func newWindow(since time.Time, parts int) *window {
	return &window{since: since, parts: make([]atomic.Pointer[part], parts)}
}

// lock returns a part of w that is the caller's until it unlocks it, of those that
// nobody has the one that this core had last.
func (t *Top) lock(w *window) *part {
	near := t.near.Get().(*int)
	defer t.near.Put(near)
	for i := range w.parts {
		if p := w.part((*near + i) % len(w.parts)); p.mu.TryLock() {
			return p
		}
	}
	p := w.part(*near)
	p.mu.Lock()
	return p
}

func (w *window) part(i int) *part {
	if p := w.parts[i].Load(); p != nil {
		return p
	}
	w.parts[i].CompareAndSwap(nil, new(part))
	return w.parts[i].Load()
}

// Observe implements weir.Observer. Every charge that decides is a request of its
// key.
func (t *Top) Observe(ctx context.Context, e weir.Event) {
	if e.Bill.Verb == algo.Take {
		one := [...]*weir.Bill{e.Bill}
		t.ObserveAll(ctx, one[:], e.Elapsed)
	}
}

// ObserveAll implements observe.Batch.
func (t *Top) ObserveAll(_ context.Context, bills []*weir.Bill, _ time.Duration) {
	w := t.window.Load()
	p := t.lock(w)
	if p.asked.seen < few {
		p.mu.Unlock()
		t.turn(w)
		w = t.window.Load()
		p = t.lock(w)
	}
	spaces := hasher{seed: t.seed}
	look := false
	for len(bills) > 0 {
		n := min(len(bills), atOnce)
		look = p.count(&spaces, bills[:n]) || look
		bills = bills[n:]
	}
	p.mu.Unlock()
	if look {
		t.turn(w)
	}
}

// few is up to how many requests in a part the clock is looked at before each of
// them: where few come, step of them may take longer than two windows, and what was
// asked for just now would be forgotten with what is long past.
const few = 1024

// atOnce is how many bills have their first charge's counters brought near at once.
const atOnce = 32

// count counts bills, atOnce at most, and reports whether it is time to look at the
// clock. Another core may have counted here last: one by one each line of counters
// would be waited for.
func (p *part) count(hashes *hasher, bills []*weir.Bill) (look bool) {
	var first [atOnce]uint64
	for i, b := range bills {
		if b.Verb == algo.Take && len(b.Each) > 0 {
			first[i] = hashes.of(&b.Charges[0])
			line, _ := p.asked.line(first[i])
			prefetch.Write(uintptr(unsafe.Pointer(line)))
		}
	}
	for i, b := range bills {
		if b.Verb != algo.Take {
			continue
		}
		for j := range b.Each {
			c := &b.Charges[j]
			if c.Trial != 0 {
				continue
			}
			h := first[i]
			if j > 0 {
				h = hashes.of(c)
			}
			look = p.asked.count(h, b, j) || look
			if !b.Each[j].Allowed {
				if p.refused == nil {
					p.refused = new(sketch)
				}
				p.refused.count(h, b, j)
			}
		}
	}
	return look
}

// hasher names keys by hashes. It knows that of the last space: bills of one call
// mostly have the same.
type hasher struct {
	seed  maphash.Seed
	space string
	hash  uint64
}

// of names a key; it is never 0.
func (h *hasher) of(c *weir.Charge) uint64 {
	if c.Space != h.space {
		h.space, h.hash = c.Space, 0
		if c.Space != "" {
			h.hash = maphash.String(h.seed, c.Space) * 0x9E3779B97F4A7C15
		}
	}
	return max(1, maphash.String(h.seed, c.Key)^h.hash)
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
	next := newWindow(now, len(w.parts))
	next.before = &window{since: w.since, parts: w.parts}
	if now.Sub(w.since) >= 2*t.o.Window { // nothing that it counted is of the window before this one
		next.before = newWindow(now, len(w.parts))
	}
	t.window.Store(next)
}
