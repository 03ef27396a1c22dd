package lease

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

const month = 30 * 24 * time.Hour

// layered is a bill of a caller's own limit and two that all share.
func (b *bank) layered(own weir.Charge) *weir.Bill {
	b.t.Helper()
	bill := &weir.Bill{Charges: []weir.Charge{
		weir.Per(100_000, month).Named("tenant").Charge("t"), own, weir.Per(100_000, month).Named("all").Charge("a"),
	}}
	b.apply(bill)
	return bill
}

func (b *bank) apply(bills ...*weir.Bill) {
	b.t.Helper()
	b.leases.held = sync.Pool{New: func() any { return &b.leases.purses[0] }}
	for _, bill := range bills {
		if err := bill.Check(); err != nil {
			b.t.Fatal(err)
		}
	}
	b.leases.Apply(context.Background(), bills)
	b.leases.Step()
}

// lent has the shared limits of layered on loan.
func lent(t *testing.T) *bank {
	b := newBank(t, 2)
	for range 10 {
		b.layered(weir.PerMinute(100).Charge("somebody"))
	}
	if s := b.leases.Stats(); s.Out == 0 || s.Spent == 0 {
		t.Fatalf("nothing was lent: the test is void: %+v", s)
	}
	return b
}

var one, none = weir.Per(1, month).Charge("own"), weir.Per(0, month).Charge("own")

// The store is asked for a caller's own balance alone; what is on loan is spent if that
// passes, and stays where it was if it does not.
func TestABillTakesWhatIsOnLoan(t *testing.T) {
	b := lent(t)
	before, asked := b.leases.Stats(), b.asked
	if bill := b.layered(one); !bill.Allowed || bill.Err != nil || bill.Source != "memory" || bill.Binding != 1 {
		t.Errorf("%+v %v", bill.Decision, bill.Err)
	}
	if got := b.asked - asked; got != 1 {
		t.Errorf("the store was asked for %d balances", got)
	}
	if s := b.leases.Stats(); s.Spent != before.Spent+2 || s.Out != before.Out-2 {
		t.Errorf("admitted: %+v, before %+v", s, before)
	}
	before = b.leases.Stats()
	for _, own := range []weir.Charge{one, none} {
		bill := b.layered(own)
		if bill.Allowed || bill.Err != nil || bill.Binding != 1 {
			t.Errorf("%+v %v", bill.Decision, bill.Err)
		}
		for _, i := range []int{0, 2} {
			if d := bill.Each[i]; !d.Allowed || bill.Charges[i].Receipt.ID != 0 {
				t.Errorf("beside the refusal: %+v, receipt %+v", d, bill.Charges[i].Receipt)
			}
		}
	}
	if s := b.leases.Stats(); s.Spent != before.Spent || s.Borrowed-s.Out != before.Borrowed-before.Out {
		t.Errorf("refused: %+v, before %+v", s, before)
	}
	b.leases.collect(true)
	if s := b.leases.Stats(); s.Out != 0 || s.Borrowed != s.Spent+s.Returned {
		t.Errorf("%+v", s)
	}
}

// What fails is not spent, and the limits' stated answer is all of the bill's.
func TestABillWhoseRestFails(t *testing.T) {
	b := lent(t)
	before := b.leases.Stats()
	b.err = errors.New("away")
	bill := b.layered(one)
	if !errors.Is(bill.Err, b.err) {
		t.Errorf("%v", bill.Err)
	}
	if s := b.leases.Stats(); s != before {
		t.Errorf("%+v, before %+v", s, before)
	}
	for i := range bill.Balances() {
		if bill.Balances()[i].Debited {
			t.Errorf("balance %d is debited", i)
		}
	}
}

