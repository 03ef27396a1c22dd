package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// TestShapesTakeTurns: in one flight, bills of many limits come in any order, and
// each is answered and debited on its own key. The limits take turns, as those of
// plans do in a busy daemon, and there are more of them with every round, so that
// the flight's own buffers grow and are used again.
func TestShapesTakeTurns(t *testing.T) {
	h := open(t, testredis.Start(t), redisstore.Options{Senders: 1})
	for round := 1; round <= 9; round++ {
		var bills []*weir.Bill
		limit := func(i int) weir.Limit { return weir.Per(int64(100+i%round), 24*time.Hour) }
		for i := range 200 {
			bills = append(bills, &weir.Bill{Charges: []weir.Charge{limit(i).Charge(fmt.Sprintf("round %d key %d", round, i))}})
		}
		for i := range bills { // each key costs something of its own
			bills[i].Charges[0].Cost = int64(1 + i%7)
		}
		// The second pass comes in another order: keys that were exchanged in the
		// first would be found exchanged again.
		for pass := int64(1); pass <= 2; pass++ {
			order := slices.Clone(bills)
			if pass == 2 {
				slices.Reverse(order)
			}
			if err := h.Decide(context.Background(), order...); err != nil {
				t.Fatal(err)
			}
			for i, b := range bills {
				want := int64(100+i%round) - pass*int64(1+i%7)
				if b.Err != nil || !b.Allowed || b.Limit != int64(100+i%round) || b.Remaining != want {
					t.Fatalf("%d limits, pass %d, bill %d: %+v %v, want %d remaining", round, pass, i, b.Decision, b.Err, want)
				}
			}
		}
	}
}
