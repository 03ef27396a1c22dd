package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Mistakes that a store could make; each must be found.
type planted struct {
	weir.Store
	mu     sync.Mutex
	counts int
}

// sometimes is true for one call in n.
func (p *planted) sometimes(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts++
	return p.counts%n == 0
}

// losesDebits answers that a bill was charged and takes one in 40 back.
type losesDebits struct{ planted }

func (s *losesDebits) Apply(ctx context.Context, bills []*weir.Bill) {
	s.Store.Apply(ctx, bills)
	b := bills[0]
	if b.Verb == algo.Take && b.Err == nil && b.Allowed && s.sometimes(40) {
		back := &weir.Bill{Verb: algo.Refund, Charges: append([]weir.Charge(nil), b.Charges...)}
		for i := range back.Charges {
			back.Charges[i].Cost = 0
		}
		if back.Check() == nil {
			s.Store.Apply(ctx, []*weir.Bill{back})
		}
	}
}

// checksThenActs admits by what it saw a moment before it charges.
type checksThenActs struct{ planted }

func (s *checksThenActs) Apply(ctx context.Context, bills []*weir.Bill) {
	b := bills[0]
	if b.Verb != algo.Take {
		s.Store.Apply(ctx, bills)
		return
	}
	seen := &weir.Bill{Verb: algo.Peek, Charges: append([]weir.Charge(nil), b.Charges...)}
	if seen.Check() != nil {
		return
	}
	s.Store.Apply(ctx, []*weir.Bill{seen})
	s.Store.Apply(ctx, bills)
	if b.Err == nil && !b.Allowed && seen.Err == nil && seen.Allowed {
		b.Allowed = true
		copy(b.Each, seen.Each)
	}
}

// asksAgain sends a bill again whose outcome it does not know.
type asksAgain struct {
	planted
	times int
	pause time.Duration
}

func (s *asksAgain) Apply(ctx context.Context, bills []*weir.Bill) {
	s.Store.Apply(ctx, bills)
	b := bills[0]
	var se *weir.StoreError
	if !errors.As(b.Err, &se) || !se.Unknown || b.Verb != algo.Take {
		return
	}
	for range s.times {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.pause):
		}
		if b.Check() != nil { // makes it as new
			return
		}
		if s.Store.Apply(ctx, bills); b.Err == nil {
			return
		}
		b.Err = se
	}
}

// TestLinearCanFail shows the check three stores that are wrong.
func TestLinearCanFail(t *testing.T) {
	for name, plant := range map[string]func(weir.Store) weir.Store{
		"a debit is lost":                   func(s weir.Store) weir.Store { return &losesDebits{planted{Store: s}} },
		"checked, then acted":               func(s weir.Store) weir.Store { return &checksThenActs{planted{Store: s}} },
		"replayed after an unknown outcome": func(s weir.Store) weir.Store { return &asksAgain{planted{Store: s}, 100, 10 * time.Millisecond} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rand.Uint64(), plant)
			for n := range 200 {
				if linearizable(n, r.history(t, n)) == porcupine.Illegal {
					t.Logf("found in history %d", n)
					return
				}
			}
			t.Error("not found in 200 histories")
		})
	}
}
