package weir

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/algo"
)

// TestRefund gives back what a charge still owes, once, and no more.
func TestRefund(t *testing.T) {
	ctx := context.Background()
	for _, l := range everyKind(10, 10*time.Second) {
		t.Run(l.Kind().String(), func(t *testing.T) {
			w := newWorld(t)
			b := w.decide(withCost(l, "k", 6))
			charge := b.Charges[0]
			refund := func(c Charge) int64 {
				charges := []Charge{c}
				if err := w.Refund(ctx, charges...); err != nil {
					t.Fatal(err)
				}
				return charges[0].Receipt.Refunded
			}
			part := charge
			part.Cost = 2
			if got := refund(part); got != 2 || w.left(l, "k") != 6 {
				t.Errorf("refunded %d of 2, %d remain", got, w.left(l, "k"))
			}
			if got := refund(charge); got != 0 || w.left(l, "k") != 6 {
				t.Errorf("refunded %d by a spent receipt", got)
			}
			b = w.decide(withCost(l, "k", 6))
			all := b.Charges[0]
			all.Cost = 0
			elsewhere := all
			elsewhere.Key = "other"
			var input *InputError
			if err := w.Refund(ctx, elsewhere); !errors.As(err, &input) || input.Field != "charges[0].receipt" {
				t.Errorf("a receipt used for another key: %v", err)
			}
			w.at(time.Microsecond)
			if got := refund(all); got != 6 || w.left(l, "k") != 6 {
				t.Errorf("refunded %d of 6, %d remain", got, w.left(l, "k"))
			}
			b = w.decide(withCost(l, "k", 6))
			all = b.Charges[0]
			all.Cost = 0
			if err := w.Reset(ctx, all); err != nil {
				t.Fatal(err)
			}
			w.decide(withCost(l, "k", 10))
			if got := refund(all); got != 0 || w.left(l, "k") != 0 {
				t.Errorf("refunded %d by a receipt from before a reset", got)
			}
			w.at(time.Minute)
			old := w.decide(withCost(l, "k", 6)).Charges[0]
			old.Cost = 0
			w.at(2 * time.Minute)
			w.decide(withCost(l, "k", 10))
			if got := refund(old); got != 0 || w.left(l, "k") != 0 {
				t.Errorf("refunded %d that time had paid off", got)
			}
		})
	}
}

func TestRefundNeedsAReceipt(t *testing.T) {
	w := newWorld(t)
	err := w.Refund(context.Background(), Unlimited().Charge("k"), PerMinute(1).Charge("k"))
	var input *InputError
	if !errors.As(err, &input) || err.Error() != "charges[1].receipt: is missing; Decide writes it when it debits" {
		t.Error(err)
	}
}

// TestRefundUnderAnotherLimit: a bucket refunds nothing once its limit changed.
func TestRefundUnderAnotherLimit(t *testing.T) {
	w := newWorld(t)
	c := w.decide(withCost(PerMinute(10), "k", 5)).Charges[0]
	w.decide(withCost(PerMinute(20), "k", 1))
	charges := []Charge{c}
	if err := w.Refund(context.Background(), charges...); err != nil || charges[0].Receipt.Refunded != 0 {
		t.Errorf("refunded %d, %v", charges[0].Receipt.Refunded, err)
	}
}

// TestDebitedChargesAloneHaveReceipts.
func TestDebitedChargesAloneHaveReceipts(t *testing.T) {
	w := newWorld(t)
	l := PerMinute(3)
	trial := l.Named("trial").Charge("k")
	trial.Trial = -1
	b := w.decide(l.Charge("k"), peekOf(l.Named("peek"), "k"), Unlimited().Charge("k"), trial)
	for i, want := range []bool{true, false, false, true} {
		if got := b.Charges[i].Receipt.ID != 0; got != want {
			t.Errorf("charge %d: receipt %v, want %v", i, got, want)
		}
	}
	if r := w.decide(withCost(l, "k", 3)).Charges[0].Receipt; r != (Receipt{}) {
		t.Errorf("a denied charge has the receipt %+v", r)
	}
}

func TestReset(t *testing.T) {
	for _, l := range everyKind(3, time.Hour) {
		w := newWorld(t)
		w.take(l, 3)
		w.decide(withCost(l, "other", 3))
		if err := w.Block(context.Background(), time.Hour, l.Charge("k")); err != nil {
			t.Fatal(err)
		}
		if err := w.Reset(context.Background(), l.Charge("k"), l.Charge("never")); err != nil {
			t.Fatal(err)
		}
		if left := w.left(l, "k"); left != 3 || w.left(l, "other") != 0 || !w.take(l, 1).Allowed {
			t.Errorf("%s: %d remain after reset, %d of another key", l.Kind(), left, w.left(l, "other"))
		}
	}
}

