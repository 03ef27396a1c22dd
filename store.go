package weir

import (
	"context"
	"slices"
	"time"

	"github.com/weirhq/weir/algo"
)

// Store keeps balances. A layer is a Store in front of another.
//
// A store decides each bill atomically and by itself, writes the outcome into
// the bill's Balances and calls Settle, or sets Err to a *StoreError and leaves
// the rest. After Apply returns it touches nothing that a bill points to. Apply
// is called concurrently.
type Store interface {
	Apply(ctx context.Context, bills []*Bill)
	Caps() Caps
	Close() error
}

// Caps says what a store can do.
type Caps struct {
	Source      string      // what decisions name as their source
	AcrossKeys  bool        // a bill over any keys is one atomic step
	Shared      bool        // other processes use the same balances
	ServerClock bool        // time is the store's, not this process's
	Verbs       []algo.Verb // what it can do
	MaxCharges  int         // largest bill
}

// Can reports whether the store has the verb.
func (c Caps) Can(v algo.Verb) bool { return slices.Contains(c.Verbs, v) }

// Observer is told of every decided bill, on the caller's goroutine. It must not
// block, and keeps nothing of the event after it returns. One that has the method
//
//	ObserveAll(ctx context.Context, bills []*Bill, elapsed time.Duration)
//
// as well hears so of all bills of one Decide in one call, if there are several:
// elapsed is what that took.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// batchObserver is what an Observer may be besides.
type batchObserver interface {
	ObserveAll(ctx context.Context, bills []*Bill, elapsed time.Duration)
}

// Event is one decided bill.
type Event struct {
	Bill    *Bill
	Elapsed time.Duration // from Decide to the answer
}