// Nothing is asked where all of a bill is on loan.
func TestABillThatIsAllOnLoan(t *testing.T) {
	b := lent(t)
	asked := b.asked
	bill := &weir.Bill{Charges: []weir.Charge{
		weir.Per(100_000, month).Named("tenant").Charge("t"), weir.Per(100_000, month).Named("all").Charge("a"),
	}}
	b.apply(bill)
	if !bill.Allowed || bill.Source != source || b.asked != asked {
		t.Errorf("%+v, %d balances asked", bill.Decision, b.asked-asked)
	}
}

// A shadow charge is judged by the store, after the verdict, and has no say in it.
func TestAShadowGoesWithTheRest(t *testing.T) {
	b := lent(t)
	shadow := weir.PerMinute(1).Charge("shadow")
	shadow.Trial = -1
	for n := range 3 {
		bill := &weir.Bill{Charges: []weir.Charge{shadow, weir.Per(100_000, month).Named("all").Charge("a")}}
		b.apply(bill)
		if !bill.Allowed || bill.Each[0].Allowed != (n == 0) || !bill.Each[1].Allowed {
			t.Errorf("%d: %+v", n, bill.Each)
		}
	}
}

// A try is judged by the store with the balance that it stands for, as without leases, and
// that is not lent meanwhile.
func TestATryGoesWithWhatItStandsFor(t *testing.T) {
	all, own := weir.Per(100_000, month).Named("all").Charge("a"), weir.Per(3, month).Charge("own") // too small to be lent
	plain, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for stands, asked := range map[int8]int{1: 2, 2: 3} { // for own: own and the try; for all: all three
		b := lent(t)
		for n := range 6 {
			try := weir.Per(2, month).Named("try").Charge("own" + string('0'+rune(stands)))
			try.Trial = stands
			charges := []weir.Charge{own, all, try}
			charges[0].Key += string('0' + rune(stands))
			want, got := &weir.Bill{Charges: charges}, &weir.Bill{Charges: slices.Clone(charges)}
			before := b.asked
			if err := plain.Decide(context.Background(), want); err != nil {
				t.Fatal(err)
			}
			if b.apply(got); b.asked-before != asked {
				t.Errorf("%d balances asked, want %d", b.asked-before, asked)
			}
			for i := range got.Each {
				if got.Each[i].Allowed != want.Each[i].Allowed || got.Allowed != want.Allowed {
					t.Errorf("in place of %d, bill %d, charge %d: %+v, without leases %+v", stands, n, i, got.Each[i], want.Each[i])
				}
			}
		}
	}
}

