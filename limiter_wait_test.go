package weir_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// What cannot fit before the deadline is denied at once, not at the deadline,
// for charges ahead (buckets) and for charges that ask again (all others).
func TestWaitDeniesAtOnce(t *testing.T) {
	for _, text := range []string{"1/s", "1/s algorithm=leaky_bucket", "3/10s algorithm=fixed_window", "3/10s algorithm=sliding_log"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := weir.New(weir.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				limit, err := weir.ParseLimit(text)
				if err != nil {
					t.Fatal(err)
				}
				for n := 0; ; n++ { // until there is no room within the deadline
					if n == 5 {
						t.Fatal("a fifth waits where four fit")
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					began := time.Now()
					answered := make(chan weir.Decision)
					go func() {
						d, err := l.Wait(ctx, limit.Charge("k"))
						if err != nil {
							t.Error(err)
						}
						answered <- d
					}()
					synctest.Wait() // whoever waits now was admitted
					select {
					case d := <-answered:
						cancel()
						if !d.Allowed {
							return
						}
					default:
						defer func() { <-answered; cancel() }()
						if time.Since(began) > 0 {
							t.Fatal("time passed")
						}
					}
					if time.Since(began) > 0 {
						t.Fatal("denied after the deadline instead of at once")
					}
				}
			})
		})
	}
}

// A bucket that has no room within the deadline ends the wait at once, also where another
// limit has its turn later.
func TestWaitDeniesAtOnceWhateverBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.New(weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		bucket := weir.Per(1, 10*time.Minute).Charge("k") // asked 10 s too soon
		log := weir.Per(1, 30*time.Second).Using(algo.SlidingLog).Charge("k")
		if d, err := l.Take(t.Context(), bucket, log); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 590*time.Second)
		defer cancel()
		began := time.Now()
		if d, err := l.Wait(ctx, bucket, log); err != nil || d.Allowed || d.Binding != 1 || time.Since(began) > 0 {
			t.Errorf("%+v %v after %v", d, err, time.Since(began))
		}
	})
}

// A leaky bucket admits into a queue; a place in it past the deadline is no place
// and is given back.
func TestWaitDoesNotQueuePastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.New(weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		limit := weir.PerSecond(1).Using(algo.LeakyBucket).Burst(9)
		charge := limit.Charge("k")
		charge.Cost = 6
		if d, err := l.Take(t.Context(), charge); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		began := time.Now()
		bill := weir.Bill{Charges: []weir.Charge{limit.Charge("k")}, NoReceipts: true} // which are needed to give back
		err = l.WaitBill(ctx, &bill)
		d := bill.Decision
		if err != nil || d.Allowed || d.RetryAfter != 2*time.Second || time.Since(began) > 0 {
			t.Errorf("%+v %v after %v, want a denial at once that clears in 2s", d, err, time.Since(began))
		}
		if d, err := l.Peek(t.Context(), limit.Charge("k")); err != nil || d.Remaining != 4 {
			t.Errorf("%d left (%v), want 4: the place was given back", d.Remaining, err)
		}
	})
}

func TestWaitSitsOutABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.New(weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		charge := weir.PerSecond(1).Charge("k")
		if err := l.Block(t.Context(), 2*time.Second, charge); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if d, err := l.Wait(t.Context(), charge); err != nil || !d.Allowed || time.Since(began) != 2*time.Second {
			t.Errorf("%+v %v after %v, want admitted when the block ends", d, err, time.Since(began))
		}
	})
}
