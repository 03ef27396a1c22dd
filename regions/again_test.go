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
