package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
)

// A charge that makes receipts void, since its limit was changed, while its slot moves:
// the node may not write beside the balance then, which is no failure of the charge.
func TestALimitIsChangedWhileItsSlotMoves(t *testing.T) {
	c := testredis.StartCluster(t, 3)
	l := openCluster(t, c)
	take := func(limit weir.Limit) {
		b := bill(limit.Charge("k"))
		if err := l.Decide(context.Background(), b); err != nil || b.Err != nil || !b.Allowed {
			t.Errorf("%+v, %v, %v", b.Decision, b.Err, err)
		}
	}
	take(weir.Per(100, time.Hour))
	for i, from := range c.Nodes {
		reply, err := from.Do("KEYS", "*}:th:*")
		if err != nil {
			t.Fatal(err)
		}
		keys := reply.([]any)
		if len(keys) == 0 {
			continue
		}
		slot, err := strconv.Atoi(from.Must(t, "CLUSTER", "KEYSLOT", keys[0].(string)))
		if err != nil {
			t.Fatal(err)
		}
		units := int64(100)
		c.Move(t, slot, from, c.Nodes[(i+1)%3], func() {
			units++
			take(weir.Per(units, time.Hour))
		})
		if units == 100 {
			t.Fatal("nothing was moved: the test is void")
		}
		return
	}
	t.Fatal("no node has the balance: the test is void")
}
