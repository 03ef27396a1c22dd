package weir

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// downStore is a store that cannot decide.
type downStore struct {
	err  *StoreError
	full bool // can do every verb
}

func (d *downStore) Apply(_ context.Context, bills []*Bill) {
	for _, b := range bills {
		b.Err = d.err
	}
}

func (d *downStore) Caps() Caps {
	c := Caps{Source: "redis", Verbs: []algo.Verb{algo.Take, algo.Peek}}
	if d.full {
		c.Verbs = append(c.Verbs, algo.Refund, algo.Reset, algo.Block)
	}
	return c
}

func (d *downStore) Close() error { return nil }

var (
	unreachable = &StoreError{Kind: "unreachable", Unreachable: true}
	slow        = &StoreError{Kind: "timeout", Unknown: true}
)

func downLimiter(t *testing.T, s *downStore, instances int) *Limiter {
	t.Helper()
	l, err := New(Options{Store: s, Instances: func() int { return instances }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestFailureAnswers sends five charges of 1 to a limit of 4 while the store is
// away.
func TestFailureAnswers(t *testing.T) {
	for _, c := range []struct {
		failure   Failure
		err       *StoreError
		instances int
		admitted  int
		reason    Reason // of the last
		source    string
		retry     bool
	}{
		{Local, unreachable, 3, 4, Limited, "local", true},
		{Local, slow, 3, 4, Limited, "local", true},
		{Share, unreachable, 0, 4, Limited, "local", true},
		{Share, unreachable, 1, 4, Limited, "local", true},
		{Share, unreachable, 2, 2, Limited, "local", true},
		{Share, slow, 100, 1, Limited, "local", true}, // at least one
		{Open, unreachable, 1, 5, FailedOpen, "none", false},
		{Open, slow, 1, 4, Limited, "local", true}, // load cannot switch limits off
		{Closed, unreachable, 1, 0, FailedClosed, "none", true},
		{Closed, slow, 1, 0, FailedClosed, "none", true},
	} {
		for _, limit := range everyKind(4, time.Hour) {
			l := downLimiter(t, &downStore{err: c.err}, c.instances)
			admitted := 0
			var last *Bill
			for range 5 {
				last = &Bill{Charges: []Charge{limit.OnFailure(c.failure).Charge("k")}}
				if err := l.Decide(context.Background(), last); err != nil {
					t.Fatal(err)
				}
				if !errors.Is(last.Err, c.err) {
					t.Errorf("Err is %v: a caller cannot see why", last.Err)
				}
				if last.Allowed {
					admitted++
				}
			}
			if admitted != c.admitted || last.Reason != c.reason || last.Source != c.source || last.RetryAfter > 0 != c.retry || last.Limit < 1 {
				t.Errorf("%s %s, %s, %d instances: %d admitted, last %+v", limit.Kind(), c.failure, c.err.Kind, c.instances, admitted, last.Decision)
			}
		}
	}
}

// TestFailurePrecedence: in a bill closed beats local and share beat open, and a
// trial has no say.
func TestFailurePrecedence(t *testing.T) {
	on := func(f Failure) Charge { return Per(9, time.Hour).OnFailure(f).Named(f.String()).Charge("k") }
	trial := on(Closed)
	trial.Trial = -1
	free := Unlimited().OnFailure(Closed).Charge("k")
	peek := on(Closed)
	peek.Cost, peek.Peek = 0, true
	for _, c := range []struct {
		name    string
		charges []Charge
		allowed bool
		reason  Reason
		source  string
		binding uint8
	}{
		{"closed beats all", []Charge{on(Local), on(Open), on(Closed), on(Share)}, false, FailedClosed, "none", 2},
		{"local beats open", []Charge{on(Open), on(Local)}, true, OK, "local", 0},
		{"share beats open", []Charge{on(Open), on(Share)}, true, OK, "local", 1},
		{"open alone", []Charge{on(Open), Unlimited().Charge("k")}, true, FailedOpen, "none", 0},
		{"a closed trial has no say", []Charge{on(Open), trial}, true, FailedOpen, "none", 0},
		{"unlimited keeps nothing and needs no store", []Charge{on(Open), free}, true, FailedOpen, "none", 0},
		{"a closed peek is admitted", []Charge{peek}, true, OK, "none", 0},
	} {
		l := downLimiter(t, &downStore{err: unreachable}, 2)
		b := &Bill{Charges: c.charges}
		if err := l.Decide(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if b.Allowed != c.allowed || b.Reason != c.reason || b.Source != c.source || b.Binding != c.binding {
			t.Errorf("%s: %+v", c.name, b.Decision)
		}
	}
}

// TestFailureOfCommands: refund, reset and block have no stated answer, so the
// caller is told.
func TestFailureOfCommands(t *testing.T) {
	ctx := context.Background()
	c := PerMinute(1).Charge("k")
	c.Receipt.ID, c.Receipt.For = 1, c.balanceHash()
	for _, full := range []bool{true, false} {
		l := downLimiter(t, &downStore{err: unreachable, full: full}, 1)
		want := "unreachable"
		if !full {
			want = "unsupported"
		}
		for name, err := range map[string]error{"refund": l.Refund(ctx, c), "reset": l.Reset(ctx, c), "block": l.Block(ctx, time.Second, c)} {
			var se *StoreError
			if !errors.As(err, &se) || se.Kind != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}

// TestStoreComesBack: the answers follow the store both ways.
func TestStoreComesBack(t *testing.T) {
	w := newWorld(t)
	s := &switched{Store: w.memory}
	l, err := New(Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	limit := PerMinute(3)
	for i, want := range []string{"memory", "local", "memory", "local"} {
		s.down = want == "local"
		d, err := l.Allow(context.Background(), "k", limit)
		if err != nil || d.Source != want || d.Remaining != int64(2-i/2) {
			t.Errorf("%d: %+v, %v", i, d, err)
		}
	}
}

type switched struct {
	Store
	down bool
}

func (s *switched) Apply(ctx context.Context, bills []*Bill) {
	if !s.down {
		s.Store.Apply(ctx, bills)
		return
	}
	(&downStore{err: unreachable}).Apply(ctx, bills)
}

func TestErrorsOfALimiter(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := PerMinute(1).Charge("k")
	c.Receipt.ID, c.Receipt.For = 1, c.balanceHash()
	calls := map[string]func() error{
		"Allow":  func() error { _, err := l.Allow(ctx, "k", PerMinute(1)); return err },
		"Take":   func() error { _, err := l.Take(ctx, c); return err },
		"Peek":   func() error { _, err := l.Peek(ctx, c); return err },
		"Wait":   func() error { _, err := l.Wait(ctx, c); return err },
		"Decide": func() error { return l.Decide(ctx, &Bill{Charges: []Charge{c}}) },
		"Refund": func() error { return l.Refund(ctx, c) },
		"Reset":  func() error { return l.Reset(ctx, c) },
		"Block":  func() error { return l.Block(ctx, time.Second, c) },
	}
	cancel()
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a dead context: %v", name, err)
		}
	}
	if l.Close() != nil || l.Close() != nil {
		t.Error("closing twice")
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed limiter: %v", name, err)
		}
	}
}

// TestShare: a share is at least one unit, and can always be used.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"100/min", 1, "100/min"},
		{"100/min", 0, "100/min"},
		{"100/min", 3, "33/min"},
		{"100/min burst=10", 3, "33/min burst=3"},
		{"2/min", 5, "1/min"},
		{"0/min", 5, "0/min"},
		{"unlimited", 5, "unlimited"},
		{"10/s burst=9 algorithm=leaky_bucket", 2, "5/s burst=4 algorithm=leaky_bucket"},
		{"10/s algorithm=leaky_bucket", 2, "5/s algorithm=leaky_bucket"},
		{"10/s algorithm=sliding_window name=x on_store_failure=share", 4, "2/s algorithm=sliding_window name=x on_store_failure=share"},
		{"1/day burst=3660", 4, "1/day burst=915"},
		{"3/day burst=10980", 2, "1/day burst=2745"}, // 5490 would not refill in time
	} {
		if got := limit(t, c.in).Share(c.n); got.String() != c.want || got.Check() != nil {
			t.Errorf("%s shared by %d is %s (%v), want %s", c.in, c.n, got, got.Check(), c.want)
		}
	}
}

// What can never be admitted needs no store to be refused, whatever the limit
// states for an outage.
func TestWhatCanNeverFitIsRefusedWithoutAStore(t *testing.T) {
	for _, c := range []struct {
		limit  string
		cost   int64
		reason Reason
	}{
		{"0/min on_store_failure=open", 1, Limited},
		{"0/min on_store_failure=closed", 1, Limited},
		{"5/min on_store_failure=open", 6, TooLarge},
		{"5/min on_store_failure=closed", 6, TooLarge},
	} {
		l, err := New(Options{Store: gone{NewMemory(MemoryOptions{})}})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.Take(context.Background(), withCost(limit, "k", c.cost))
		if err != nil || d.Allowed || d.Reason != c.reason || d.RetryAfter != Never {
			t.Errorf("%d of %s: %+v %v", c.cost, c.limit, d, err)
		}
		if d, err := l.Peek(context.Background(), Charge{Key: "k", Limit: limit, Peek: true}); err != nil || !d.Allowed {
			t.Errorf("a peek at %s: %+v %v", c.limit, d, err)
		}
	}
}

// gone is a store that nobody can talk to.
type gone struct{ Store }

func (gone) Apply(_ context.Context, bills []*Bill) {
	for _, b := range bills {
		b.Err = &StoreError{Kind: "unreachable", Unreachable: true}
	}
}

// What this instance admits by itself was never debited in the store, so there is
// no receipt that could take it from there.
func TestALocalAnswerHasNoReceipt(t *testing.T) {
	l, err := New(Options{Store: gone{NewMemory(MemoryOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	b := &Bill{Charges: []Charge{Per(10, time.Minute).Charge("k")}}
	if err := l.Decide(context.Background(), b); err != nil || !b.Allowed || b.Source != "local" {
		t.Fatal(b.Decision, err)
	}
	if b.Charges[0].Receipt != (Receipt{}) {
		t.Errorf("a local answer carries %+v", b.Charges[0].Receipt)
	}
}

// TestEachChargeHasItsOwnAnswer: a closed limit refuses the bill, and what stands
// beside it reads as what it states itself, undebited: a local one as this
// instance knows it.
func TestEachChargeHasItsOwnAnswer(t *testing.T) {
	charges := []Charge{
		limit(t, "4/hour on_store_failure=open").Charge("a"),
		limit(t, "5/hour on_store_failure=closed").Charge("b"),
		limit(t, "6/hour on_store_failure=local").Charge("c"),
		limit(t, "8/hour on_store_failure=share").Charge("d"),
	}
	l := downLimiter(t, &downStore{err: unreachable}, 2)
	if _, err := l.Take(context.Background(), charges[2], charges[2]); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and a refusal debits nothing
		b := Bill{Charges: charges}
		if err := l.Decide(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		if b.Allowed || b.Reason != FailedClosed || b.Binding != 1 {
			t.Errorf("the bill: %+v", b.Decision)
		}
		for i, want := range []Decision{
			{Allowed: true, Reason: FailedOpen, Limit: 4, Remaining: 4, Source: "none"},
			{Reason: FailedClosed, Limit: 5, Source: "none"},
			{Allowed: true, Limit: 6, Remaining: 4, Source: "local"},
			{Allowed: true, Limit: 4, Remaining: 4, Source: "local"},
		} {
			if d := b.Each[i]; d.Allowed != want.Allowed || d.Reason != want.Reason || d.Limit != want.Limit || d.Remaining != want.Remaining || d.Source != want.Source {
				t.Errorf("charge %d: %+v, want %+v", i, d, want)
			}
		}
	}
	// One that this instance refuses for longer than a second decides.
	if _, err := l.AllowN(context.Background(), "c", 4, charges[2].Limit); err != nil {
		t.Fatal(err)
	}
	b := Bill{Charges: charges}
	if err := l.Decide(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	if b.Allowed || b.Reason != Limited || b.Binding != 2 || b.RetryAfter <= closedRetry {
		t.Errorf("the bill: %+v", b.Decision)
	}
}

// ending is a store whose calls in flight fail when it is closed.
type ending struct {
	downStore
	asked, answer chan struct{}
}

func (e *ending) Apply(ctx context.Context, bills []*Bill) {
	close(e.asked)
	<-e.answer
	e.downStore.Apply(ctx, bills)
}

// TestADecisionThatOutlivesItsLimiter: who asked before Close has an answer after
// it, by what the limit states, also where it is the first that needs this
// instance's memory.
func TestADecisionThatOutlivesItsLimiter(t *testing.T) {
	for _, answer := range []Failure{Local, Share, Open, Closed} {
		store := &ending{downStore{err: unreachable}, make(chan struct{}), make(chan struct{})}
		l, err := New(Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan any, 1)
		go func() {
			defer func() { got <- recover() }()
			d, err := l.Allow(context.Background(), "k", PerSecond(5).OnFailure(answer))
			if err != nil || d.Allowed != (answer != Closed) {
				t.Errorf("%v: %+v, %v", answer, d, err)
			}
		}()
		<-store.asked
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		close(store.answer)
		if p := <-got; p != nil {
			t.Errorf("%v: %v", answer, p)
		}
	}
}
