package redisstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
)

// TestASeatIsABillOfItsOwn holds those who ask the same in one request to what they
// get asking one by one in the same flight, beside bills that share their keys: every
// seat's balance, and every state.
func TestASeatIsABillOfItsOwn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	server := testredis.Start(t)
	text := composeScripts(true, false).take.text
	seated, single := newWay(t, server.Addr, 0, text), newWay(t, server.Addr, 1, text)
	limits := []weir.Limit{
		weir.Per(7, 3*time.Second), weir.Per(50, time.Second).Burst(90), weir.Per(5, time.Second).Using(algo.FixedWindow),
		weir.Per(6, 2*time.Second).Using(algo.SlidingWindow), weir.Per(16, time.Second).Using(algo.SlidingLog),
		weir.Per(4, time.Second).Using(algo.LeakyBucket).Burst(13),
	}
	now := int64(1_800_000_000_000_000)
	between := 0 // seats of which some were admitted and some not
	for flight := range 400 {
		now += r.Int64N(1_500_000)
		var one, many []*request
		var bills []*weir.Bill
		for range 1 + r.IntN(8) {
			b := &weir.Bill{}
			for i, l := range r.Perm(len(limits))[:1+r.IntN(9)/8] { // few have two charges
				b.Charges = append(b.Charges, limits[l].Charge(fmt.Sprint("k", r.IntN(2))))
				b.Charges[i].Cost = 1 + r.Int64N(3)
			}
			if len(b.Charges) == 1 && r.IntN(6) == 0 {
				b.Verb = algo.Peek
			}
			q := requestOf(t, b, now)
			if len(b.Charges) == 1 && r.IntN(2) == 0 {
				q.seats = 1 + r.IntN(12)
				if r.IntN(50) == 0 {
					q.seats = 100 + r.IntN(157)
				}
			}
			many, bills = append(many, q), append(bills, b)
			for range q.seats {
				one = append(one, requestOf(t, b, now))
			}
		}
		seated.send(t, many, now)
		single.send(t, one, now)
		for i, q := range many {
			admitted := 0
			for place := range q.seats {
				got, want := balancesOf(t, bills[i], q, place), balancesOf(t, bills[i], one[0], 0)
				one = one[1:]
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d flight %d request %d, place %d of %d:\n seated %+v\n single %+v", seed, flight, i, place, q.seats, got, want)
				}
				if got[0].Debited {
					admitted++
				}
			}
			if admitted > 0 && admitted < q.seats {
				between++
			}
		}
		if a, b := seated.states(t), single.states(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d flight %d:\n seated %q\n single %q", seed, flight, a, b)
		}
	}
	if between < 20 {
		t.Errorf("of %d requests some seats were admitted and some not: too few to say anything", between)
	}
}

// TestAFullHouse: ten thousand who sit together behind a bill that has their keys, so
// that they cannot be a run. The script names a balance for each, and Lua has room
// for some thousands at a time.
func TestAFullHouse(t *testing.T) {
	server := testredis.Start(t)
	w := newWay(t, server.Addr, 0, composeScripts(true, false).take.text)
	const calls, seats, most = 40, 256, 9000
	limit, now := weir.Per(most, time.Hour), int64(1_800_000_000_000_000)
	both := &weir.Bill{Charges: []weir.Charge{limit.Charge("a"), limit.Charge("b")}}
	one := &weir.Bill{Charges: []weir.Charge{limit.Charge("a")}}
	requests := []*request{requestOf(t, both, now)}
	for range calls {
		q := requestOf(t, one, now)
		q.seats = seats
		requests = append(requests, q)
	}
	w.send(t, requests, now)
	admitted := 1 // both
	for _, q := range requests[1:] {
		for place := range seats {
			if balancesOf(t, one, q, place)[0].Debited {
				admitted++
			}
		}
	}
	if admitted != most {
		t.Errorf("%d admitted of %d", admitted, most)
	}
}

