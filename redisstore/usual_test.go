package redisstore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
)

// TestTheUsualWayIsTheGeneralWay holds the two ways of the take script to each
// other: the same flights, one script as it is and one whose usual way never
// answers, each on a database of its own. Every outcome and every state, which
// holds the end of its time to live, are the same.
func TestTheUsualWayIsTheGeneralWay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	server := testredis.Start(t)
	asItIs := composeScripts(true, false).take
	general := strings.NewReplacer("local reply = not lone and usual_flight()", "local reply = false",
		"local reply = usual_check(lone)", "local reply = false").Replace(asItIs.text)
	counting := strings.Replace(asItIs.text, "if reply then return", "if reply then redis.call('INCR', 'usual') return", 2)
	if len(asItIs.text)-len(general) < 30 || len(counting)-len(asItIs.text) != 2*len("redis.call('INCR', 'usual') ") {
		t.Fatal("the script's usual ways begin otherwise")
	}
	ways := []*way{newWay(t, server.Addr, 0, counting), newWay(t, server.Addr, 1, general)}
	now := int64(1_800_000_000_000_000)
	for flight := range 1000 {
		if flight%100 == 99 {
			ways[0].forget(t)
			ways[1].forget(t)
		}
		if r.IntN(40) == 0 {
			now -= r.Int64N(1_000_000) // a server's clock may go back
		}
		now += r.Int64N(2_000_000)
		bills := usualBills(r)
		var got [2][]outcome
		for i, w := range ways {
			got[i] = w.fly(t, bills, now)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Fatalf("seed %d flight %d:\n usual   %+v\n general %+v", seed, flight, got[0], got[1])
		}
		a, b := ways[0].states(t), ways[1].states(t)
		for name := range b {
			if a[name] != b[name] || len(a) != len(b) {
				t.Fatalf("seed %d flight %d, %d states and %d: %s\n usual   %q\n general %q", seed, flight, len(a), len(b), name, a[name], b[name])
			}
		}
	}
	n, err := ways[0].client.Do(t.Context(), ways[0].client.B().Get().Key("usual").Build()).AsInt64()
	t.Logf("%d flights were usual", n)
	if err != nil || n < 300 || n > 900 {
		t.Errorf("%d flights of 1000 were usual (%v), so one of the two ways is hardly tested", n, err)
	}
}

// usualBills are those of a flight: most of them usual.
func usualBills(r *rand.Rand) []*weir.Bill {
	switch r.IntN(5) {
	case 0:
		return billsOfManyShapes(r)
	case 4:
		return billsOfSeveralLimits(r)
	case 1: // which are sent with the numbers of their keys, if some are used again
		return slices.Concat(billsOfOneShape(r), billsOfOneShape(r), billsOfOneShape(r))
	}
	return billsOfOneShape(r)
}

// billsOfOneShape ask the same of many balances, and more than once of some.
func billsOfOneShape(r *rand.Rand) (bills []*weir.Bill) {
	daily, err := weir.ParseLimit("40/day algorithm=fixed_window tz=Asia/Tokyo")
	if err != nil {
		panic(err)
	}
	limits := []weir.Limit{
		weir.Per(7, 3*time.Second), weir.Per(4, time.Second).Using(algo.LeakyBucket).Burst(3),
		weir.Per(9, 4*time.Second).Using(algo.FixedWindow), daily,
		weir.Per(9, 4*time.Second).Using(algo.SlidingWindow), weir.Per(9, 4*time.Second).Using(algo.SlidingLog),
		weir.Per(40, 20*time.Second).Using(algo.SlidingLog), weir.Per(40, 20*time.Second).Using(algo.SlidingLog),
	}
	like := weir.Bill{Charges: []weir.Charge{{Limit: limits[r.IntN(len(limits))], Cost: 1 + r.Int64N(2)*r.Int64N(8)}}}
	switch r.IntN(8) {
	case 0:
		like.Verb = algo.Peek
	case 1: // as if the limit had been lowered
		limit := like.Charges[0].Limit
		like.Charges[0].Limit = limit.Cut(&algo.Quota{N: limit.Units() / 2, Capacity: limit.Units() / 2})
	case 2:
		like.Charges[0].Cost, like.Charges[0].Peek = 0, true
	}
	n := 1 + r.IntN(12)
	if r.IntN(3) == 0 {
		n = 1 // the lone check has a way of its own
	}
	for range n {
		b := like
		b.Charges = []weir.Charge{like.Charges[0]}
		b.Charges[0].Key = fmt.Sprint("k", r.IntN(6))
		bills = append(bills, &b)
	}
	return bills
}

