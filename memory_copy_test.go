package weir_test

import (
	"context"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// TestCopyLog: a copied log stands as the original did and goes its own way; of a
// key without one it is empty.
func TestCopyLog(t *testing.T) {
	ctx := context.Background()
	limit := weir.PerMinute(5).Using(algo.SlidingLog)
	now := int64(1_772_409_600_000_000)
	memory := weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return now }})
	l, err := weir.New(weir.Options{Store: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	take := func(cost, left int64) {
		t.Helper()
		if d, err := l.AllowN(ctx, "k", cost, limit); err != nil || !d.Allowed || d.Remaining != left {
			t.Fatalf("%+v, %v; want %d left", d, err, left)
		}
	}
	quota, charge := limit.Quota(), limit.Charge("k")
	used := func(log *algo.Log) int64 { v := quota.AdvanceLog(log, now, 0); return v.Used }
	if n := used(memory.CopyLog(&charge)); n != 0 {
		t.Errorf("a log that was never charged: %d used", n)
	}
	take(2, 3)
	first := memory.CopyLog(&charge)
	take(1, 2)
	v := quota.AdvanceLog(first, now, 3)
	quota.ChargeLog(first, &v, 3)
	if n := used(memory.CopyLog(&charge)); used(first) != 5 || n != 3 {
		t.Errorf("%d used of the copy and %d of the log, want 5 and 3", used(first), n)
	}
	take(2, 0)
}
