package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

const (
	clients       = 8
	operations    = 40 // of a client in a history, with known or unknown outcome
	answered      = 100 * time.Millisecond
	checkPatience = 10 * time.Second

	// What is not known doubles the orders to be looked at: a history has so much of
	// it and then no more faults. An unknown refund stays so to the end.
	enoughUnknown = 24
	fewRefunds    = 2
)

// histories is how many are recorded: WEIR_HISTORIES, or a number that CI has
// time for.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_HISTORIES")); err == nil {
		return n
	}
	if brief() {
		return 4
	}
	return 100
}

// rig is a server behind a proxy and a store on it, for histories one after the
// other.
type rig struct {
	server  *testredis.Server
	proxy   *testredis.Proxy
	limiter *weir.Limiter
	random  *rand.Rand

	unknown, refunds atomic.Int64 // of unknown outcome in this history
}

func newRig(t *testing.T, seed uint64, plant func(weir.Store) weir.Store) *rig {
	t.Helper()
	r := &rig{server: testredis.Start(t), random: rand.New(rand.NewPCG(seed, 0))}
	r.proxy = testredis.StartProxy(t, r.server.Addr)
	redis, err := redisstore.Open(r.proxy.URL(), redisstore.Options{Timeout: answered})
	if err != nil {
		t.Fatal(err)
	}
	var store weir.Store = redis
	if plant != nil {
		store = plant(store)
	}
	r.limiter, err = weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.limiter.Close() })
	return r
}

// history lets clients at one set of keys while the way to the server is broken
// again and again, and returns what they asked and were told.
func (r *rig) history(t *testing.T, n int) (history []porcupine.Operation) {
	limits := limitsOf(n)
	r.unknown.Store(0)
	r.refunds.Store(0)
	begun := time.Now()
	// The first charge of a balance is one of known time, since all later ones add
	// to it. Where it is not known, other keys are taken.
	var first client
	await(t, "a first charge of known outcome", func() bool {
		name := fmt.Sprint("h", n, ":", r.random.Uint64())
		first = client{rig: r, limits: limits, name: name, random: r.random, begun: begun}
		first.take(t, action{costs: [keysPerHistory]int64{1, 1, 1}})
		return len(first.done) == 1 && !first.done[0].Output.(result).unknown
	})
	name := first.name
	var asking sync.WaitGroup
	parts := make([][]porcupine.Operation, clients)
	for c := range clients {
		random := rand.New(rand.NewPCG(r.random.Uint64(), 0))
		asking.Go(func() {
			one := client{rig: r, id: c, limits: limits, name: name, random: random, begun: begun}
			for len(one.done) < operations && t.Context().Err() == nil {
				one.ask(t)
			}
			parts[c] = one.done
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var breaking sync.WaitGroup
	breaking.Go(func() { r.breakThings(ctx) })
	asking.Wait()
	cancel()
	breaking.Wait()
	history = first.done
	for _, p := range parts {
		history = append(history, p...)
	}
	return history
}

// breakThings does one thing after the other to the server and the way there.
// What it leaves behind is mended before it returns.
func (r *rig) breakThings(ctx context.Context) {
	random := rand.New(rand.NewPCG(r.random.Uint64(), 0))
	short := func(most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(upTo(random, most)):
		}
	}
	for ctx.Err() == nil && r.unknown.Load() < enoughUnknown {
		short(40 * time.Millisecond)
		switch random.IntN(5) {
		case 0:
			r.proxy.Cut()
		case 1:
			r.proxy.Deaf(true)
			short(5 * time.Millisecond)
			r.proxy.Cut() // what was answered meanwhile is lost
			r.proxy.Deaf(false)
		case 2:
			r.proxy.Delay(upTo(random, answered))
			short(20 * time.Millisecond)
			r.proxy.Delay(0)
		case 3:
			_, _ = r.server.Do("SCRIPT", "FLUSH") // if it fails, then for another fault
		default:
			_ = r.server.Pause()
			short(answered / 2)
			_ = r.server.Resume()
		}
	}
}

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}

// client is one caller in a history.
type client struct {
	*rig
	id       int
	limits   [keysPerHistory]weir.Limit
	name     string
	random   *rand.Rand
	begun    time.Time
	done     []porcupine.Operation
	receipts []weir.Charge
}

// ask does one operation. One that is known not to have happened is none.
func (c *client) ask(t *testing.T) {
	var act action
	switch n := c.random.IntN(10); {
	case n == 0 && len(c.receipts) > 0 && c.refunds.Load() < fewRefunds:
		c.refund(t)
		return
	case n < 3:
		act.verb = algo.Peek
	}
	for i := range act.costs {
		if c.random.IntN(2) == 0 {
			act.costs[i] = 1 + c.random.Int64N(3)
		}
	}
	if act.costs == ([keysPerHistory]int64{}) {
		act.costs[c.random.IntN(keysPerHistory)] = 1
	}
	c.take(t, act)
}

// take asks for a bill, or peeks.
func (c *client) take(t *testing.T, act action) {
	b := &weir.Bill{Verb: act.verb}
	for i, cost := range act.costs {
		if cost > 0 {
			b.Charges = append(b.Charges, c.charge(i, cost))
		}
	}
	call := time.Now()
	if err := c.limiter.Decide(t.Context(), b); err != nil {
		if t.Context().Err() == nil {
			t.Error(err)
		}
		return
	}
	res := result{allowed: b.Allowed}
	if b.Err != nil {
		c.failed(call, act, b.Err)
		return
	}
	for i, j := 0, 0; i < keysPerHistory; i++ {
		if act.costs[i] == 0 {
			continue
		}
		d := &b.Each[j]
		res.now = b.Balances()[j].View.Now
		res.each[i] = told{d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter}
		if b.Allowed && act.verb == algo.Take {
			c.receipts = append(c.receipts, b.Charges[j])
		}
		j++
	}
	c.note(call, time.Now(), act, res)
}

func (c *client) charge(key int, cost int64) weir.Charge {
	charge := c.limits[key].Charge(fmt.Sprint(c.name, ":", key))
	charge.Cost, charge.Group = cost, c.name
	return charge
}

// refund gives a random charge back.
func (c *client) refund(t *testing.T) {
	at := c.random.IntN(len(c.receipts))
	charge := c.receipts[at]
	charge.Cost = 0 // all of it
	act := action{verb: algo.Refund}
	for i := range act.costs {
		if charge.Key == fmt.Sprint(c.name, ":", i) {
			act.costs[i] = charge.Receipt.Cost
		}
	}
	of := []weir.Charge{charge}
	call := time.Now()
	err := c.limiter.Refund(t.Context(), of...)
	var se *weir.StoreError
	if err == nil || errors.As(err, &se) && se.Unknown {
		c.receipts = append(c.receipts[:at], c.receipts[at+1:]...)
	}
	if err != nil {
		c.failed(call, act, err)
		return
	}
	c.note(call, time.Now(), act, result{refunded: of[0].Receipt.Refunded})
}

// failed notes an operation whose outcome is not known. Where it is, the client
// waits a moment for better days.
func (c *client) failed(call time.Time, act action, err error) {
	var se *weir.StoreError
	if errors.As(err, &se) && !se.Unknown {
		<-time.After(5 * time.Millisecond)
		return
	}
	end := time.Now()
	known := end.UnixMicro()
	if late := call.Add(answered); late.After(end) {
		end = late // the script charges nothing later than that
	}
	c.unknown.Add(1)
	if act.verb == algo.Refund {
		c.refunds.Add(1)
		end = call.Add(time.Hour) // a refund has no such bound: it is good whenever it comes
	}
	c.note(call, end, act, result{unknown: true, now: known})
}

func (c *client) note(call, end time.Time, act action, res result) {
	c.done = append(c.done, porcupine.Operation{
		ClientId: c.id, Input: act, Output: res,
		Call: call.Sub(c.begun).Nanoseconds(), Return: end.Sub(c.begun).Nanoseconds(),
	})
}

// linearizable returns what porcupine says of a history.
func linearizable(n int, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(limitsOf(n)), history, checkPatience)
}

