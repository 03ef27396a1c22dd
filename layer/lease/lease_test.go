package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/layer/lease"
	"github.com/weirhq/weir/redisstore"
)

// instance is one process's limiter with leases on a shared server.
type instance struct {
	*weir.Limiter
	leases *lease.Leases
}

func start(t *testing.T, server *testredis.Server, ro redisstore.Options, lo lease.Options) *instance {
	t.Helper()
	ro.Timeout = 10 * time.Second
	store, err := redisstore.Open(server.URL(), ro)
	if err != nil {
		t.Fatal(err)
	}
	leases := lease.New(store, lo)
	l, err := weir.New(weir.Options{Store: leases})
	if err != nil {
		t.Fatal(err)
	}
	return &instance{l, leases}
}

func (i *instance) take(t *testing.T, key string, limit weir.Limit, cost int64) *weir.Bill {
	t.Helper()
	b := &weir.Bill{Charges: []weir.Charge{{Key: key, Limit: limit, Cost: cost}}}
	if err := i.Decide(context.Background(), b); err != nil || b.Err != nil {
		t.Fatal(err, b.Err)
	}
	return b
}

func (i *instance) stop(t *testing.T) {
	t.Helper()
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

// Three instances hammer one key until it is dry. Whatever was lent, spent and
// given back: exactly the limit is admitted, and when all have closed, nothing is
// lost.
func TestNothingIsAdmittedThatWasNotDebited(t *testing.T) {
	server := testredis.Start(t)
	for _, limit := range []weir.Limit{
		weir.Per(20_000, 30*24*time.Hour),
		weir.Per(20_000, 30*24*time.Hour).Using(algo.FixedWindow),
		weir.Per(20_000, 30*24*time.Hour).Using(algo.SlidingWindow),
	} {
		t.Run(limit.Kind().String(), func(t *testing.T) {
			var admitted, spent int64
			var total atomic.Int64
			var all []*instance
			for range 3 {
				all = append(all, start(t, server, redisstore.Options{}, lease.Options{Overshoot: 20_000}))
			}
			var callers sync.WaitGroup
			for _, i := range all {
				for range 8 {
					callers.Go(func() {
						for range 700 { // 16,800 in all: the key does not run dry yet
							if i.take(t, "hot", limit, 1).Allowed {
								total.Add(1)
							}
						}
					})
				}
			}
			callers.Wait()
			admitted = total.Load()
			for _, i := range all {
				s := i.leases.Stats()
				spent += s.Spent
				if most := limit.Most() * 20_000 / 1_000_000; s.Peak > most {
					t.Errorf("%d units were out, bound %d", s.Peak, most)
				}
				i.stop(t)
				if s := i.leases.Stats(); s.Out != 0 || s.Borrowed != s.Spent+s.Returned {
					t.Errorf("after closing: %+v", s)
				}
			}
			if spent == 0 {
				t.Fatal("nothing was lent: the test is void")
			}
			last := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 1})
			defer last.stop(t)
			d, err := last.Peek(context.Background(), limit.Charge("hot"))
			if err != nil {
				t.Fatal(err)
			}
			if 20_000-d.Remaining != admitted {
				t.Errorf("admitted %d (%d from loans), the store counts %d", admitted, spent, 20_000-d.Remaining)
			}
			for range 20_000 - admitted {
				if !last.take(t, "hot", limit, 1).Allowed {
					t.Fatal("refused within the limit")
				}
			}
			if last.take(t, "hot", limit, 1).Allowed {
				t.Error("admitted beyond the limit")
			}
		})
	}
}

// On a virtual clock, over many windows: no window sees more than the limit's own
// bound and what may be out on loan.
func TestAWindowOvershootsByNoMoreThanTheLoans(t *testing.T) {
	server := testredis.Start(t)
	const overshoot = 100_000 // a tenth, so that it shows
	limit := weir.Per(100, time.Second).Using(algo.FixedWindow)
	most := limit.Most() * overshoot / 1_000_000
	var us atomic.Int64
	us.Store(1_800_000_000_000_000)
	now := func() time.Duration { return time.Duration(us.Load()) * time.Microsecond }
	var all []*instance
	for range 2 {
		i := start(t, server, redisstore.Options{Clock: us.Load}, lease.Options{Overshoot: overshoot, Hot: 4, Now: now})
		defer i.stop(t)
		all = append(all, i)
	}
	windows := map[int64]int64{}
	// A window is few takes, so that it is over before the server, whose times to live
	// follow its own clock, forgets it: ten seconds, on however slow a machine.
	for step := range 3_000 {
		at := us.Add(4000)
		if all[step%2].take(t, "hot", limit, 1).Allowed {
			windows[at/1_000_000]++
		}
	}
	var over, spent int64
	for w, n := range windows {
		over = max(over, n-100)
		if n > 100+most {
			t.Errorf("window %d saw %d, bound %d", w, n, 100+most)
		}
	}
	for _, i := range all {
		spent += i.leases.Stats().Spent
	}
	if spent == 0 {
		t.Error("nothing was lent: the test is void")
	}
	t.Logf("%d of %d from loans, worst overshoot %d of %d", spent, len(windows)*100, over, most)
}

