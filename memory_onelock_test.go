package weir

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirhq/weir/algo"
)

// TestOneLock: a memory with one lock answers as one with many, and bills without
// receipts are answered as those with. Few keys and short periods, so that
// balances become idle and their slots are claimed within a bill.
func TestOneLock(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now := int64(1_700_000_000_000_000)
	var limiters [2]*Limiter
	for i := range limiters {
		l, err := New(Options{Store: NewMemory(MemoryOptions{Now: func() int64 { return now }, OneLock: i == 1})})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		limiters[i] = l
	}
	limits := []string{"3/s", "5/s burst=2", "4/2s algorithm=fixed_window", "4/3s algorithm=sliding_window", "3/s algorithm=sliding_log", "2/s algorithm=leaky_bucket burst=2", "20/min name=x"}
	refused := 0
	for range 20_000 {
		now += random.Int64N(80_000)
		if random.IntN(50) == 0 {
			now += 2 * grace // slots of the idle are claimed within a bill
		}
		var bills [2]Bill
		for i := range 1 + random.IntN(12) {
			l, err := ParseLimit(limits[random.IntN(len(limits))])
			if err != nil {
				t.Fatal(err)
			}
			c := Charge{Key: fmt.Sprint("k", random.IntN(8)), Limit: l, Cost: 1 + random.Int64N(2), Space: fmt.Sprint("s", i)}
			if random.IntN(5) == 0 {
				c.Trial = -1
			}
			for b := range bills {
				bills[b].Charges = append(bills[b].Charges, c)
			}
		}
		bills[1].NoReceipts = true
		for i, l := range limiters {
			if err := l.Decide(t.Context(), &bills[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !bills[0].Allowed {
			refused++
		}
		for i := range bills[0].Each {
			c, d := bills[0].Each[i], bills[1].Each[i]
			if c != d {
				t.Fatalf("charge %d of %+v: %+v with many locks, %+v with one", i, bills[0].Charges[i], c, d)
			}
			if bills[1].Charges[i].Receipt.ID != 0 {
				t.Fatal("a receipt although none is wanted")
			}
		}
		if bills[0].Decision != bills[1].Decision || bills[0].Verb != algo.Take {
			t.Fatalf("%+v with many locks, %+v with one", bills[0].Decision, bills[1].Decision)
		}
	}
	if refused < 2000 || refused > 18_000 {
		t.Errorf("%d of 20000 refused: the test shows little", refused)
	}
}
