package denycache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// world is a memory store on a virtual clock, counted.
type world struct {
	weir.Store
	applied int
	after   func() // when a bill was decided, or nil
}

func (w *world) Apply(ctx context.Context, bills []*weir.Bill) {
	w.applied += len(bills)
	w.Store.Apply(ctx, bills)
	if w.after != nil {
		w.after()
	}
}

type clock struct{ us int64 }

func (c *clock) now() int64              { return c.us }
func (c *clock) since() time.Duration    { return time.Duration(c.us) * time.Microsecond }
func (c *clock) advance(d time.Duration) { c.us += int64(d / time.Microsecond) }
func newWorld(c *clock) *world           { return &world{Store: weir.NewMemory(weir.MemoryOptions{Now: c.now})} }
func start() *clock                      { return &clock{1_800_000_000_000_000} }
func limiter(t testing.TB, s weir.Store) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func decide(t testing.TB, l *weir.Limiter, charges ...weir.Charge) *weir.Bill {
	t.Helper()
	b := &weir.Bill{Charges: charges}
	if err := l.Decide(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARefusalIsAnsweredWithoutTheStoreUntilItsRetry(t *testing.T) {
	c := start()
	w := newWorld(c)
	l := limiter(t, New(w, Options{Now: c.since}))
	charge := weir.Per(2, time.Second).Charge("k")
	decide(t, l, charge)
	decide(t, l, charge)
	first := decide(t, l, charge)
	if first.Allowed || first.Source != "memory" || first.RetryAfter != 500*time.Millisecond {
		t.Fatalf("the refusal: %+v", first.Decision)
	}
	asked := w.applied
	c.advance(200 * time.Millisecond)
	again := decide(t, l, charge)
	if again.Allowed || again.Source != "deny_cache" || again.RetryAfter != 300*time.Millisecond || again.Limit != 2 {
		t.Errorf("the refusal again: %+v, want 300ms from the cache", again.Decision)
	}
	if again.Each[0] != again.Decision {
		t.Errorf("the charge says %+v, the bill %+v", again.Each[0], again.Decision)
	}
	if w.applied != asked {
		t.Error("the store was asked")
	}
	c.advance(300*time.Millisecond - time.Microsecond)
	if b := decide(t, l, charge); b.Allowed || w.applied != asked {
		t.Errorf("a microsecond before the retry: %+v, store asked %d times", b.Decision, w.applied-asked)
	}
	c.advance(time.Microsecond)
	if b := decide(t, l, charge); !b.Allowed {
		t.Errorf("at the retry: %+v, want admitted", b.Decision)
	}
}

func TestAnEntryLivesASecondAtMost(t *testing.T) {
	c := start()
	w := newWorld(c)
	l := limiter(t, New(w, Options{Now: c.since}))
	for _, charge := range []weir.Charge{
		weir.Per(1, time.Hour).Charge("slow"),
		{Key: "large", Limit: weir.PerMinute(5), Cost: 6},
	} {
		decide(t, l, charge)
		decide(t, l, charge)
		asked := w.applied
		c.advance(time.Second - time.Microsecond)
		decide(t, l, charge)
		if w.applied != asked {
			t.Errorf("%s: the store was asked within the second", charge.Key)
		}
		c.advance(time.Microsecond)
		decide(t, l, charge)
		if w.applied != asked+1 {
			t.Errorf("%s: the store was not asked after the second", charge.Key)
		}
	}
}

func TestAnotherQuestionIsAnotherEntry(t *testing.T) {
	c := start()
	l := limiter(t, New(newWorld(c), Options{Now: c.since}))
	limit := weir.Per(5, time.Hour)
	decide(t, l, weir.Charge{Key: "k", Limit: limit, Cost: 4})
	if b := decide(t, l, weir.Charge{Key: "k", Limit: limit, Cost: 3}); b.Allowed {
		t.Fatal("3 of 1 were admitted")
	}
	for name, charge := range map[string]weir.Charge{
		"a smaller cost":  {Key: "k", Limit: limit, Cost: 1},
		"a larger limit":  {Key: "k", Limit: weir.Per(50, time.Hour), Cost: 3},
		"another space":   {Key: "k", Limit: limit, Cost: 3, Space: "rule"},
		"another name":    {Key: "k", Limit: limit.Named("n"), Cost: 3},
		"a longer period": {Key: "k", Limit: weir.Per(5, 2*time.Hour), Cost: 3},
		"another key":     {Key: "j", Limit: limit, Cost: 3},
	} {
		b := &weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{charge}}
		if err := l.Decide(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if got := decide(t, l, charge); got.Source == "deny_cache" || got.Allowed != b.Allowed {
			t.Errorf("%s: %+v", name, got.Decision)
		}
		if err := l.Reset(context.Background(), charge); err != nil {
			t.Fatal(err)
		}
		decide(t, l, weir.Charge{Key: "k", Limit: limit, Cost: 4})
		decide(t, l, weir.Charge{Key: "k", Limit: limit, Cost: 3})
	}
}

// Who may wait longer asks something else.
func TestAnotherWaitIsAnotherEntry(t *testing.T) {
	c := start()
	l := limiter(t, New(newWorld(c), Options{Now: c.since}))
	charge := weir.Per(1, time.Second).Charge("k")
	decide(t, l, charge)
	if b := decide(t, l, charge); b.Allowed {
		t.Fatal("2 of 1 were admitted")
	}
	b := &weir.Bill{Charges: []weir.Charge{charge}, MaxWait: time.Second}
	if err := l.Decide(context.Background(), b); err != nil || !b.Allowed {
		t.Errorf("who would wait for a second: %+v %v", b.Decision, err)
	}
}

func TestABlockIsNeverKept(t *testing.T) {
	ctx := context.Background()
	c := start()
	l := limiter(t, New(newWorld(c), Options{Now: c.since}))
	charge := weir.PerMinute(5).Charge("k")
	if err := l.Block(ctx, time.Minute, charge); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if b := decide(t, l, charge); b.Reason != weir.Blocked || b.Source == "deny_cache" {
			t.Errorf("%+v", b.Decision)
		}
	}
	if err := l.Block(ctx, 0, charge); err != nil {
		t.Fatal(err)
	}
	if b := decide(t, l, charge); !b.Allowed {
		t.Errorf("after the block was lifted: %+v", b.Decision)
	}
}

// A try may be debited beside a refusal, so its bill always reaches the store.
func TestABillWithATryIsNotKept(t *testing.T) {
	c := start()
	w := newWorld(c)
	l := limiter(t, New(w, Options{Now: c.since}))
	live, try := weir.Per(1, time.Hour).Charge("k"), weir.Per(9, time.Hour).Charge("k")
	try.Space, try.Trial = "try", 1
	for range 3 {
		decide(t, l, live, try)
	}
	if w.applied != 3 {
		t.Errorf("the store saw %d of 3 bills", w.applied)
	}
}

// On random schedules, over several instances in front of one store, `allowed`
// is what it would be without the caches: takes of every instance, and refunds
// and resets through the instance that holds the entry.
func TestAllowedIsTheSameWithAndWithoutTheCache(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	// Each limit has balances of its own. Two limits on one balance are a limit that
	// is being changed: what is charged under the faster one may end a refusal under
	// the slower before its time, which the second that an entry lives bounds.
	limits := []weir.Limit{
		weir.Per(3, time.Second), weir.Per(10, time.Second).Burst(4).Named("other"), weir.Per(7, 333*time.Millisecond).Using(algo.FixedWindow),
		weir.Per(5, 2*time.Second).Using(algo.SlidingWindow), weir.Per(5, 700*time.Millisecond).Using(algo.SlidingLog),
		weir.Per(4, time.Second).Using(algo.LeakyBucket).Burst(2),
	}
	hits := int64(0)
	for history := range 400 {
		c := start()
		bare, shared := newWorld(c), newWorld(c)
		plain := limiter(t, bare)
		caches := []*Cache{New(shared, Options{Now: c.since, Entries: 64}), New(shared, Options{Now: c.since}), New(shared, Options{Now: c.since})}
		var instances []*weir.Limiter
		for _, cache := range caches {
			instances = append(instances, limiter(t, cache))
		}
		var receipts [][2]*weir.Bill
		for step := range 60 {
			c.advance(time.Duration(r.IntN(120_000)) * time.Microsecond)
			at := instances[r.IntN(len(instances))]
			var charges []weir.Charge
			for range 1 + r.IntN(3) {
				charges = append(charges, weir.Charge{Key: fmt.Sprint("k", r.IntN(3)), Limit: limits[r.IntN(len(limits))], Cost: 1 + r.Int64N(3)})
			}
			switch what := r.IntN(12); {
			case what == 0 && len(receipts) > 0:
				pair := receipts[r.IntN(len(receipts))]
				refund(t, plain, pair[0])
				for _, other := range instances { // every instance hears of it
					refund(t, other, pair[1])
				}
			case what == 1:
				reset(t, plain, charges[:1])
				for _, other := range instances {
					reset(t, other, charges[:1])
				}
			default:
				a, b := &weir.Bill{Charges: charges}, &weir.Bill{Charges: append([]weir.Charge(nil), charges...)}
				errA, errB := plain.Decide(context.Background(), a), at.Decide(context.Background(), b)
				if (errA == nil) != (errB == nil) {
					t.Fatalf("seed %d history %d step %d: %v and %v", seed, history, step, errA, errB)
				}
				if errA != nil {
					continue // two limits on one balance
				}
				if a.Allowed != b.Allowed {
					t.Fatalf("seed %d history %d step %d: without %+v, with %+v", seed, history, step, a.Decision, b.Decision)
				}
				if b.RetryAfter > a.RetryAfter && a.RetryAfter != weir.Never {
					t.Fatalf("seed %d history %d step %d: retry %v from the cache is past %v", seed, history, step, b.RetryAfter, a.RetryAfter)
				}
				if a.Allowed {
					receipts = append(receipts, [2]*weir.Bill{a, b})
				}
			}
		}
		for _, cache := range caches {
			hits += cache.Hits()
		}
	}
	if hits == 0 {
		t.Error("no history hit a cache: the comparison is void")
	}
	t.Logf("%d answers from caches", hits)
}

func refund(t *testing.T, l *weir.Limiter, b *weir.Bill) {
	t.Helper()
	if err := l.Refund(context.Background(), b.Charges...); err != nil {
		t.Fatal(err)
	}
}

func reset(t *testing.T, l *weir.Limiter, charges []weir.Charge) {
	t.Helper()
	if err := l.Reset(context.Background(), charges...); err != nil {
		t.Fatal(err)
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	l := limiter(t, New(newWorld(start()), Options{}))
	ctx := context.Background()
	charge := weir.Per(1, time.Hour).Charge("k")
	decide(t, l, charge)
	decide(t, l, charge)
	kept := []*weir.Bill{{Charges: []weir.Charge{charge}}}
	if n := testing.AllocsPerRun(1000, func() { _ = l.Decide(ctx, kept...) }); n != 0 || kept[0].Source != "deny_cache" {
		t.Errorf("%v allocations, %+v", n, kept[0].Decision)
	}
	kept[0].Charges[0] = weir.PerSecond(1e9).Charge("j")
	if n := testing.AllocsPerRun(1000, func() { _ = l.Decide(ctx, kept...) }); n != 0 {
		t.Errorf("%v allocations for what passes through", n)
	}
}

// The refusal flood: a hit beside an in-memory decision.
func BenchmarkRefusal(b *testing.B) {
	ctx := context.Background()
	for name, store := range map[string]weir.Store{
		"memory":     weir.NewMemory(weir.MemoryOptions{}),
		"deny_cache": New(weir.NewMemory(weir.MemoryOptions{}), Options{}),
	} {
		b.Run(name, func(b *testing.B) {
			l := limiter(b, store)
			bills := []*weir.Bill{{Charges: []weir.Charge{weir.Per(1, time.Hour).Charge("k")}}}
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Decide(ctx, bills...)
			}
		})
	}
}

// near is a world that answers every other bill from what it holds.
type near struct {
	world
	answered, asked int
}

func (n *near) Answer(b *weir.Bill) bool {
	n.answered++
	if n.answered%2 == 0 {
		return false
	}
	n.Store.Apply(context.Background(), []*weir.Bill{b})
	return true
}

func (n *near) Ask(ctx context.Context, bills []*weir.Bill) {
	n.asked += len(bills)
	n.Store.Apply(ctx, bills)
}

// What is behind is asked once a bill, for what it holds first, and a refusal that is
// known does without.
func TestWhatIsNearIsAskedFirstAndOnce(t *testing.T) {
	c := start()
	behind := &near{world: *newWorld(c)}
	l := limiter(t, New(behind, Options{Now: c.since}))
	defer l.Close()
	limit := weir.PerMinute(3)
	for range 10 {
		decide(t, l, limit.Charge("k"))
	}
	// The fourth is refused by what was asked and kept; the six after it are known.
	if behind.answered != 4 || behind.asked != 2 || behind.applied != 0 {
		t.Errorf("answered %d times, asked %d, applied %d; want 4, 2, 0", behind.answered, behind.asked, behind.applied)
	}
	var bills []*weir.Bill
	for range 4 {
		bills = append(bills, &weir.Bill{Charges: []weir.Charge{limit.Charge("other")}})
	}
	if err := l.Decide(context.Background(), bills...); err != nil {
		t.Fatal(err)
	}
	if behind.answered != 8 || behind.asked != 4 || behind.applied != 0 {
		t.Errorf("answered %d times, asked %d, applied %d; want 8, 4, 0", behind.answered, behind.asked, behind.applied)
	}
}