// billsOfManyShapes are of one to three charges, on few keys.
func billsOfManyShapes(r *rand.Rand) (bills []*weir.Bill) {
	limits := []weir.Limit{
		weir.Per(7, 3*time.Second), weir.Per(7, time.Second).Burst(3),
		weir.Per(4, time.Second).Using(algo.LeakyBucket).Burst(3),
	}
	odd := r.IntN(4) == 0
	for range 1 + r.IntN(20) {
		b := &weir.Bill{}
		if r.IntN(6) == 0 {
			b.Verb = algo.Peek
		}
		if r.IntN(4) == 0 {
			b.MaxWait = time.Duration(r.IntN(2_000_000)) * time.Microsecond
		}
		n := 1
		if r.IntN(3) == 0 {
			n += r.IntN(3)
		}
		for i := range n {
			l := r.IntN(len(limits))
			// A key under each limit, so that most states are under their quota.
			c := weir.Charge{Key: fmt.Sprint("k", l, r.IntN(3), i), Limit: limits[l], Cost: 1 + r.Int64N(3)}
			if r.IntN(8) == 0 {
				c.Cost, c.Peek = 0, true
			}
			if odd && r.IntN(8) == 0 {
				c.Limit = weir.Per(9, time.Second).Burst(1 + r.Int64N(5))
			}
			if odd && i > 0 && r.IntN(8) == 0 {
				c.Trial = -1
			}
			b.Charges = append(b.Charges, c)
		}
		bills = append(bills, b)
	}
	return bills
}

// billsOfSeveralLimits are alike: each asks the same limits, of a caller's own. One of
// the limits is the tightest, wherever it stands, so that many bills are refused when
// other balances of theirs have been looked at.
func billsOfSeveralLimits(r *rand.Rand) (bills []*weir.Bill) {
	limits := []weir.Limit{
		weir.Per(30, 3*time.Second).Named("wide"), weir.Per(40, time.Minute).Using(algo.LeakyBucket).Burst(30).Named("queue"),
		weir.Per(2, 10*time.Second).Named("tight"), weir.Per(100, time.Hour).Named("long"),
	}
	if r.IntN(2) == 0 {
		limits = []weir.Limit{limits[2], limits[0], limits[1]}
	}
	callers := 2 + r.IntN(20)
	peeked := r.IntN(3 * len(limits)) // which charge only looks, if any
	for range 1 + r.IntN(12) {
		b := &weir.Bill{}
		key := fmt.Sprint("caller", r.IntN(callers))
		for i, limit := range limits {
			c := limit.Charge(key)
			if i == peeked {
				c.Cost, c.Peek = 0, true
			}
			b.Charges = append(b.Charges, c)
		}
		bills = append(bills, b)
	}
	return bills
}

// way is one text of the script on one database.
type way struct {
	client rueidis.Client
	text   string
}

func newWay(t *testing.T, addr string, db int, text string) *way {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, SelectDB: db, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &way{c, text}
}

// fly sends the bills in one flight and returns every balance's outcome.
func (w *way) fly(t *testing.T, bills []*weir.Bill, now int64) (all []outcome) {
	t.Helper()
	var requests []*request
	for _, b := range bills {
		requests = append(requests, requestOf(t, b, now))
	}
	w.send(t, requests, now)
	for _, r := range requests {
		all = append(all, r.outcomes...)
	}
	return all
}