// TestBlock: a block refuses all but peeks until its end and says exactly when
// the charge will pass, which a spent balance may put later.
func TestBlock(t *testing.T) {
	ctx := context.Background()
	for _, l := range everyKind(6, time.Minute) {
		w := newWorld(t)
		if err := w.Block(ctx, 10*time.Second, l.Charge("k")); err != nil {
			t.Fatal(err)
		}
		d := w.take(l, 1)
		if d.Allowed || d.Reason != Blocked || d.RetryAfter != 10*time.Second || d.Remaining != 0 {
			t.Errorf("%s: %+v", l.Kind(), d)
		}
		if d := w.take(l, 7); d.Reason != TooLarge || d.RetryAfter != Never {
			t.Errorf("%s: too large while blocked: %+v", l.Kind(), d)
		}
		if b := w.decide(peekOf(l, "k")); !b.Allowed || b.Reason != OK {
			t.Errorf("%s: a peek while blocked: %+v", l.Kind(), b.Decision)
		}
		w.at(10*time.Second - time.Microsecond)
		if w.take(l, 1).Allowed {
			t.Errorf("%s: a microsecond before the block ends", l.Kind())
		}
		w.at(10 * time.Second)
		if !w.take(l, 6).Allowed {
			t.Errorf("%s: when the block has ended", l.Kind())
		}
		if err := w.Block(ctx, time.Millisecond, l.Charge("k")); err != nil {
			t.Fatal(err)
		}
		if d := w.take(l, 6); d.Reason != Blocked || d.RetryAfter < 49*time.Second {
			t.Errorf("%s: spent and blocked for less: %+v", l.Kind(), d)
		}
		if err := w.Block(ctx, 0, l.Charge("k")); err != nil {
			t.Fatal(err)
		}
		if d := w.take(l, 1); d.Reason != Limited {
			t.Errorf("%s: lifted: %+v", l.Kind(), d)
		}
	}
	w := newWorld(t)
	if err := w.Block(ctx, -1, PerMinute(1).Charge("k")); err == nil {
		t.Error("a negative block")
	}
}

// TestWaitServesInOrder: those who wait on a bucket are charged ahead, so they
// come through one by one at the limit's pace.
func TestWaitServesInOrder(t *testing.T) {
	for _, l := range []Limit{Per(1, time.Second), Per(1, time.Second).Using(algo.LeakyBucket), Per(1, time.Second).Using(algo.FixedWindow), Per(1, time.Second).Using(algo.SlidingLog)} {
		t.Run(l.Kind().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, err := New(Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer limiter.Close()
				began := time.Now()
				done := make(chan time.Duration)
				const waiters = 5
				for range waiters {
					go func() {
						d, err := limiter.Wait(t.Context(), l.Charge("k"))
						if err != nil || !d.Allowed {
							t.Errorf("%+v, %v", d, err)
						}
						done <- time.Since(began)
					}()
				}
				for i := range waiters {
					low := time.Duration(i) * time.Second
					if l.Kind().Window() {
						low -= time.Second // the first window may end at once
					}
					if got := <-done; got < low || got > time.Duration(i)*time.Second {
						t.Errorf("waiter %d came through after %s", i, got)
					}
				}
			})
		})
	}
}

// TestWaitGivesBack: whoever gives up while waiting gives back what was charged
// ahead, and is told.
func TestWaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		limit := Per(1, time.Second)
		if _, err := l.Allow(t.Context(), "k", limit); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Wait(ctx, withCost(limit.Burst(5), "j", 5), withCost(limit, "k", 1))
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if d, err := l.Peek(t.Context(), withCost(limit.Burst(5), "j", 5)); err != nil || !d.Allowed {
			t.Errorf("not given back: %+v, %v", d, err)
		}
		began := time.Now()
		if d, err := l.Wait(t.Context(), limit.Charge("k")); err != nil || !d.Allowed || time.Since(began) != time.Second {
			t.Errorf("the next waited %s: %+v, %v", time.Since(began), d, err)
		}
	})
}

