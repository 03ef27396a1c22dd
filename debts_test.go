package weir

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/algo"
)

// creditor is a store that is away, or takes debts; a debt's outcome may be
// unknown although it was taken.
type creditor struct {
	mu      sync.Mutex
	fault   StoreError
	away    bool
	silent  bool // it takes debts and nobody hears of it
	debited map[string]int64
	known   map[uint64]bool
	sent    int
}

func (c *creditor) Caps() Caps {
	return Caps{Source: "creditor", Verbs: []algo.Verb{algo.Take, algo.Repay}}
}
func (c *creditor) Close() error { return nil }

func (c *creditor) Apply(_ context.Context, bills []*Bill) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range bills {
		fault := c.fault
		switch {
		case c.away || b.Verb != algo.Repay:
			b.Err = &fault
			continue
		case !c.known[b.Charges[0].Receipt.ID]:
			c.known[b.Charges[0].Receipt.ID] = true
			c.debited[b.Charges[0].Key] += b.Charges[0].Cost
		}
		c.sent++
		if c.silent {
			b.Err = &StoreError{Kind: "timeout", Unknown: true}
		}
	}
}

func newCreditor(t *testing.T) (*creditor, *Limiter) {
	t.Helper()
	c := &creditor{debited: map[string]int64{}, known: map[uint64]bool{}, fault: StoreError{Kind: "unreachable", Unreachable: true}, away: true}
	l, err := New(Options{Store: c, Instances: func() int { return 2 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, l
}

func (c *creditor) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func owes(t *testing.T, l *Limiter, owed, settled int64) {
	t.Helper()
	if o, s, _ := l.Debts(); o != owed || s != settled {
		t.Errorf("%d owed and %d settled, want %d and %d", o, s, owed, settled)
	}
}

// Only what was admitted by a limit that answers local or share is owed, and only
// where the store cannot have charged it.
func TestWhatIsOwed(t *testing.T) {
	c, l := newCreditor(t)
	ctx, limit := context.Background(), Per(10, 24*time.Hour)
	take := func(key string, limits ...Limit) {
		t.Helper()
		if _, err := l.Allow(ctx, key, limits...); err != nil {
			t.Fatal(err)
		}
	}
	take("a", limit)
	take("a", limit, limit.Named("share").OnFailure(Share), limit.Named("open").OnFailure(Open))
	owes(t, l, 3, 0) // 2 of the one, 1 of the share, none of the open one
	take("b", limit.OnFailure(Open))
	take("b", limit.OnFailure(Closed), limit.Named("local"))
	for range 20 {
		take("c", limit.OnFailure(Share)) // 5 is half of 10
	}
	owes(t, l, 8, 0)
	shadow := limit.Charge("d")
	shadow.Trial = -1
	if _, err := l.Take(ctx, limit.Charge("a"), shadow); err != nil {
		t.Fatal(err)
	}
	owes(t, l, 9, 0)
	c.set(func() { c.fault.Unknown = true })
	take("e", limit)
	owes(t, l, 9, 0)
	c.set(func() { c.away = false })
	l.fallback.debts.settle(ctx)
	owes(t, l, 0, 9)
	if c.debited["a"] != 4 || c.debited["c"] != 5 || len(c.debited) != 2 {
		t.Errorf("debited are %v", c.debited)
	}
}

// A debt whose outcome is unknown is sent again under its id, and what is admitted
// meanwhile is a debt of its own.
func TestADebtIsSentAgainUnderItsID(t *testing.T) {
	c, l := newCreditor(t)
	ctx, limit := context.Background(), Per(10, 24*time.Hour)
	take := func() {
		t.Helper()
		if d, err := l.Allow(ctx, "k", limit); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	take()
	take()
	c.set(func() { c.away, c.silent = false, true })
	for range 3 {
		l.fallback.debts.settle(ctx)
	}
	// That the store is away now says nothing of the times before.
	c.set(func() { c.away, c.silent = true, false })
	l.fallback.debts.settle(ctx)
	c.set(func() { c.away, c.silent = false, true })
	take()
	owes(t, l, 3, 0)
	c.set(func() { c.silent = false })
	l.fallback.debts.settle(ctx)
	owes(t, l, 0, 3)
	if c.debited["k"] != 3 || len(c.known) != 2 || c.sent < 5 {
		t.Errorf("%d debited under %d ids in %d calls", c.debited["k"], len(c.known), c.sent)
	}
}

// What time has given back is not owed any more.
func TestADebtIsNoMoreThanWhatIsMissing(t *testing.T) {
	c, l := newCreditor(t)
	if _, err := l.AllowN(context.Background(), "k", 5, Per(10, time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	fast := Per(10, time.Millisecond).Charge("k")
	quota := fast.Limit.Quota()
	for l.fallback.owed(&fast, &quota) > 0 {
	}
	c.set(func() { c.away = false })
	l.fallback.debts.settle(context.Background())
	owes(t, l, 0, 0)
	if len(c.debited) != 0 {
		t.Errorf("debited are %v", c.debited)
	}
}

// Nor is it owed where the outcome of a first sending is unknown: if that was charged,
// the store has regained as much by itself.
func TestADebtOfUnknownOutcomeIsNoMoreThanWhatIsMissing(t *testing.T) {
	for minutes, want := range map[int64]int64{0: 10, 4: 6, 15: 0} {
		synctest.Test(t, func(t *testing.T) {
			c := &creditor{debited: map[string]int64{}, known: map[uint64]bool{}, fault: StoreError{Kind: "unreachable", Unreachable: true}, away: true}
			l, err := New(Options{Store: c})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			if _, err := l.AllowN(ctx, "k", 10, Per(10, 10*time.Minute)); err != nil {
				t.Fatal(err)
			}
			c.set(func() { c.fault.Unknown = true })
			l.fallback.debts.settle(ctx)
			<-time.After(time.Duration(minutes) * time.Minute)
			synctest.Wait()
			c.set(func() { c.away = false })
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			owes(t, l, 0, want)
			if c.debited["k"] != want {
				t.Errorf("%d minutes later %v are debited, want %d", minutes, c.debited, want)
			}
		})
	}
}

// unreadable is a creditor with one balance that nobody can read.
type unreadable struct{ *creditor }

func (u unreadable) Apply(ctx context.Context, bills []*Bill) {
	u.creditor.Apply(ctx, bills)
	for _, b := range bills {
		if b.Charges[0].Key == "bad" {
			b.Err = &StoreError{Kind: "bad_state"}
		}
	}
}

// One balance that cannot be read holds up nobody else's debts.
func TestABadBalanceHoldsUpNoDebts(t *testing.T) {
	c, l := newCreditor(t)
	l.fallback.debts.store = unreadable{c}
	const keys = 3 * debtFlight
	for i := range keys + 1 {
		key := "bad"
		if i < keys {
			key = fmt.Sprint(i)
		}
		if _, err := l.Allow(context.Background(), key, Per(10, 24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	c.set(func() { c.away = false })
	l.fallback.debts.settle(context.Background())
	owes(t, l, 1, keys)
}

// cutter is a layer that leaves a region's share of every limit: so many units of it.
type cutter struct {
	*creditor
	left int64
}

func (c *cutter) Apply(ctx context.Context, bills []*Bill) {
	c.creditor.Apply(ctx, bills)
	for _, b := range bills {
		for i := range b.balances {
			if bal := &b.balances[i]; b.Verb <= algo.Peek {
				bal.Quota.N, bal.Quota.Capacity = c.left, c.left
				bal.Measure()
			}
		}
	}
}

// What was charged under a share of a limit is owed as that share gives it back, and
// read as the share has it beside a closed limit.
func TestADebtOfAShareIsOfThatShare(t *testing.T) {
	for _, answer := range []struct {
		Failure
		instances int
		first     int64 // what the layer leaves for 25 s; then it leaves 6
		limit     int64 // what is in force then
		owed      int64 // what those seconds did not give back, and what was admitted then
		missing   int64 // 22 s later
	}{
		{Local, 1, 6, 6, 4 + 2, 4},
		{Local, 2, 6, 6, 4 + 2, 4},
		{Local, 1, 3, 6, 2 + 2, 4}, // the share has grown: its balance refills as it does now
		{Share, 2, 6, 3, 2 + 1, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &creditor{debited: map[string]int64{}, known: map[uint64]bool{}, fault: StoreError{Kind: "unreachable", Unreachable: true}, away: true}
			layer := &cutter{c, answer.first}
			l, err := New(Options{Store: layer, Instances: func() int { return answer.instances }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			ctx, limit := context.Background(), Per(20, time.Minute).OnFailure(answer.Failure)
			spend := func() {
				t.Helper()
				for range 9 {
					if _, err := l.Allow(ctx, "k", limit); err != nil {
						t.Fatal(err)
					}
				}
			}
			spend()
			<-time.After(25 * time.Second)
			synctest.Wait()
			layer.left = 6
			spend()
			owes(t, l, answer.owed, 0)
			beside := Bill{Charges: []Charge{limit.Charge("k"), limit.Charge("free"), limit.OnFailure(Closed).Charge("closed")}}
			if err := l.Decide(ctx, &beside); err != nil {
				t.Fatal(err)
			}
			if spent, free := beside.Each[0], beside.Each[1]; spent.Allowed || spent.Remaining != 0 || spent.Limit != answer.limit ||
				!free.Allowed || free.Remaining != answer.limit || free.Limit != answer.limit {
				t.Errorf("%v of %d: beside a closed limit a spent share reads %+v, another %+v", answer.Failure, answer.instances, spent, free)
			}
			<-time.After(22 * time.Second)
			synctest.Wait()
			c.set(func() { c.away = false })
			l.fallback.debts.settle(ctx)
			if c.debited["k"] != answer.missing {
				t.Errorf("%v of %d: %d debited at last, want %d", answer.Failure, answer.instances, c.debited["k"], answer.missing)
			}
		})
	}
}

// Debts are bounded in bytes; what does not fit is counted. Close pays the rest.
func TestDebtsAreBounded(t *testing.T) {
	c, l := newCreditor(t)
	limit, long := Per(10, 24*time.Hour), strings.Repeat("k", 1000)
	const keys = 20_000
	for i := range keys {
		if _, err := l.Allow(context.Background(), fmt.Sprint(long, i), limit); err != nil {
			t.Fatal(err)
		}
	}
	d := &l.fallback.debts
	owed, _, dropped := l.Debts()
	if d.bytes > debtBytes || dropped == 0 || owed+dropped != keys {
		t.Errorf("%d bytes, %d owed, %d dropped of %d", d.bytes, owed, dropped, keys)
	}
	c.set(func() { c.away = false })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left, settled, _ := l.Debts(); left+settled != owed || settled == 0 {
		t.Errorf("%d of %d paid at the end, %d left", settled, owed, left)
	}
	if left, _, _ := l.Debts(); left == 0 && d.bytes != 0 {
		t.Errorf("%d bytes are counted of nothing", d.bytes)
	}
}

// watched is a store that is looked at while it is asked.
type watched struct {
	Store
	during func()
}

func (w watched) Apply(ctx context.Context, bills []*Bill) {
	w.during()
	w.Store.Apply(ctx, bills)
}

// What is on its way to the store is owed until it has arrived, whether or not it
// then comes back.
func TestDebtsOnTheirWayAreOwed(t *testing.T) {
	c, l := newCreditor(t)
	ctx, limit := context.Background(), Per(10, 24*time.Hour)
	for _, key := range []string{"a", "b", "b"} {
		if _, err := l.Allow(ctx, key, limit); err != nil {
			t.Fatal(err)
		}
	}
	looks := 0
	l.fallback.debts.store = watched{c, func() { looks++; owes(t, l, 3, 0) }}
	l.fallback.debts.settle(ctx) // the store is away
	owes(t, l, 3, 0)
	c.set(func() { c.away, c.silent = false, true })
	l.fallback.debts.settle(ctx) // nobody hears of it
	owes(t, l, 3, 0)
	c.set(func() { c.silent = false })
	l.fallback.debts.settle(ctx)
	owes(t, l, 0, 3)
	if looks != 3 {
		t.Errorf("the store was asked %d times", looks)
	}
}