// states returns every balance with its state, after looking that each has a
// time to live. That is made longer: what takes long here may not expire.
func (w *way) states(t *testing.T) map[string]string {
	t.Helper()
	const all = `local all = {}
for _, key in ipairs(redis.call('KEYS', 'weir*')) do
  all[#all + 1] = key
  all[#all + 1] = redis.call('PTTL', key) > 0 and redis.call('GET', key) or 'no time to live'
  redis.call('PEXPIRE', key, 3600000)
end
return all`
	states, err := w.client.Do(t.Context(), w.client.B().Eval().Script(all).Numkeys(0).Build()).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// forget ends what the states have lived through.
func (w *way) forget(t *testing.T) {
	t.Helper()
	for name := range w.states(t) {
		if err := w.client.Do(t.Context(), w.client.B().Del().Key(name).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAKeyOfAnotherTypeIsNoNewBalance: MGET says nil of a list, as of a key that
// is not there. Alone in a flight of new balances, it is still left as it is.
func TestAKeyOfAnotherTypeIsNoNewBalance(t *testing.T) {
	server := testredis.Start(t)
	w := newWay(t, server.Addr, 0, composeScripts(true, false).take.text)
	limit := weir.PerMinute(10)
	charges := []weir.Charge{limit.Charge("new"), limit.Charge("list")}
	stored := (&keyer{prefix: "weir"}).balance(&charges[1])
	if err := w.client.Do(t.Context(), w.client.B().Rpush().Key(stored).Element("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for _, bills := range [][]*weir.Bill{
		{{Charges: charges[1:]}},
		{{Charges: charges[:1]}, {Charges: charges[1:]}},
		{{Charges: charges}},
	} {
		w.fly(t, bills, 1_800_000_000_000_000)
		kind, err := w.client.Do(t.Context(), w.client.B().Type().Key(stored).Build()).ToString()
		if err != nil || kind != "list" {
			t.Errorf("a list was overwritten: it is a %s now (%v)", kind, err)
		}
	}
}

// TestAStateOfTheUsualLengthMayBeBad: a bucket's state is told by its letter too.
func TestAStateOfTheUsualLengthMayBeBad(t *testing.T) {
	server := testredis.Start(t)
	w := newWay(t, server.Addr, 0, composeScripts(true, false).take.text)
	limit := weir.PerMinute(10)
	charges := []weir.Charge{limit.Charge("bad"), limit.Charge("good"), limit.Named("other").Charge("bad")}
	stored := (&keyer{prefix: "weir"}).balance(&charges[0])
	const now = 1_800_000_000_000_000
	w.fly(t, []*weir.Bill{{Charges: charges[:1]}}, now)
	if err := w.client.Do(t.Context(), w.client.B().Setrange().Key(stored).Offset(0).Value("?").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	before := w.states(t)[stored]
	for _, bills := range [][]*weir.Bill{
		{{Charges: charges[:1]}},
		{{Charges: charges[1:2]}, {Charges: charges[:1]}},
		{{Charges: charges}},
	} {
		w.fly(t, bills, now)
		if after := w.states(t)[stored]; after != before {
			t.Errorf("%q was overwritten: %q", before, after)
		}
	}
}

// TestAUsualFlightTellsOfARefusedWrite, whatever it consists of. It is the plain text
// that runs then.
func TestAUsualFlightTellsOfARefusedWrite(t *testing.T) {
	server := testredis.Start(t)
	server.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	w := newWay(t, server.Addr, 0, composeScripts(true, true).take.text)
	const now = 1_800_000_000_000_000
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.SlidingWindow, algo.SlidingLog} {
		limit := weir.PerMinute(10).Using(kind)
		one, two := weir.Charge{Key: "1", Limit: limit, Cost: 1}, weir.Charge{Key: "2", Limit: limit, Cost: 1}
		for what, bills := range map[string][]*weir.Bill{
			"one":            {{Charges: []weir.Charge{one}}},
			"the same twice": {{Charges: []weir.Charge{one}}, {Charges: []weir.Charge{one}}},
			"two":            {{Charges: []weir.Charge{one}}, {Charges: []weir.Charge{two}}},
			"one of two":     {{Charges: []weir.Charge{one, two}}},
		} {
			var requests []*request
			for _, b := range bills {
				requests = append(requests, requestOf(t, b, now))
			}
			if refused, err := w.carry(t, requests, now); err != nil || !strings.HasPrefix(refused, "NOREPLICAS") {
				t.Errorf("%s, %s: refused with %q (%v), want NOREPLICAS", kind, what, refused, err)
			}
		}
	}
}
