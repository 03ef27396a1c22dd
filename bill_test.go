package weir

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

func TestBadBillsNameTheField(t *testing.T) {
	w := newWorld(t)
	good := PerMinute(5).Charge("k")
	with := func(change func(*Charge)) Charge {
		c := good
		change(&c)
		return c
	}
	for _, c := range []struct {
		bill Bill
		want string
	}{
		{Bill{}, "charges: a bill needs at least one charge"},
		{Bill{Charges: make([]Charge, 33)}, "charges: a bill holds at most 32 charges; this one has 33"},
		{Bill{Verb: 9, Charges: []Charge{good}}, "verb: unknown verb(9)"},
		{Bill{MaxWait: -1, Charges: []Charge{good}}, "max_wait: must lie between 0 and 366 days"},
		{Bill{MaxWait: 367 * 24 * time.Hour, Charges: []Charge{good}}, "max_wait: must lie between 0 and 366 days"},
		{Bill{Charges: []Charge{good, with(func(c *Charge) { c.Key = "" })}}, "charges[1].key: is empty"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Limit = Limit{} })}}, "charges[0].limit: is empty; write one such as 100/min, or unlimited"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Limit = Per(1, time.Nanosecond) })}}, "charges[0].limit: the shortest period is 1ms; use a larger period with more units"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Limit = PerMinute(5).Burst(0) })}}, "charges[0].limit: the burst must be at least 1"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Cost = -1 })}}, "charges[0].cost: must not be negative"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Cost = algo.MaxCost + 1 })}}, "charges[0].cost: is at most 9007199254740991"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Cost = 0 })}}, "charges[0].cost: is 0; set Peek to ask without charging"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Peek = true })}}, "charges[0].cost: must be 0 with Peek; use the verb Peek to ask about a cost"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Trial = -2 })}}, "charges[0].trial: must be 0, -1, or one more than the index of an enforced charge"},
		{Bill{Charges: []Charge{with(func(c *Charge) { c.Trial = 1 })}}, "charges[0].trial: must be 0, -1, or one more than the index of an enforced charge"},
		{Bill{Charges: []Charge{good, with(func(c *Charge) { c.Trial = 3 })}}, "charges[1].trial: must be 0, -1, or one more than the index of an enforced charge"},
		{Bill{Charges: []Charge{good, with(func(c *Charge) { c.Limit = PerMinute(6) })}}, "charges[1].limit: is another limit on the same balance as an earlier charge; give one of them a name"},
	} {
		err := w.Decide(context.Background(), &Bill{Charges: []Charge{good}}, &c.bill)
		var input *InputError
		if !errors.As(err, &input) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if left := w.left(good.Limit, "k"); left != 5 {
		t.Errorf("%d of 5 remain: bad bills charged the good one beside them", left)
	}
}

func TestBinding(t *testing.T) {
	small, large, never := PerMinute(2).Named("small"), Per(5, time.Hour).Named("large"), PerMinute(1).Named("never")
	for _, c := range []struct {
		name      string
		before    []Charge
		charges   []Charge
		binding   uint8
		allowed   bool
		remaining int64
		reason    Reason
	}{
		{"least remaining", nil, []Charge{large.Charge("a"), small.Charge("a")}, 1, true, 1, OK},
		{"the first of equals", nil, []Charge{small.Charge("a"), small.Charge("b")}, 0, true, 1, OK},
		{"unlimited never binds", nil, []Charge{Unlimited().Charge("a"), large.Charge("a")}, 1, true, 4, OK},
		{"unlimited alone", nil, []Charge{Unlimited().Charge("a")}, 0, true, Unbounded, OK},
		{"denied: the longest wait", []Charge{withCost(small, "a", 2), withCost(large, "a", 5)}, []Charge{small.Charge("a"), large.Charge("a")}, 1, false, 0, Limited},
		{"denied: never is longest", []Charge{withCost(large, "a", 5)}, []Charge{large.Charge("a"), withCost(never, "a", 2)}, 1, false, 1, TooLarge},
		{"denied: never stays longest", []Charge{withCost(large, "a", 5)}, []Charge{withCost(never, "a", 2), large.Charge("a")}, 0, false, 1, TooLarge},
		{"denied: only the refusing bind", []Charge{withCost(large, "a", 5)}, []Charge{small.Charge("a"), large.Charge("a")}, 1, false, 0, Limited},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, b := range c.before {
				w.decide(b)
			}
			b := w.decide(c.charges...)
			if b.Binding != c.binding || b.Allowed != c.allowed || b.Remaining != c.remaining || b.Reason != c.reason {
				t.Errorf("%+v", b.Decision)
			}
		})
	}
}

