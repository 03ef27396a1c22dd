package lease

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// bank is a store in memory that lends and notes it, on a clock that a test moves.
type bank struct {
	weir.Store
	t      *testing.T
	leases *Leases
	us     int64         // since the epoch
	none   bool          // everything is out elsewhere
	lent   int           // how often it was asked
	trip   time.Duration // on the way to it
	loans  uint64

	during func() // what happens while bills are with the store
	err    error  // of bills
	asked  int    // balances
}

const opened = int64(1_800_000_000_000_000)

func (b *bank) now() time.Duration           { return time.Duration(b.us-opened) * time.Microsecond }
func (b *bank) pass(d time.Duration)         { b.us += d.Microseconds() }
func (b *bank) take(c weir.Charge) weir.Bill { return b.takeFrom(0, c) }

func newBank(t *testing.T, hot int) *bank {
	b := &bank{t: t, us: opened}
	b.Store = weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return b.us }})
	b.leases = New(b, Options{Overshoot: 500_000, Hot: hot, Now: b.now, Stepped: true})
	b.leases.purses = make([]purse, 2)
	return b
}

// takeFrom takes c as a processor does that has purse i, and has the lenders work.
func (b *bank) takeFrom(i int, c weir.Charge) weir.Bill {
	b.t.Helper()
	b.leases.held = sync.Pool{New: func() any { return &b.leases.purses[i] }}
	bill := weir.Bill{Charges: []weir.Charge{c}}
	if err := bill.Check(); err != nil {
		b.t.Fatal(err)
	}
	b.leases.Apply(context.Background(), []*weir.Bill{&bill})
	if bill.Err != nil {
		b.t.Fatal(bill.Err)
	}
	b.leases.Step()
	return bill
}

// large is c with a cost such that a slice has more than it.
func large(c weir.Charge) weir.Charge {
	c.Cost = 50
	return c
}

// hot takes c until it is answered from a loan.
func (b *bank) hot(c weir.Charge) weir.Bill {
	b.t.Helper()
	for range 10 {
		if bill := b.take(c); bill.Source == source {
			return bill
		}
	}
	b.t.Fatal("nothing was lent: the test is void")
	return weir.Bill{}
}

func (b *bank) Apply(ctx context.Context, bills []*weir.Bill) {
	for _, bill := range bills {
		b.asked += len(bill.Balances())
	}
	if b.during != nil {
		b.during()
	}
	if b.err == nil {
		b.Store.Apply(ctx, bills)
		return
	}
	for _, bill := range bills {
		bill.Err = b.err
	}
}

func (b *bank) Lend(ctx context.Context, c *weir.Charge, units, _ int64, life time.Duration) (int64, time.Duration, algo.View, error) {
	b.lent++
	b.pass(b.trip)
	if b.none {
		return 0, 0, algo.View{}, nil
	}
	bill := &weir.Bill{Charges: []weir.Charge{*c}}
	bill.Charges[0].Cost = units
	if err := bill.Check(); err != nil {
		b.t.Fatal(err)
	}
	b.Store.Apply(ctx, []*weir.Bill{bill})
	if !bill.Allowed {
		return 0, 0, algo.View{}, nil
	}
	b.loans++
	c.Receipt = weir.Receipt{ID: b.loans, Cost: units}
	return units, life, bill.Balances()[0].View, nil
}

func (b *bank) Return(_ context.Context, c *weir.Charge, units int64) error {
	for i := range b.leases.purses {
		for j := range b.leases.purses[i].slices {
			if o := &b.leases.purses[i].slices[j]; o.account != nil && o.loan.receipt.ID == c.Receipt.ID {
				b.t.Errorf("%d units were given back of a loan of which purse %d has %d to spend", units, i, o.left)
			}
		}
	}
	return nil
}

// A loan goes back when no purse has any of it: what a purse still has would be out
// while the store lends as much to somebody else, and would never come back.
func TestALoanInAPurseIsNotGivenBack(t *testing.T) {
	b := newBank(t, 2)
	c := weir.Per(100_000, 30*24*time.Hour).Charge("k")
	b.hot(large(c)) // purse 0 has a sixteenth, and spends most of it
	first := b.leases.purses[0].slices[b.slot(c)].loan
	rest := c
	rest.Cost = first.left
	if bill := b.takeFrom(1, rest); bill.Source != source {
		t.Fatalf("the rest was answered by %s", bill.Source)
	}
	for range 5 { // the second purse has the lenders make another loan, and another
		b.takeFrom(1, c)
	}
	b.leases.Step()
	if held := &b.leases.purses[0].slices[b.slot(c)]; held.loan != first || held.left == 0 || b.loans < 2 {
		t.Fatalf("purse 0 has %d of the first of %d loans: the test is void", held.left, b.loans)
	}
	b.pass(2 * time.Second)
	b.leases.Step()
	b.leases.collect(true)
	if s := b.leases.Stats(); s.Out != 0 || s.Borrowed != s.Spent+s.Returned {
		t.Errorf("%+v", s)
	}
}

// slot is where purses have c's slice.
func (b *bank) slot(c weir.Charge) uint64 {
	bill := weir.Bill{Charges: []weir.Charge{c}}
	if err := bill.Check(); err != nil {
		b.t.Fatal(err)
	}
	bal := &bill.Balances()[0]
	return b.leases.place(bal, maphash.String(b.leases.seed, c.Key))
}