// Units go back to where they are good, wherever their loan is by then.
func TestWhatIsHeldGoesBack(t *testing.T) {
	for name, during := range map[string]func(b *bank){
		"to the slice": func(*bank) {},
		"to the loan":  func(b *bank) { b.leases.empty(func(*slice) bool { return true }) },
		"to a loan whose time is up": func(b *bank) {
			b.pass(2 * time.Second)
		},
		"to a loan that is to be given back": func(b *bank) {
			b.pass(2 * time.Second)
			b.leases.Step()
			b.leases.Step()
		},
		"to a loan of a key that was reset": func(b *bank) {
			for _, c := range []weir.Charge{weir.Per(100_000, month).Named("tenant").Charge("t"), weir.Per(100_000, month).Named("all").Charge("a")} {
				b.leases.recall(&c)
			}
			b.leases.collect(true)
		},
	} {
		b := lent(t)
		before := b.leases.Stats()
		b.during = func() { during(b) }
		bill := b.layered(none)
		b.during = nil
		if s := b.leases.Stats(); bill.Allowed || s.Spent != before.Spent {
			t.Errorf("%s: %+v, %+v, before %+v", name, bill.Decision, s, before)
		}
		for range 3 {
			b.pass(2 * time.Second)
			b.leases.collect(true)
		}
		if s := b.leases.Stats(); s.Out != 0 || s.Borrowed != s.Spent+s.Returned {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A charge's receipt is due one charge after the one before it, however many were held
// between them and went back.
func TestHeldUnitsOweNothing(t *testing.T) {
	b := lent(t)
	due := func() int64 { return b.layered(weir.PerMinute(100).Charge("somebody")).Charges[0].Receipt.Due }
	first, second := due(), due()
	for range 5 {
		b.layered(none)
	}
	const each = int64(month/time.Microsecond) / 100_000
	if third := due(); second-first != each || third-second != each {
		t.Errorf("due %d µs after the one before it, and then %d", second-first, third-second)
	}
}

// Charges that share a balance are the store's: a loan has one receipt for both.
func TestASharedBalanceIsNotHeld(t *testing.T) {
	b := lent(t)
	asked := b.asked
	all := weir.Per(100_000, month).Named("all").Charge("a")
	bill := &weir.Bill{Charges: []weir.Charge{one, all, all}}
	if b.apply(bill); !bill.Allowed || b.asked-asked != 2 {
		t.Errorf("%+v, %d balances asked", bill.Decision, b.asked-asked)
	}
}

// What was held of a loan is that loan's again, though its slice is of another by then.
func TestHeldUnitsGoToTheirOwnLoan(t *testing.T) {
	b := lent(t)
	all := weir.Per(100_000, month).Named("all").Charge("a")
	slice := &b.leases.purses[0].slices[b.slot(all)]
	fill := func() {
		for range 20 {
			if slice.of(&all) {
				return
			}
			b.layered(weir.PerMinute(100).Charge("somebody"))
		}
		t.Fatal("nothing was lent: the test is void")
	}
	fill()
	old, was := slice.loan, int64(0)
	var running algo.View
	b.during = func() {
		b.during = nil
		b.leases.recall(&all)
		fill()
		was, running = old.left, old.running
	}
	if bill := b.layered(none); bill.Allowed || slice.loan == old {
		t.Fatalf("%+v: the test is void", bill.Decision)
	}
	quota := slice.account.quota
	if old.left != was+1 || old.running != unspent(&quota, running, 1) {
		t.Errorf("%d units of the loan, before %d; %+v, before %+v", old.left, was, old.running, running)
	}
}

// Many cold keys make none give way of which something is out, however cold it is.
func TestALentKeyStaysAmongColdOnes(t *testing.T) {
	b := lent(t)
	b.during = func() {
		b.during = nil
		b.pass(2 * time.Second)
		b.leases.Step() // the loans' time is up, but a bill has units of them
		for n := range 2 * shards * accounts {
			b.apply(&weir.Bill{Charges: []weir.Charge{weir.Per(100_000, month).Charge(strconv.Itoa(n))}})
		}
	}
	b.layered(none)
	for i := range b.leases.shards {
		if n := len(b.leases.shards[i].accounts); n > accounts {
			t.Errorf("shard %d watches %d keys", i, n)
		}
	}
	b.leases.collect(true)
	if s := b.leases.Stats(); s.Borrowed == 0 || s.Out != 0 {
		t.Errorf("%+v", s)
	}
}

// Bills that come together are split one by one, and none is asked that need not be.
func TestBillsTogetherAreSplit(t *testing.T) {
	b := lent(t)
	shared := []weir.Charge{weir.Per(100_000, month).Named("tenant").Charge("t"), weir.Per(100_000, month).Named("all").Charge("a")}
	all := &weir.Bill{Charges: shared}
	passes := &weir.Bill{Charges: append([]weir.Charge{one}, shared...)}
	fails := &weir.Bill{Charges: append([]weir.Charge{none}, shared...)}
	single := &weir.Bill{Charges: []weir.Charge{weir.PerMinute(5).Charge("single")}}
	asked, before := b.asked, b.leases.Stats()
	b.apply(all, passes, fails, single)
	if !all.Allowed || !passes.Allowed || fails.Allowed || !single.Allowed {
		t.Errorf("%v %v %v %v", all.Allowed, passes.Allowed, fails.Allowed, single.Allowed)
	}
	if s := b.leases.Stats(); b.asked-asked != 3 || s.Spent != before.Spent+4 {
		t.Errorf("%d balances asked, %+v, before %+v", b.asked-asked, s, before)
	}
}