func withCost(l Limit, key string, cost int64) Charge { return Charge{Key: key, Limit: l, Cost: cost} }

// TestSumsThatCannotBe: the costs of one balance are added, and a sum beyond
// what a cost may be is too large, for every algorithm.
func TestSumsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for _, l := range everyKind(10, time.Minute) {
		c := withCost(l, "k", algo.MaxCost)
		b := w.decide(c, c)
		if b.Allowed || b.Reason != TooLarge || b.RetryAfter != Never || b.Remaining != 10 {
			t.Errorf("%s: %+v", l, b.Decision)
		}
		if b := w.decide(withCost(l, "k", 6), withCost(l, "k", 5)); b.Allowed || b.Reason != TooLarge {
			t.Errorf("%s: 6 and 5 of 10: %+v", l, b.Decision)
		}
		if b := w.decide(withCost(l, "k", 6), withCost(l, "k", 4)); !b.Allowed || b.Each[1].Remaining != 0 {
			t.Errorf("%s: 6 and 4 of 10: %+v", l, b.Decision)
		}
	}
}

// TestTrials: shadow and try charges never decide, are debited in the same step
// when they fit and what they do not stand in for is admitted.
func TestTrials(t *testing.T) {
	live, other, tried := PerMinute(1).Named("live"), PerMinute(1).Named("other"), PerMinute(3).Named("tried")
	shadow := tried.Charge("k")
	shadow.Trial = -1
	try := tried.Charge("k")
	try.Trial = 1 // in place of charge 0
	for _, c := range []struct {
		name    string
		drained []Limit
		charges []Charge
		allowed bool
		trial   bool // its own answer
		left    int64
	}{
		{"shadow beside what passes", nil, []Charge{live.Charge("k"), shadow}, true, true, 2},
		{"shadow beside a refusal", []Limit{live}, []Charge{live.Charge("k"), shadow}, false, true, 3},
		{"try beside what passes", nil, []Charge{live.Charge("k"), try}, true, true, 2},
		{"try in place of a refusal", []Limit{live}, []Charge{live.Charge("k"), try}, false, true, 2},
		{"try beside another's refusal", []Limit{other}, []Charge{live.Charge("k"), other.Charge("k"), try}, false, true, 3},
		{"a full shadow does not decide", []Limit{tried, tried, tried}, []Charge{live.Charge("k"), shadow}, true, false, 0},
		{"a full shadow by itself", []Limit{tried, tried, tried}, []Charge{shadow}, true, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, l := range c.drained {
				w.take(l, 1)
			}
			b := w.decide(c.charges...)
			last := len(c.charges) - 1
			if b.Allowed != c.allowed || b.Each[last].Allowed != c.trial || int(b.Binding) == last && last > 0 {
				t.Errorf("%+v, trial %+v", b.Decision, b.Each[last])
			}
			if left := w.left(tried, "k"); left != c.left {
				t.Errorf("%d remain of the trial, want %d", left, c.left)
			}
		})
	}
}

// TestTrialKeepsSteppedTime: a trial that is denied keeps the new stored time
// after the clock was stepped back, or its balance would freeze until the old
// time comes again.
func TestTrialKeepsSteppedTime(t *testing.T) {
	w := newWorld(t)
	l := PerMinute(1)
	c := l.Charge("k")
	c.Trial = -1
	w.at(time.Hour)
	w.decide(c)
	w.at(0)
	if b := w.decide(c); b.Each[0].Allowed || b.Each[0].RetryAfter != time.Minute {
		t.Fatalf("right after the step: %+v", b.Each[0])
	}
	w.at(time.Minute)
	if b := w.decide(c); !b.Each[0].Allowed {
		t.Errorf("a minute after the step: %+v", b.Each[0])
	}
}

func TestReusedBillForgets(t *testing.T) {
	w := newWorld(t)
	b := w.decide(withCost(PerMinute(1), "k", 2))
	if b.Allowed {
		t.Fatal("admitted 2 of 1")
	}
	b.Err, b.Charges = errors.New("old"), []Charge{PerMinute(7).Charge("other")}
	if err := w.Decide(context.Background(), b); err != nil || b.Err != nil || !b.Allowed || b.Remaining != 6 || len(b.Each) != 1 || b.RetryAfter != 0 {
		t.Errorf("%+v, %v, %v", b.Decision, b.Err, err)
	}
}