// A loan's time ends for what is in purses and for what is not.
func TestALoanEndsInTime(t *testing.T) {
	b := newBank(t, 2)
	c := weir.Per(100_000, 30*24*time.Hour).Charge("k")
	b.hot(large(c))
	loan := b.leases.purses[0].slices[b.slot(c)].loan
	b.pass(loan.until - b.now() - time.Microsecond)
	for purse := range 2 {
		if bill := b.peekFrom(purse, c); bill.Source != source {
			t.Errorf("purse %d just before the end: %s", purse, bill.Source)
		}
	}
	b.pass(time.Microsecond)
	for purse := range 2 {
		if bill := b.peekFrom(purse, c); bill.Source == source {
			t.Errorf("purse %d spends from a loan whose time is up", purse)
		}
	}
}

// peekFrom is takeFrom while the lenders do nothing.
func (b *bank) peekFrom(i int, c weir.Charge) weir.Bill {
	b.t.Helper()
	wishes := b.leases.errands
	b.leases.errands = make(chan errand, 1024)
	defer func() { b.leases.errands = wishes }()
	b.leases.held = sync.Pool{New: func() any { return &b.leases.purses[i] }}
	bill := weir.Bill{Charges: []weir.Charge{c}}
	if err := bill.Check(); err != nil {
		b.t.Fatal(err)
	}
	b.leases.Apply(context.Background(), []*weir.Bill{&bill})
	return bill
}

// An answer from a loan is of now, not of when the loan was made.
func TestTheViewMovesOn(t *testing.T) {
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.FixedWindow} {
		b := newBank(t, 2)
		c := weir.Per(100_000, 30*24*time.Hour).Using(kind).Charge("k")
		before := b.hot(large(c))
		b.pass(time.Millisecond)
		after := b.peekFrom(0, c)
		if after.Source != source || before.ResetAfter-after.ResetAfter != time.Millisecond {
			t.Errorf("%s: reset after %v, and a millisecond later after %v by %s", kind, before.ResetAfter, after.ResetAfter, after.Source)
		}
	}
}

// The lender does not ask for a key that has nothing to lend, until there may be.
func TestADryKeyIsLeftAlone(t *testing.T) {
	b := newBank(t, 4)
	c := weir.Per(100, time.Hour).Charge("spent")
	whole := c
	whole.Cost = 100
	b.take(whole)
	for range 20 {
		if bill := b.take(c); bill.Allowed {
			t.Fatal("more than the limit was admitted")
		}
	}
	if b.lent != 0 {
		t.Errorf("asked %d times for a key that is at its limit", b.lent)
	}
	b.none = true
	c = weir.Per(100_000, time.Hour).Charge("lent elsewhere")
	for round := 1; round <= 3; round++ {
		for range 20 {
			b.take(c)
		}
		if b.lent != round {
			t.Errorf("round %d: asked %d times for a key of which all is out", round, b.lent)
		}
		b.pass(beat / 4)
	}
}

// A slice is of one balance under one limit, whatever else has its place.
func TestASliceIsOfOneBalance(t *testing.T) {
	limit := weir.Per(100_000, 30*24*time.Hour)
	for name, other := range map[string]weir.Charge{
		"another name":  limit.Named("n").Charge("k"),
		"another burst": limit.Burst(50_000).Charge("k"),
		"another space": limit.Charge("k"),
	} {
		b := newBank(t, 2)
		c := limit.Charge("k")
		for i := 0; name == "another space" && (other.Space == "" || b.slot(other) != b.slot(c)); i++ {
			other.Space = fmt.Sprint("space ", i)
		}
		b.hot(large(c))
		if b.slot(other) != b.slot(c) {
			t.Fatalf("%s has another place: the test is void", name)
		}
		if bill := b.take(other); bill.Source == source {
			t.Errorf("%s was charged to what was lent of the first", name)
		}
	}
}

// A charge from a loan has the store's time at the most, however long it took to lend:
// a receipt from ahead of that outlives a reset, and pays for what others charge after.
func TestAReceiptFromALoanIsNotAhead(t *testing.T) {
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.FixedWindow, algo.SlidingWindow} {
		b := newBank(t, 2)
		b.trip = 40 * time.Millisecond
		c := weir.Per(100_000, 30*24*time.Hour).Using(kind).Charge("k")
		bill := b.hot(large(c))
		if at := bill.Charges[0].Receipt.At; at > b.us {
			t.Errorf("%s: charged %d µs ahead of the store", kind, at-b.us)
		}
		b.pass(time.Millisecond)
		do := func(verb algo.Verb, c weir.Charge) weir.Charge {
			one := &weir.Bill{Verb: verb, Charges: []weir.Charge{c}}
			if err := one.Check(); err != nil {
				t.Fatal(err)
			}
			if b.Apply(context.Background(), []*weir.Bill{one}); one.Err != nil {
				t.Fatal(one.Err)
			}
			return one.Charges[0]
		}
		do(algo.Reset, c)
		b.pass(time.Second)
		do(algo.Take, large(c))
		if back := do(algo.Refund, bill.Charges[0]); back.Receipt.Refunded != 0 {
			t.Errorf("%s: %d came back of what was before the reset", kind, back.Receipt.Refunded)
		}
	}
}
