package weir

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
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
	for l.fallback.owed(&fast) > 0 {
	}
	c.set(func() { c.away = false })
	l.fallback.debts.settle(context.Background())
	owes(t, l, 0, 0)
	if len(c.debited) != 0 {
		t.Errorf("debited are %v", c.debited)
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
