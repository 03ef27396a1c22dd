package denycache

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
)

// What takes a refusal back takes its entry back.
func TestVerbsThatPassThroughVoidTheEntry(t *testing.T) {
	ctx := context.Background()
	for name, lift := range map[string]func(*weir.Limiter, *weir.Bill) error{
		"refund": func(l *weir.Limiter, b *weir.Bill) error { return l.Refund(ctx, b.Charges...) },
		"reset":  func(l *weir.Limiter, b *weir.Bill) error { return l.Reset(ctx, b.Charges...) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start()
			l := limiter(t, New(newWorld(c), Options{Now: c.since}))
			charge := weir.Per(1, time.Hour).Charge("k")
			taken := decide(t, l, charge)
			decide(t, l, charge)
			if b := decide(t, l, charge); b.Source != "deny_cache" {
				t.Fatalf("not cached: %+v", b.Decision)
			}
			if err := lift(l, taken); err != nil {
				t.Fatal(err)
			}
			if b := decide(t, l, charge); !b.Allowed {
				t.Errorf("after a %s: %+v", name, b.Decision)
			}
		})
	}
}

// A reload of the policy voids all that is kept, of whatever balance.
func TestClearVoidsEveryEntry(t *testing.T) {
	c := start()
	w := newWorld(c)
	cache := New(w, Options{Now: c.since})
	l := limiter(t, cache)
	const keys = 50
	ask := func() (asked int) {
		before := w.applied
		for k := range keys {
			decide(t, l, weir.Per(1, time.Hour).Charge(fmt.Sprint("k", k)))
		}
		return w.applied - before
	}
	if _, refused, known := ask(), ask(), ask(); refused != keys || known != 0 {
		t.Fatalf("asked %d and %d times: the test is void", refused, known)
	}
	if cache.Clear(); ask() != keys {
		t.Error("entries outlived Clear")
	}
}

// A refusal that was decided before a reset, and arrives after it, is not kept.
func TestAVerbWhileTheStoreIsAsked(t *testing.T) {
	c := start()
	w := newWorld(c)
	l := limiter(t, New(w, Options{Now: c.since}))
	charge := weir.Per(1, time.Hour).Charge("k")
	decide(t, l, charge)
	w.after = func() {
		w.after = nil
		if err := l.Reset(context.Background(), charge); err != nil {
			t.Error(err)
		}
	}
	if b := decide(t, l, charge); b.Allowed {
		t.Fatal("2 of 1 were admitted")
	}
	if b := decide(t, l, charge); !b.Allowed {
		t.Errorf("after the reset: %+v", b.Decision)
	}
}

// sharing is a store that has a share of every limit until a time, and then the whole.
type sharing struct {
	weir.Store
	until time.Time
}

func (s sharing) Apply(ctx context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		for i := range b.Balances() {
			if bal := &b.Balances()[i]; time.Now().Before(s.until) {
				bal.Quota.Capacity, bal.Again = 5, time.Second.Microseconds()
				bal.Measure()
			}
		}
	}
	s.Store.Apply(ctx, bills)
}

// Who waits for a share to grow waits also where another was refused a moment before.
func TestTwoWaitForAShareToGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sharing{weir.NewMemory(weir.MemoryOptions{}), time.Now().Add(1500 * time.Millisecond)}
		l := limiter(t, New(s, Options{}))
		charge := weir.PerMinute(30).Charge("k")
		charge.Cost = 10
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if d, err := l.Wait(t.Context(), charge); err != nil || !d.Allowed {
					t.Errorf("%+v %v", d, err)
				}
			})
			synctest.Wait()
		}
		both.Wait()
	})
}