// TestALogIsChargedOnceForAll: who sit together at a log that the general way decides
// are one entry and one copy of it.
func TestALogIsChargedOnceForAll(t *testing.T) {
	server := testredis.Start(t)
	w := newWay(t, server.Addr, 0, composeScripts(true, false).take.text)
	limit, now := weir.Per(5000, time.Hour).Using(algo.SlidingLog), int64(1_800_000_000_000_000)
	bill := func(cost int64) *weir.Bill {
		b := &weir.Bill{Charges: []weir.Charge{limit.Charge("log")}}
		b.Charges[0].Cost = cost
		return b
	}
	for i := range 1000 { // entries
		w.send(t, []*request{requestOf(t, bill(1), now+int64(i))}, now+int64(i))
	}
	now += 10_000
	w.client.Do(t.Context(), w.client.B().ConfigResetstat().Build())
	spent := func(seats int) int64 {
		t.Helper()
		a, b := requestOf(t, bill(1), now), requestOf(t, bill(2), now) // two costs: the general way
		a.seats, b.seats = seats, seats
		began := scriptMicros(t, w)
		w.send(t, []*request{a, b}, now)
		now++
		return scriptMicros(t, w) - began
	}
	few, many := int64(1<<62), int64(1<<62)
	for range 5 {
		few, many = min(few, spent(1)), min(many, spent(250))
	}
	if many > 10*few {
		t.Errorf("250 seats at a log of 1,000 entries took %d µs, one took %d", many, few)
	}
}

// scriptMicros returns how long scripts have run there, in microseconds.
func scriptMicros(t *testing.T, w *way) int64 {
	t.Helper()
	info, err := w.client.Do(t.Context(), w.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	var us int64
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_eval:"); ok {
			if _, err := fmt.Sscanf(rest[strings.Index(rest, "usec="):], "usec=%d", &us); err != nil {
				t.Fatal(err)
			}
		}
	}
	return us
}

// balancesOf returns what the one at place is told of each of b's balances.
func balancesOf(t *testing.T, b *weir.Bill, r *request, place int) (all []weir.Balance) {
	t.Helper()
	if word := r.word(0, place); word != "" {
		t.Fatal(word)
	}
	fresh := &weir.Bill{Verb: b.Verb, Charges: append([]weir.Charge(nil), b.Charges...)}
	if err := fresh.Check(); err != nil {
		t.Fatal(err)
	}
	r.fill(0, place, fresh, nil)
	for _, bal := range fresh.Balances() {
		bal.Charge = nil
		all = append(all, bal)
	}
	return all
}