// explain tells how far an order could be found, and what could not come next.
func explain(n int, history []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(model(limitsOf(n)), history, checkPatience)
	var best []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	var b strings.Builder
	placed := make(map[string]bool)
	for i, o := range best {
		placed[describe(o)] = true
		if i >= len(best)-10 {
			fmt.Fprintf(&b, "placed %s\n", describe(o))
		}
	}
	sort.Slice(history, func(i, j int) bool { return history[i].Call < history[j].Call })
	shown := 0
	for _, o := range history {
		if !placed[describe(o)] && shown < 16 {
			fmt.Fprintf(&b, "not placed %s\n", describe(o))
			shown++
		}
	}
	return b.String()
}

func describe(o porcupine.Operation) string {
	act, res := o.Input.(action), o.Output.(result)
	s := fmt.Sprintf("%d..%d µs client %d: %v %v: ", o.Call/1000, o.Return/1000, o.ClientId, act.verb, act.costs)
	switch {
	case res.unknown:
		return s + "unknown"
	case act.verb == algo.Refund:
		return s + fmt.Sprint("refunded ", res.refunded)
	}
	return s + fmt.Sprintf("%v at %d: %v", res.allowed, res.now, res.each)
}

// TestLinear records histories of clients over a store whose server and network
// fail, and finds for each an order of one thing after the other that explains
// all of it.
func TestLinear(t *testing.T) {
	all := histories()
	began := time.Now()
	const rigs = 4
	var unknown, ops, undecided int
	var mu sync.Mutex
	var work sync.WaitGroup
	for at := range rigs {
		seed := rand.Uint64()
		t.Logf("seed of rig %d: %d", at, seed)
		r := newRig(t, seed, nil)
		work.Go(func() {
			for n := at; n < all; n += rigs {
				history := r.history(t, n)
				verdict := linearizable(n, history)
				mu.Lock()
				for _, o := range history {
					if o.Output.(result).unknown {
						unknown++
					}
				}
				ops += len(history)
				switch verdict {
				case porcupine.Illegal:
					t.Errorf("history %d of rig %d is not linearizable:\n%s", n, at, explain(n, history))
				case porcupine.Unknown:
					undecided++
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("%d histories, %d operations, %d of unknown outcome, %d histories not decided in %v; %v", all, ops, unknown, undecided, checkPatience, time.Since(began).Round(time.Second))
	if undecided*20 > all && !raced {
		t.Errorf("%d of %d histories are undecided", undecided, all)
	}
	if unknown == 0 {
		t.Error("no fault was felt")
	}
}