// What a reused bill was admitted for before is not given back for a bill that
// was denied or only asked.
func TestReusedBillForgetsReceipts(t *testing.T) {
	ctx, l := context.Background(), PerMinute(1)
	for _, verb := range []algo.Verb{algo.Take, algo.Peek} {
		w := newWorld(t)
		b := w.decide(l.Charge("k"))
		if !b.Allowed || b.Charges[0].Receipt.ID == 0 {
			t.Fatalf("%+v", b.Charges[0])
		}
		b.Verb = verb
		if err := w.Decide(ctx, b); err != nil || b.Allowed || b.Charges[0].Receipt != (Receipt{}) {
			t.Errorf("%v again: allowed %v, receipt %+v, %v", verb, b.Allowed, b.Charges[0].Receipt, err)
		}
		if err := w.Undo(ctx, b); err != nil || w.left(l, "k") != 0 {
			t.Errorf("%v again, undone: %d left, want what was used to stay used (%v)", verb, w.left(l, "k"), err)
		}
	}
}

func TestAWholeBill(t *testing.T) {
	w := newWorld(t)
	var charges []Charge
	for i := range 32 {
		charges = append(charges, PerMinute(int64(40-i)).Charge(strings.Repeat("x", i+1)))
	}
	b := w.decide(charges...)
	if !b.Allowed || b.Binding != 31 || b.Remaining != 8 {
		t.Errorf("%+v", b.Decision)
	}
	for i := range b.Each {
		if want := int64(39 - i); b.Each[i].Remaining != want {
			t.Errorf("charge %d: %d remain, want %d", i, b.Each[i].Remaining, want)
		}
	}
}

func TestNoOverflowInReports(t *testing.T) {
	w := newWorld(t)
	for _, s := range []string{"1/366d", "1000000000/366d", "1/366d burst=10", "1/366d burst=9 algorithm=leaky_bucket", "1/366d algorithm=sliding_window", "999999937/366d algorithm=sliding_window"} {
		l := limit(t, s)
		for range 12 {
			d := w.take(l, l.Most())
			if d.RetryAfter < 0 || d.ResetAfter < 0 || d.RetryAfter > 11*366*24*time.Hour || d.ResetAfter > 11*366*24*time.Hour || d.Remaining < 0 {
				t.Errorf("%s: %+v", s, d)
			}
		}
		if d := w.take(l, math.MaxInt32); d.Allowed {
			t.Errorf("%s admitted %d", s, math.MaxInt32)
		}
	}
}

// TestEveryDenialKeepsSteppedTime: a sum too large to be a cost is a denial like
// any other.
func TestEveryDenialKeepsSteppedTime(t *testing.T) {
	for _, l := range everyKind(5, time.Minute) {
		w := newWorld(t)
		w.at(time.Hour)
		w.take(l, 5)
		w.at(0)
		c := withCost(l, "k", algo.MaxCost)
		w.decide(c, c)
		w.at(2 * time.Minute)
		if left := w.left(l, "k"); left != 5 {
			t.Errorf("%s: %d of 5 remain two minutes after the step", l.Kind(), left)
		}
	}
}

// TestAheadIsNeverBelowZero: what was admitted ahead is owed beyond the
// capacity, and still 0 remain, whichever way one asks.
func TestAheadIsNeverBelowZero(t *testing.T) {
	w := newWorld(t)
	l := PerMinute(3)
	w.take(l, 3)
	b := &Bill{Charges: []Charge{withCost(l, "k", 2)}, MaxWait: time.Hour}
	if err := w.Decide(context.Background(), b); err != nil || !b.Allowed || b.Remaining != 0 {
		t.Fatalf("%+v, %v", b.Decision, err)
	}
	if d := w.take(l, 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Minute {
		t.Errorf("%+v", d)
	}
}

// A try in place of an unlimited charge has nothing to stand in for. It stays a
// trial all the same.
func TestATryBesideUnlimitedDecidesNothing(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	try := Per(1, time.Hour).Charge("k")
	try.Trial = 1
	for i := range 3 {
		b := &Bill{Charges: []Charge{Unlimited().Charge("k"), try}}
		if err := l.Decide(context.Background(), b); err != nil || !b.Allowed || b.Each[1].Allowed != (i == 0) {
			t.Errorf("bill %d: %+v, the try %+v, %v", i, b.Decision, b.Each[1], err)
		}
	}
}
