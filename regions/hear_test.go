package regions_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// pair is two stores that tell each other by hand.
type pair struct {
	t             *testing.T
	server        *testredis.Server // the first's
	here, there   *redisstore.Store
	limit         weir.Limit
	key           string
	hereL, thereL *weir.Limiter
}

func newPair(t *testing.T, text string) *pair {
	p := &pair{t: t, server: testredis.Start(t), limit: parse(t, text), key: "k"}
	open := func(url string) (*redisstore.Store, *weir.Limiter) {
		s, err := redisstore.Open(url, redisstore.Options{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l, err := weir.New(weir.Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return s, l
	}
	p.here, p.hereL = open(p.server.URL())
	p.there, p.thereL = open(testredis.Start(t).URL())
	return p
}

// under goes on under another limit, with a balance of its own.
func (p *pair) under(text string) *pair {
	next := *p
	next.limit, next.key = parse(p.t, text), "k under "+text
	return &next
}

// take takes units here and returns the counter as it is told.
func (p *pair) take(units int64) redisstore.Consumption {
	p.t.Helper()
	c := p.limit.Charge(p.key)
	c.Cost = units
	b := weir.Bill{Charges: []weir.Charge{c}}
	if err := p.hereL.Decide(context.Background(), &b); err != nil || b.Err != nil || !b.Allowed {
		p.t.Fatal(err, b.Err, b.Decision)
	}
	bal := b.Balances()[0]
	return p.tell(p.here.Consumed(&b.Charges[0], &bal.Quota, &bal.View, units))
}

func (p *pair) tell(d redisstore.Consumption) redisstore.Consumption {
	p.t.Helper()
	if err := p.here.Tell(context.Background(), []*redisstore.Consumption{&d}); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// hear has the other region hear what was told.
func (p *pair) hear(d redisstore.Consumption) redisstore.Heard {
	p.t.Helper()
	came, err := p.there.Hear(context.Background(), "eu", []*redisstore.Consumption{&d})
	if err != nil {
		p.t.Fatal(err)
	}
	return came[&d]
}

func (p *pair) left() int64 {
	p.t.Helper()
	b := weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{p.limit.Charge(p.key)}}
	if err := p.thereL.Decide(context.Background(), &b); err != nil {
		p.t.Fatal(err)
	}
	return b.Each[0].Remaining
}

func (p *pair) want(left int64, when string) {
	p.t.Helper()
	if got := p.left(); got != left {
		p.t.Errorf("%s: %s: %d left in the other region, want %d", p.limit, when, got, left)
	}
}

var slow = []string{
	"100/day", "100/day algorithm=leaky_bucket burst=99", "100/day algorithm=fixed_window", "100/day algorithm=sliding_window",
	"100/day algorithm=sliding_log", "100/year algorithm=fixed_window tz=Asia/Tokyo",
}

// TestMessagesMayRepeat, come late and in another order: each unit is debited once.
func TestMessagesMayRepeat(t *testing.T) {
	all := newPair(t, slow[0])
	for _, text := range slow {
		t.Run(text, func(t *testing.T) {
			p := all.under(text)
			first := p.take(3)
			second := p.take(4)
			if first.Out != 3 || second.Out != 7 || first.Incarnation != second.Incarnation {
				t.Fatalf("told %+v, then %+v", first, second)
			}
			p.hear(second)
			p.want(93, "the second message first")
			p.hear(first)
			p.hear(second)
			p.want(93, "the first late, the second twice")
			third := p.take(5)
			p.hear(third)
			p.want(88, "a third")
		})
	}
}

// TestCountersBeginAnew: a flush and a restart start another incarnation, of which
// everything is debited; a late message of the one before is known.
func TestCountersBeginAnew(t *testing.T) {
	p := newPair(t, "100/day algorithm=fixed_window")
	old := p.take(10)
	p.hear(old)
	if err := p.server.Restart(); err != nil {
		t.Fatal(err)
	}
	var fresh redisstore.Consumption
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C { // until the store is connected again
		c := p.limit.Charge(p.key)
		q := c.Limit.Quota()
		fresh = p.here.Consumed(&c, &q, &algo.View{Start: old.Start}, 2)
		if p.here.Tell(context.Background(), []*redisstore.Consumption{&fresh}) == nil {
			break
		}
	}
	if fresh.Incarnation == old.Incarnation || fresh.Out != 2 {
		t.Fatalf("after a restart %+v follows %+v", fresh, old)
	}
	p.hear(fresh)
	p.want(88, "after a restart")
	p.hear(old)
	p.hear(fresh)
	p.want(88, "a late message of the counter before")
}

// TestGuesses are set off against what is heard when the region is back, once.
func TestGuesses(t *testing.T) {
	all := newPair(t, slow[0])
	for _, text := range slow[:4] {
		p := all.under(text)
		d := p.take(10)
		p.hear(d)
		guess := d
		guess.Guess, guess.Out, guess.Debt = true, 20, 100
		p.hear(guess)
		p.want(70, "10 heard and 20 guessed")
		p.hear(p.take(15))
		p.want(70, "15 of the 20 were")
		p.hear(p.take(5))
		p.want(65, "what was guessed too much is not set off twice")
	}
}

// TestDebt: a balance is overdrawn as far as the debt goes, and no further.
func TestDebt(t *testing.T) {
	all := newPair(t, slow[0])
	for _, text := range []string{"100/10s", "100/10s algorithm=sliding_log"} {
		p := all.under(text)
		d := p.take(100)
		if d.Out, d.Debt = 250, 50; p.hear(d) != redisstore.HeardDebit {
			t.Fatal("not debited")
		}
		b := weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{p.limit.Charge(p.key)}}
		if err := p.thereL.Decide(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		// 50 units of debt and one more: 5.1 s for a bucket, less what went by.
		if wait := b.Each[0].RetryAfter; b.Each[0].Remaining != 0 || wait < 3*time.Second || wait > 10*time.Second || p.limit.Kind().Bucket() && wait > 5100*time.Millisecond {
			t.Errorf("%s: %d left, the next in %s", text, b.Each[0].Remaining, wait)
		}
	}
}

// TestOldCountersEmptyABalanceAtMost: with nothing heard before, nobody knows how
// much of an old counter is paid off.
func TestOldCountersEmptyABalanceAtMost(t *testing.T) {
	p := newPair(t, "100/10s")
	d := p.take(10)
	d.Out, d.Debt, d.Recent = 1_000_000, 50, false
	p.hear(d)
	b := weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{p.limit.Charge(p.key)}}
	if err := p.thereL.Decide(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	if wait := b.Each[0].RetryAfter; wait > 100*time.Millisecond {
		t.Errorf("the next unit comes in %s: the balance was overdrawn", wait)
	}
}

// TestPeriods: what belongs to a period that has not begun here waits, and what
// belongs to one that is over is not debited from this one.
func TestPeriods(t *testing.T) {
	all := newPair(t, slow[0])
	for _, text := range []string{"100/day algorithm=fixed_window", "100/day algorithm=sliding_window"} {
		p := all.under(text)
		d := p.take(10)
		next, before, long := d, d, d
		next.Start += next.Period
		before.Start -= before.Period
		long.Start -= 2 * long.Period
		if came := p.hear(next); came != redisstore.HeardEarly {
			t.Errorf("%s: a period that has not begun came to %d", text, came)
		}
		p.hear(long)
		p.want(100, "a period long over")
		p.hear(before)
		if left := p.left(); p.limit.Kind() == algo.FixedWindow && left != 100 || p.limit.Kind() == algo.SlidingWindow && left < 90 {
			t.Errorf("%s: %d left after 10 in the period before", text, left)
		}
		p.hear(d)
		if left := p.left(); left > 90 || left < 80 {
			t.Errorf("%s: %d left after 10 in this period", text, left)
		}
	}
}

// TestGifts: what was given back is a counter of its own.
func TestGifts(t *testing.T) {
	all := newPair(t, slow[0])
	for i, text := range slow {
		p := all.under(text)
		d := p.take(10)
		p.hear(d)
		c := p.limit.Charge(p.key)
		q := c.Limit.Quota()
		back := p.tell(p.here.Consumed(&c, &q, &algo.View{Start: d.Start, End: d.Stop}, -4))
		if back.Out != 10 || back.Back != 4 {
			t.Fatalf("%s: told %+v", text, back)
		}
		p.hear(back)
		p.hear(back)
		want := int64(94)
		if i == 4 { // a log takes nothing back
			want = 90
		}
		p.want(want, "4 of 10 given back")
	}
}

// A balance that is named in a form of another version is passed over: the others
// of its letter are heard, and the letter is done with.
func TestAnUnknownFormFailsNoLetter(t *testing.T) {
	p := newPair(t, "100/day")
	good := p.take(3)
	bad := good
	bad.Balance = "2:" + bad.Balance
	came, err := p.there.Hear(context.Background(), "eu", []*redisstore.Consumption{&bad, &good})
	if err != nil || came[&bad] != redisstore.HeardFault || came[&good] != redisstore.HeardDebit {
		t.Errorf("%v, %v and %v", err, came[&bad], came[&good])
	}
	p.want(97, "beside an unknown form")
}