// TestWaitDoesNotWaitInVain: what can never fit is denied at once.
func TestWaitDoesNotWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for _, limit := range everyKind(1, time.Minute) {
			began := time.Now()
			if d, err := l.Wait(ctx, withCost(limit, "k", 2)); err != nil || d.Reason != TooLarge {
				t.Errorf("%s: too large: %+v, %v", limit.Kind(), d, err)
			}
			if d, err := l.Wait(ctx, limit.Using(limit.Kind()).Charge("k")); err != nil || !d.Allowed {
				t.Errorf("%s: %+v, %v", limit.Kind(), d, err)
			}
			if limit.Kind().Window() {
				continue // its period may end within the deadline
			}
			if d, err := l.Wait(ctx, limit.Charge("k")); err != nil || d.Allowed || d.RetryAfter <= 0 {
				t.Errorf("%s: beyond the deadline: %+v, %v", limit.Kind(), d, err)
			}
			if d, err := l.Wait(ctx, Per(0, time.Minute).Using(limit.Kind()).Charge("none")); err != nil || d.Allowed {
				t.Errorf("%s: a limit of nothing: %+v, %v", limit.Kind(), d, err)
			}
			if time.Since(began) != 0 {
				t.Errorf("%s: waited %s", limit.Kind(), time.Since(began))
			}
		}
	})
}

// TestMaxWait: what fits within it is admitted ahead, and Delay says how long.
func TestMaxWait(t *testing.T) {
	w := newWorld(t)
	l := Per(1, time.Second)
	for i := range 4 {
		b := &Bill{Charges: []Charge{l.Charge("k")}, MaxWait: 2 * time.Second}
		if err := w.Decide(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		want := Decision{Allowed: true, Source: "memory", Limit: 1, ResetAfter: time.Duration(i+1) * time.Second, Delay: time.Duration(i) * time.Second}
		if i == 3 {
			want = Decision{Reason: Limited, Source: "memory", Limit: 1, ResetAfter: 3 * time.Second, RetryAfter: time.Second}
		}
		if b.Decision != want {
			t.Errorf("%d: %+v, want %+v", i, b.Decision, want)
		}
	}
}

// TestRefundsNeverRunOut: a busy balance is refunded again and again, for ever.
// What has passed is forgotten, or its ledger would be full one day and refund
// nothing from then on.
func TestRefundsNeverRunOut(t *testing.T) {
	for _, l := range everyKind(40, time.Second) {
		w := newWorld(t)
		for i := range 3 * maxRefunds {
			w.at(time.Duration(i) * 100 * time.Millisecond)
			w.take(l, 1) // never idle
			charges := w.decide(l.Charge("k")).Charges
			if err := w.Refund(context.Background(), charges...); err != nil || charges[0].Receipt.Refunded != 1 {
				t.Fatalf("%s: refund %d gave %d, %v", l.Kind(), i, charges[0].Receipt.Refunded, err)
			}
		}
		for i := range w.memory.shards {
			for _, book := range w.memory.shards[i].ledgers {
				if n := len(book.refunds); n > 200 {
					t.Errorf("%s: %d entries kept", l.Kind(), n)
				}
			}
		}
	}
}

// A receipt is good with what it was written for. With another key, or a limit of
// another name, period or algorithm, it would credit a balance that nobody debited.
func TestReceiptsAreForOneBalance(t *testing.T) {
	w := newWorld(t)
	hundred := limit(t, "100/min")
	taken := w.decide(withCost(hundred, "a", 5)).Charges[0]
	w.decide(withCost(hundred, "b", 5))
	for name, change := range map[string]func(*Charge){
		"another key":       func(c *Charge) { c.Key = "b" },
		"a longer key":      func(c *Charge) { c.Key = "a\x00" },
		"another space":     func(c *Charge) { c.Space = "s" },
		"another name":      func(c *Charge) { c.Limit = hundred.Named("s") },
		"another period":    func(c *Charge) { c.Limit = Per(100, time.Hour) },
		"another algorithm": func(c *Charge) { c.Limit = hundred.Using(algo.SlidingWindow) },
		"another zone":      func(c *Charge) { c.Limit = limit(t, "100/day algorithm=fixed_window tz=Europe/Paris") },
	} {
		other := taken
		change(&other)
		err := w.Refund(context.Background(), other)
		if input := (*InputError)(nil); !errors.As(err, &input) || input.Field != "charges[0].receipt" {
			t.Errorf("%s: %v", name, err)
		}
	}
	resized := taken
	resized.Limit = Per(200, time.Minute) // the same balance
	if err := w.Refund(context.Background(), resized); err != nil {
		t.Error(err)
	}
}
