package weir_test

import (
	"context"
	"testing"

	"github.com/weirhq/weir"
)

// TestFork: a copied balance stands as the original did and goes its own way; a
// balance that was not copied is new.
func TestFork(t *testing.T) {
	ctx := context.Background()
	for _, text := range []string{"5/h", "5/h algorithm=sliding_log", "5/h algorithm=fixed_window", "5/h algorithm=sliding_window", "5/h algorithm=leaky_bucket burst=4"} {
		limit, err := weir.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		now := int64(1_772_409_600_000_000)
		memory := weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return now }})
		fork := memory.Fork(weir.MemoryOptions{})
		charge := limit.Charge("k")
		left := func(store *weir.Memory, cost int64) int64 {
			t.Helper()
			l, err := weir.New(weir.Options{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			c := charge
			c.Cost, c.Peek = cost, cost == 0
			d, err := l.Take(ctx, c)
			if err != nil || !d.Allowed {
				t.Fatalf("%s: %+v %v", text, d, err)
			}
			return d.Remaining
		}
		if got := left(memory, 2); got != 3 {
			t.Fatalf("%s: %d left", text, got)
		}
		if got := left(fork, 0); got != 5 {
			t.Errorf("%s: a balance that was not copied has %d left", text, got)
		}
		memory.Copy(&charge, fork, "")
		if got := left(fork, 1); got != 2 {
			t.Errorf("%s: the copy has %d left", text, got)
		}
		if got := left(memory, 3); got != 0 {
			t.Errorf("%s: the original has %d left", text, got)
		}
		if got := left(fork, 0); got != 2 {
			t.Errorf("%s: the copy followed the original to %d", text, got)
		}
	}
}
