package regions

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/redisstore"
)

// earlyBooks is a store to which every letter comes early, at first.
type earlyBooks struct {
	early, away bool
	heard       int
}

func (b *earlyBooks) Consumed(*weir.Charge, *algo.Quota, *algo.View, int64) redisstore.Consumption {
	return redisstore.Consumption{}
}

func (b *earlyBooks) Tell(context.Context, []*redisstore.Consumption) error { return nil }

func (b *earlyBooks) Hear(_ context.Context, _ string, taken []*redisstore.Consumption) (map[*redisstore.Consumption]redisstore.Heard, error) {
	if b.away {
		return nil, errors.New("the store is away")
	}
	outcome := make(map[*redisstore.Consumption]redisstore.Heard)
	for _, c := range taken {
		outcome[c] = redisstore.HeardDebit
		if b.early {
			outcome[c] = redisstore.HeardEarly
		}
		b.heard++
	}
	return outcome, nil
}

// TestWhatCameEarlyIsNotLost: what came before its period is heard again until the
// store has taken it, also if that is away in between, and then no more.
func TestWhatCameEarlyIsNotLost(t *testing.T) {
	ctx, books := context.Background(), &earlyBooks{early: true}
	e := NewExchange(books, Settings{Region: "eu", Peers: []string{"us"}, Interval: time.Second})
	if err := e.Hear(ctx, "us", []redisstore.Consumption{{Balance: "k", Kind: algo.FixedWindow, Start: 1, Out: 3}}); err != nil {
		t.Fatal(err)
	}
	books.early, books.away = false, true
	if e.Again(ctx) == nil {
		t.Fatal("a store that is away is no error")
	}
	books.away = false
	for range 2 {
		if err := e.Again(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if books.heard != 2 {
		t.Errorf("heard %d times, want early and once in time", books.heard)
	}
}

// meanwhile is books in which something happens while they are asked.
type meanwhile struct {
	earlyBooks
	do func()
}

func (m *meanwhile) Hear(ctx context.Context, from string, taken []*redisstore.Consumption) (map[*redisstore.Consumption]redisstore.Heard, error) {
	outcome, err := m.earlyBooks.Hear(ctx, from, taken)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return outcome, err
}

// TestWhatComesEarlyWhileItIsHeardAgain is kept, and what is heard again is counted as
// heard once.
func TestWhatComesEarlyWhileItIsHeardAgain(t *testing.T) {
	ctx, books := context.Background(), &meanwhile{earlyBooks: earlyBooks{early: true}}
	e := NewExchange(books, Settings{Region: "eu", Peers: []string{"us"}, Interval: time.Second})
	hear := func(incarnation string, out int64) {
		if err := e.Hear(ctx, "us", []redisstore.Consumption{{Balance: "k", Kind: algo.FixedWindow, Start: 1, Out: out, Incarnation: incarnation}}); err != nil {
			t.Error(err)
		}
	}
	hear("a", 3)
	for range 5 {
		if err := e.Again(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.Stats().Heard; n != 1 {
		t.Errorf("%d heard, want 1", n)
	}
	books.early = false // the period begins
	books.do = func() {
		books.early = true // by the clock of the other instance that hears
		hear("b", 2)
		books.early = false
	}
	for range 2 {
		if err := e.Again(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if books.heard != 9 { // early, five times again, in time, the other early and in time
		t.Errorf("asked %d times", books.heard)
	}
}
