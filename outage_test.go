package weir

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/algo"
)

func newSwitched(t *testing.T, instances int) (*switched, *Limiter) {
	t.Helper()
	s := &switched{Store: NewMemory(MemoryOptions{}), down: true}
	l, err := New(Options{Store: s, Instances: func() int { return instances }})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// Who does not come through has used nothing, also of what this instance admits by
// itself: a place in a queue past the deadline, and one that is not waited for.
func TestWhatIsNotUsedInAnOutageComesBack(t *testing.T) {
	for _, instances := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			_, l := newSwitched(t, instances)
			leaky := PerSecond(int64(instances)).Using(algo.LeakyBucket).Burst(int64(10*instances - 1)).OnFailure(Share)
			six := leaky.Charge("k")
			six.Cost = 6
			if d, err := l.Take(t.Context(), six); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			left := func(want int64) {
				t.Helper()
				if d, err := l.Peek(t.Context(), leaky.Charge("k")); err != nil || d.Remaining != want {
					t.Errorf("%d instances: %d left (%v), want %d", instances, d.Remaining, err, want)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if d, err := l.Wait(ctx, leaky.Charge("k")); err != nil || d.Allowed {
				t.Errorf("%+v %v", d, err)
			}
			left(4)
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := l.Wait(ctx, leaky.Charge("k")); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			left(5) // a second has drained one
		})
	}
}

// A closed limit that is only asked refuses nothing, so what stands beside it is charged
// as it would be without it.
func TestAClosedPeekChargesWhatIsBesideIt(t *testing.T) {
	for _, limit := range everyKind(3, 24*time.Hour) {
		_, l := newSwitched(t, 1)
		asked := limit.Named("closed").OnFailure(Closed).Charge("k")
		asked.Cost, asked.Peek = 0, true
		for n := range 5 {
			d, err := l.Take(context.Background(), asked, limit.Charge("k"))
			if err != nil || d.Allowed != (n < 3) {
				t.Errorf("%v, take %d: %+v %v", limit, n, d, err)
			}
		}
	}
}

// Two charges on one balance may state two answers: the stricter stands whichever is first.
func TestEachChargeOfABalanceHasItsSay(t *testing.T) {
	limit := Per(3, 24*time.Hour)
	for _, charges := range [][]Charge{
		{limit.OnFailure(Open).Charge("k"), limit.OnFailure(Closed).Charge("k")},
		{limit.OnFailure(Closed).Charge("k"), limit.OnFailure(Open).Charge("k")},
	} {
		_, l := newSwitched(t, 1)
		if d, err := l.Take(context.Background(), charges...); err != nil || d.Allowed || d.Reason != FailedClosed {
			t.Errorf("%+v %v", d, err)
		}
	}
}

// Undone twice is undone once, and what others took stays.
func TestAnOutageIsUndoneOnce(t *testing.T) {
	ctx := context.Background()
	for _, limit := range everyKind(10, 24*time.Hour) {
		_, l := newSwitched(t, 1)
		b := &Bill{Charges: []Charge{limit.Charge("k"), limit.Charge("k"), limit.Charge("beside")}}
		if err := l.Decide(ctx, b); err != nil || !b.Allowed {
			t.Fatal(b.Decision, err)
		}
		if _, err := l.AllowN(ctx, "k", 3, limit); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Undo(ctx, b); err != nil {
				t.Error(err)
			}
		}
		for key, want := range map[string]int64{"k": 7, "beside": 10} {
			if d, err := l.Peek(ctx, limit.Charge(key)); err != nil || d.Remaining != want {
				t.Errorf("%v: %d of %s left (%v), want %d", limit, d.Remaining, key, err, want)
			}
		}
	}
}

// A share may be too small for a cost that the limit holds: that is so while the store is
// away, and not for ever.
func TestACostBeyondTheShareMayBeAskedForAgain(t *testing.T) {
	for _, limit := range everyKind(100, time.Hour) {
		_, l := newSwitched(t, 4)
		limit = limit.OnFailure(Share)
		for cost, want := range map[int64]Decision{
			50:  {Reason: Limited, RetryAfter: closedRetry},
			101: {Reason: TooLarge, RetryAfter: Never},
		} {
			for _, beside := range [][]Charge{nil, {limit.Named("closed").OnFailure(Closed).Charge("k")}} {
				b := &Bill{Charges: append([]Charge{withCost(limit, "k", cost)}, beside...)}
				if err := l.Decide(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				if d := b.Each[0]; d.Allowed || d.Reason != want.Reason || d.RetryAfter != want.RetryAfter {
					t.Errorf("%d of %v: %+v", cost, limit, d)
				}
			}
		}
	}
}

// returning is a store that is away until a time.
type returning struct {
	Store
	at time.Time
}

func (r returning) Apply(ctx context.Context, bills []*Bill) {
	(&switched{r.Store, time.Now().Before(r.at)}).Apply(ctx, bills)
}

// A closed limit refuses for a moment: who waits asks again.
func TestWaitSitsOutAnOutageOfAClosedLimit(t *testing.T) {
	for _, limit := range everyKind(10, time.Hour) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			l, err := New(Options{Store: returning{NewMemory(MemoryOptions{}), began.Add(1500 * time.Millisecond)}})
			if err != nil {
				t.Fatal(err)
			}
			if d, err := l.Wait(t.Context(), limit.OnFailure(Closed).Charge("k")); err != nil || !d.Allowed || time.Since(began) != 2*time.Second {
				t.Errorf("%v: %+v %v after %v", limit, d, err, time.Since(began))
			}
		})
	}
}

// A reset forgets what was admitted without the store, too: it is not owed, and does not
// count in the next outage.
func TestAResetForgetsAnOutage(t *testing.T) {
	ctx, limit := context.Background(), Per(10, 24*time.Hour)
	s, l := newSwitched(t, 1)
	for range 2 {
		s.down = true
		if d, err := l.AllowN(ctx, "k", 10, limit); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		s.down = false
		if err := l.Reset(ctx, limit.Charge("k")); err != nil {
			t.Fatal(err)
		}
		c, quota := limit.Charge("k"), limit.Quota()
		if owed := l.fallback.owed(&c, &quota); owed != 0 {
			t.Errorf("%d owed after a reset", owed)
		}
	}
}
