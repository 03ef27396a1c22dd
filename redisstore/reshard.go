package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
)

// While a slot moves from one node of a cluster to another, some of its keys are
// here and some there, and a node answers TRYAGAIN to a call on keys of which it
// has only a part. Nothing has run then. So the call is taken apart until what is
// left can be answered:
//
//	a flight ─TRYAGAIN▶ its bills, one by one ─TRYAGAIN▶ a bill's balances, one by one
//
// One key is always on one node: where it is, or, if it is nowhere yet, where the
// slot moves to, which the client finds by the ASK it gets. A bill of several
// balances that stand on two nodes cannot be one atomic step; it is decided like
// one that spans groups (span.go), which never over-admits.
//
// Rejected: asking again until the slot has moved. That takes as long as somebody
// takes to move it, and it may stay half moved for ever.

// moving is the status of a bill whose balances stand on two nodes.
const moving = "TRYAGAIN"

var errMoving = errors.New("some of the keys have moved to another node")

// failMoving is the error of a bill that has to be decided balance by balance.
// Nothing was charged.
func failMoving() *weir.StoreError {
	return &weir.StoreError{Kind: "clusterdown", Unreachable: true, Err: errMoving}
}

func isMoving(text string) bool { return strings.HasPrefix(text, moving) }

// apart carries out the bills of a flight that a moving slot keeps from being one
// call, each by a call of its own: those of one request in their order, requests
// side by side. A bill that is still too much gets the status moving.
func (l *line) apart(ctx context.Context, requests []*request, deadline time.Time) (refused string, err error) {
	var word atomic.Value
	var failed atomic.Pointer[weir.StoreError]
	var flying sync.WaitGroup
	for _, r := range requests {
		flying.Go(func() {
			f := newFlight()
			for i := range r.parts {
				// The same keys, arguments and outcomes, of one part alone.
				one := &request{parts: r.parts[i : i+1 : i+1], keys: r.keys, body: r.body, outcomes: r.outcomes, seats: r.seats}
				refused, err := l.fly(ctx, f, []*request{one}, deadline)
				switch {
				case errors.Is(err, errMoving):
					r.parts[i].status = moving
				case err != nil:
					failed.Store(storeError(err))
				case refused != "":
					word.Store(refused)
				}
			}
		})
	}
	flying.Wait()
	if se := failed.Load(); se != nil { // others may have been charged
		return "", &weir.StoreError{Kind: se.Kind, Err: se.Err, Unreachable: se.Unreachable, Unknown: true}
	}
	refused, _ = word.Load().(string)
	return refused, nil
}

// movingPause is how long a refund or the like waits for its keys to come together.
const movingPause = 5 * time.Millisecond

// wait returns false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// byKey splits a bill into its balances, enforced ones and trials apart.
func (s *Store) byKey(b *weir.Bill) (enforced, trials []spread) {
	balances := b.Balances()
	for i := range balances {
		one := spread{s.keys.group(balances[i].Charge), []int{i}}
		if balances[i].Trial != 0 {
			trials = append(trials, one)
		} else {
			enforced = append(enforced, one)
		}
	}
	return enforced, trials
}
