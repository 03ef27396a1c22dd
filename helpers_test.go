package weir

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// world is a limiter in memory under a virtual clock.
type world struct {
	*Limiter
	t      *testing.T
	clock  *atomic.Int64
	memory *Memory
}

// epoch is a midnight, and a whole minute of no larger period.
const epoch = 1_767_225_600_000_000

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, MemoryOptions{})
}

func newWorldOf(t *testing.T, o MemoryOptions) *world {
	t.Helper()
	w := &world{t: t, clock: new(atomic.Int64)}
	w.clock.Store(epoch)
	o.Now = w.clock.Load
	w.memory = NewMemory(o)
	l, err := New(Options{Store: w.memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		restful(t, w.memory)
	})
	w.Limiter = l
	return w
}

// at sets the clock to d after the epoch.
func (w *world) at(d time.Duration) { w.clock.Store(epoch + d.Microseconds()) }

// take charges cost on key "k" and fails the test on an error.
func (w *world) take(l Limit, cost int64) Decision {
	w.t.Helper()
	d, err := w.AllowN(context.Background(), "k", cost, l)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// admits charges 1 on key "k" n times and returns how many were admitted.
func (w *world) admits(l Limit, n int) (admitted int) {
	w.t.Helper()
	for range n {
		if w.take(l, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

// decide decides charges as one bill.
func (w *world) decide(charges ...Charge) *Bill {
	w.t.Helper()
	b := &Bill{Charges: charges}
	if err := w.Decide(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// left is what a peek sees.
func (w *world) left(l Limit, key string) int64 {
	w.t.Helper()
	return w.decide(peekOf(l, key)).Remaining
}

// many is n, or a part of it with -short.
func many(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

func peekOf(l Limit, key string) Charge { return Charge{Key: key, Limit: l, Peek: true} }

func limit(t testing.TB, s string) Limit {
	t.Helper()
	l, err := ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// everyKind returns n per d under each algorithm, with room for n at once.
func everyKind(n int64, d time.Duration) (all []Limit) {
	for _, kind := range algo.Kinds {
		l := Per(n, d).Using(kind)
		if kind == algo.LeakyBucket {
			l = l.Burst(n - 1)
		}
		all = append(all, l)
	}
	return all
}
