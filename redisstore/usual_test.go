package redisstore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
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
	const usual = "local reply = usual_flight()"
	general := strings.Replace(asItIs.text, usual, "local reply = false", 1)
	counting := strings.Replace(asItIs.text, "if reply then return", "if reply then redis.call('INCR', 'usual') return", 1)
	if general == asItIs.text || counting == asItIs.text {
		t.Fatal("the script's usual way begins otherwise")
	}
	ways := []*way{newWay(t, server.Addr, 0, counting), newWay(t, server.Addr, 1, general)}
	now := int64(1_800_000_000_000_000)
	for flight := range 1500 {
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
		if a, b := ways[0].states(t), ways[1].states(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d flight %d:\n usual   %q\n general %q", seed, flight, a, b)
		}
	}
	n, err := ways[0].client.Do(t.Context(), ways[0].client.B().Get().Key("usual").Build()).AsInt64()
	if err != nil || n < 300 || n > 1400 {
		t.Errorf("%d flights of 1500 were usual (%v), so one of the two ways is hardly tested", n, err)
	}
}

// usualBills are those of a flight: most of them usual.
func usualBills(r *rand.Rand) (bills []*weir.Bill) {
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
	keys := &keyer{prefix: "weir"}
	for _, b := range bills {
		fresh := &weir.Bill{Verb: b.Verb, MaxWait: b.MaxWait, Charges: append([]weir.Charge(nil), b.Charges...)}
		r := newRequest().(*request)
		if err := fresh.Check(); err != nil {
			t.Fatal(err)
		}
		r.add(fresh.Verb, fresh, nil, keys, func() int64 { return now })
		requests = append(requests, r)
	}
	f := newFlight()
	f.reset(requests)
	names, body, which := f.encode(0)
	reply, err := rueidisScripter{func() (rueidis.Client, error) { return w.client, nil }}.
		Eval(t.Context(), w.text, names, []string{body, which, formatInt(now)})
	if err != nil {
		t.Fatal(err)
	}
	if _, refused, err := f.decode(reply); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
	for _, r := range requests {
		all = append(all, r.outcomes...)
	}
	return all
}

// states returns every balance with its state, after looking that each has a
// time to live that lasts.
func (w *way) states(t *testing.T) map[string]string {
	t.Helper()
	const all = `local all = {}
for _, key in ipairs(redis.call('KEYS', 'weir*')) do
  all[#all + 1] = key
  all[#all + 1] = redis.call('PTTL', key) > 5000 and redis.call('GET', key) or 'no time to live'
end
return all`
	states, err := w.client.Do(t.Context(), w.client.B().Eval().Script(all).Numkeys(0).Build()).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// forget ends what the states have lived through, before any expires by itself
// on one database and not yet on the other.
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