// An instance that dies with units on loan loses them; the next gets the rest and
// no more.
func TestADeadInstanceLosesWhatItBorrowed(t *testing.T) {
	server := testredis.Start(t)
	limit := weir.Per(1000, 30*24*time.Hour)
	store, err := redisstore.Open(server.URL(), redisstore.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	charge := limit.Charge("k")
	granted, _, _, err := store.Lend(context.Background(), &charge, 100, 150, time.Second)
	if err != nil || granted != 100 {
		t.Fatal(granted, err)
	}
	again := limit.Charge("k")
	if granted, _, _, err = store.Lend(context.Background(), &again, 100, 150, time.Second); err != nil || granted != 50 {
		t.Errorf("with 100 of 150 out, %d were lent (%v), want 50", granted, err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Peek(context.Background(), limit.Charge("k"))
	if err != nil || d.Remaining != 850 {
		t.Errorf("%d left (%v), want 850", d.Remaining, err)
	}
	// The first gives back 40, once; the second time the receipt is spent.
	for _, want := range []int64{890, 890} {
		if err := store.Return(context.Background(), &charge, 40); err != nil {
			t.Fatal(err)
		}
		if d, _ := l.Peek(context.Background(), limit.Charge("k")); d.Remaining != want {
			t.Errorf("%d left after a return, want %d", d.Remaining, want)
		}
	}
	third := limit.Charge("k")
	if granted, _, _, err = store.Lend(context.Background(), &third, 500, 150, time.Second); err != nil || granted != 100 {
		t.Errorf("after the return %d were lent (%v), want the 100 that are no longer out", granted, err)
	}
}

// What was admitted from a loan can be refunded like any other charge, once.
func TestAChargeFromALoanCanBeRefunded(t *testing.T) {
	server := testredis.Start(t)
	limit := weir.Per(100_000, 30*24*time.Hour)
	// The lender works by itself elsewhere; here no loan ends before its time on a slow
	// machine, of which so many would be given back that the ledger sums them up.
	now := func() time.Duration { return 0 }
	i := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 10_000, Hot: 2, Now: now, Stepped: true})
	var admitted int64
	var lent []*weir.Bill
	for range 1000 {
		b := i.take(t, "hot", limit, 3)
		admitted += 3
		if i.leases.Step(); b.Source == "lease" {
			lent = append(lent, b)
		}
		if len(lent) == 50 {
			break
		}
	}
	if len(lent) < 50 {
		t.Fatal("nothing was lent: the test is void")
	}
	var back int64
	for range 2 {
		for _, b := range lent {
			if err := i.Refund(context.Background(), b.Charges...); err != nil {
				t.Fatal(err)
			}
			back += b.Charges[0].Receipt.Refunded
		}
	}
	i.stop(t)
	if back != 150 {
		t.Errorf("%d came back of 150 taken from loans", back)
	}
	last := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 1})
	defer last.stop(t)
	if d, err := last.Peek(context.Background(), limit.Charge("hot")); err != nil || 100_000-d.Remaining != admitted-back {
		t.Errorf("the store counts %d, want %d (%v)", 100_000-d.Remaining, admitted-back, err)
	}
}

func TestWhatIsNotLent(t *testing.T) {
	server := testredis.Start(t)
	i := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 10_000, Hot: 1})
	defer i.stop(t)
	for name, charges := range map[string][]weir.Charge{
		"a limit whose bound is under two units": {weir.Per(199, time.Hour).Charge("small")},
		"a leaky bucket":                         {weir.Per(100_000, time.Hour).Using(algo.LeakyBucket).Burst(99_999).Charge("leaky")},
		"a sliding log":                          {weir.Per(5000, time.Hour).Using(algo.SlidingLog).Charge("log")},
	} {
		for n := range 150 {
			b := &weir.Bill{Charges: append([]weir.Charge(nil), charges...)}
			if err := i.Decide(context.Background(), b); err != nil || b.Source != "redis" || !b.Allowed {
				t.Fatalf("%s: take %d: %+v %v", name, n, b.Decision, err)
			}
		}
	}
	if s := i.leases.Stats(); s.Borrowed != 0 {
		t.Errorf("%+v", s)
	}
}