// Many callers of one key, of whom some give up: the limit is admitted exactly, each
// of the admitted is told another remainder and has a receipt of its own, and nearly
// all of them sat in a request of others.
func TestCallersOfOneKeyAskTogether(t *testing.T) {
	server := testredis.Start(t)
	var flights, bills atomic.Int64
	store, err := Open(server.URL(), Options{
		Timeout:  20 * time.Second,
		OnFlight: func(f Flight) { flights.Add(1); bills.Add(int64(f.Bills)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	paced := &store.line(0).paced
	paced.asking = true // so that it goes on adding up what flights weigh
	const most = 3000
	limit := weir.Per(most, 30*24*time.Hour)
	var mu sync.Mutex
	remainders, receipts := map[int64]bool{}, map[weir.Receipt]bool{}
	var admitted, unknown, asked atomic.Int64
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			for range 80 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(50) == 0 {
					go cancel()
				}
				b := &weir.Bill{Charges: []weir.Charge{limit.Charge("hot")}}
				err := l.Decide(ctx, b)
				cancel()
				asked.Add(1)
				switch {
				case err != nil:
					unknown.Add(1)
				case b.Err != nil:
					t.Error(b.Err)
				case b.Allowed:
					admitted.Add(1)
					mu.Lock()
					if remainders[b.Remaining] || receipts[b.Charges[0].Receipt] {
						t.Errorf("two were told that %d remain", b.Remaining)
					}
					remainders[b.Remaining], receipts[b.Charges[0].Receipt] = true, true
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if n := admitted.Load(); n > most || n+unknown.Load() < most {
		t.Errorf("%d admitted of %d, %d gave up", n, most, unknown.Load())
	}
	t.Logf("%d asked, %d gave up; %d flights of weight %d in all", asked.Load(), unknown.Load(), flights.Load(), paced.weight)
	if 2*paced.weight > bills.Load() {
		t.Errorf("%d bills weighed %d: few sat together", bills.Load(), paced.weight)
	}
	if n := bills.Load(); n > asked.Load() || n+unknown.Load() < asked.Load() {
		t.Errorf("flights carried %d bills of %d", n, asked.Load())
	}
	if store.unknown.Load() > unknown.Load() {
		t.Errorf("%d outcomes are not known, and %d gave up", store.unknown.Load(), unknown.Load())
	}
}

// requestOf asks what b does; b stays as it is.
func requestOf(t *testing.T, b *weir.Bill, now int64) *request {
	t.Helper()
	fresh := &weir.Bill{Verb: b.Verb, MaxWait: b.MaxWait, Charges: append([]weir.Charge(nil), b.Charges...)}
	if err := fresh.Check(); err != nil {
		t.Fatal(err)
	}
	r := newRequest().(*request)
	r.add(fresh.Verb, fresh, nil, &keyer{prefix: "weir"}, func() int64 { return now })
	return r
}

// send carries out the requests in one flight, which nothing refuses.
func (w *way) send(t *testing.T, requests []*request, now int64) {
	t.Helper()
	if refused, err := w.carry(t, requests, now); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
}

// carry carries out the requests in one flight, and returns the server's word if it
// refused the writes.
func (w *way) carry(t *testing.T, requests []*request, now int64) (refused string, err error) {
	t.Helper()
	f := newFlight()
	f.reset(requests)
	names, body, which := f.encode(0)
	reply, err := rueidisScripter{func() (rueidis.Client, error) { return w.client, nil }}.
		Eval(t.Context(), w.text, names, []string{body, which, formatInt(now)})
	if err != nil {
		t.Fatal(err)
	}
	_, refused, err = f.decode(reply)
	return refused, err
}

// Prints use all of the hosts that a desk has for them: any of their bits tells apart.
func TestPrintsAreSpread(t *testing.T) {
	s := &Store{seed: maphash.MakeSeed()}
	var ones [64]int
	const keys = 4096
	for i := range keys {
		p := s.print(&weir.Balance{Charge: &weir.Charge{Key: fmt.Sprint(i)}, Cost: 1})
		for bit := range ones {
			ones[bit] += int(p >> bit & 1)
		}
	}
	for bit, n := range ones {
		if n < keys/4 || n > keys*3/4 {
			t.Errorf("bit %d is set in %d of %d prints", bit, n, keys)
		}
	}
}

// TestAnotherPartOfALimitIsAnotherQuestion: a layer may leave a part of a limit.
func TestAnotherPartOfALimitIsAnotherQuestion(t *testing.T) {
	b := &weir.Bill{Charges: []weir.Charge{weir.PerMinute(10).Charge("k")}}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	bal := &b.Balances()[0]
	var q question
	if q.set(bal); !q.same(bal) {
		t.Fatal("a question is not the same as itself")
	}
	if bal.Quota.N = 5; q.same(bal) {
		t.Error("half of a limit was taken for all of it")
	}
}

// TestWhatAFlightDoesNotKnowStaysUnknown, also for a caller whose own time was up by
// then: a request of which that is so is not used again.
func TestWhatAFlightDoesNotKnowStaysUnknown(t *testing.T) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	flight := &weir.StoreError{Kind: "timeout", Err: context.DeadlineExceeded, Unknown: true}
	if se := (&line{}).outcome(ctx, flight); !se.Unknown {
		t.Errorf("%+v", se)
	}
	if se := (&line{}).outcome(ctx, ctx.Err()); se.Unknown || se.Kind != "canceled" {
		t.Errorf("never sent, and told as %+v", se)
	}
}