// A key is hot by how often it is asked for, not by how much: one dear take a beat
// costs the store one answer a beat, which is no reason to lend.
func TestAFewDearTakesAreNotHot(t *testing.T) {
	server := testredis.Start(t)
	limit := weir.Per(1_000_000, 30*24*time.Hour)
	for _, c := range []struct {
		takes int
		hot   bool
	}{{1, false}, {7, false}, {8, true}} { // in a tenth of a second
		var us atomic.Int64
		now := func() time.Duration { return time.Duration(us.Load()) }
		i := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 100_000, Hot: 8, Now: now, Stepped: true})
		for range 20 {
			for range c.takes {
				i.take(t, "dear", limit, 40)
				i.leases.Step()
			}
			us.Add(int64(100 * time.Millisecond))
		}
		if s := i.leases.Stats(); s.Borrowed > 0 != c.hot {
			t.Errorf("%d takes of 40 in a tenth of a second, where 8 are hot: %+v", c.takes, s)
		}
		i.stop(t)
	}
}

// A block and a reset hold at once in the instance that is told, whatever it had
// on loan, and by whichever limit the balance was named.
func TestCommandsEndLoans(t *testing.T) {
	server := testredis.Start(t)
	limit := weir.Per(100_000, 30*24*time.Hour)
	var us atomic.Int64
	now := func() time.Duration { return time.Duration(us.Load()) }
	i := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 100_000, Hot: 2, Now: now, Stepped: true})
	defer i.stop(t)
	ctx := context.Background()
	borrow := func(key string) {
		t.Helper()
		for range 10 {
			i.take(t, key, limit, 50) // so that a purse holds more than the next take
			i.leases.Step()
		}
		if b := i.take(t, key, limit, 1); b.Source != "lease" {
			t.Fatalf("%s: answered by %s: the test is void", key, b.Source)
		}
	}
	borrow("blocked")
	borrow("reset")
	borrow("other")
	if err := i.Block(ctx, time.Hour, weir.Per(50_000, 30*24*time.Hour).Charge("blocked")); err != nil {
		t.Fatal(err)
	}
	if b := i.take(t, "blocked", limit, 1); b.Allowed {
		t.Errorf("a blocked key is admitted by %s", b.Source)
	}
	if err := i.Reset(ctx, limit.Charge("reset")); err != nil {
		t.Fatal(err)
	}
	if b := i.take(t, "reset", limit, 1); b.Source != "redis" || b.Remaining != 99_999 {
		t.Errorf("after a reset %d are left, by %s", b.Remaining, b.Source)
	}
	i.leases.Step() // what was lent before is given back, and counts for nothing
	if d, err := i.Peek(ctx, limit.Charge("reset")); err != nil || d.Remaining > 99_999 {
		t.Errorf("%d are left after the return (%v)", d.Remaining, err)
	}
	if b := i.take(t, "other", limit, 1); b.Source != "lease" {
		t.Errorf("another key's loan ended: %s", b.Source)
	}
}

// slow is a lender whose loans a test looks at on their way.
type slow struct {
	lease.Lender
	granted func()
}

func (s *slow) Lend(ctx context.Context, c *weir.Charge, units, most int64, life time.Duration) (int64, time.Duration, algo.View, error) {
	granted, until, v, err := s.Lender.Lend(ctx, c, units, most, life)
	if granted > 0 {
		s.granted()
	}
	return granted, until, v, err
}

// A loan that was granted before a block and arrives after it is not spent.
func TestALoanOnItsWayEndsToo(t *testing.T) {
	server := testredis.Start(t)
	store, err := redisstore.Open(server.URL(), redisstore.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	limit, ctx := weir.Per(100_000, 30*24*time.Hour), context.Background()
	between := &slow{Lender: store}
	leases := lease.New(between, lease.Options{Overshoot: 100_000, Hot: 2, Now: func() time.Duration { return 0 }, Stepped: true})
	l, err := weir.New(weir.Options{Store: leases})
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{l, leases}
	defer i.stop(t)
	blocks := 0
	between.granted = func() {
		blocks++
		if err := i.Block(ctx, time.Hour, limit.Charge("k")); err != nil {
			t.Error(err)
		}
	}
	for range 10 {
		i.take(t, "k", limit, 1)
		i.leases.Step()
	}
	if b := i.take(t, "k", limit, 1); b.Allowed || blocks != 1 {
		t.Errorf("admitted by %s after %d blocks", b.Source, blocks)
	}
	if s := i.leases.Stats(); s.Out != 0 || s.Returned != s.Borrowed || s.Borrowed == 0 {
		t.Errorf("%+v", s)
	}
}
