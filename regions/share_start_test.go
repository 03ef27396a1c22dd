package regions

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
)

const shared = "rule/shared"

// parts is three regions that share limits, in memory and on a clock of their own.
type parts struct {
	t     *testing.T
	now   time.Duration
	names []string
	all   map[string]*part
	away  bool // the stores are
}

type part struct {
	weir.Store
	of       *parts
	exchange *Exchange
	keeper   *ShareKeeper
	front    *Layer
	limiter  *weir.Limiter
	record   string
	said     string
	asked    map[string]int64
}

// Apply implements weir.Store.
func (p *part) Apply(ctx context.Context, bills []*weir.Bill) {
	if !p.of.away {
		p.Store.Apply(ctx, bills)
		return
	}
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "connection", Unreachable: true}
	}
}

func newParts(t *testing.T) *parts {
	p := &parts{t: t, now: time.Hour, names: []string{"eu", "us", "asia"}, all: map[string]*part{}}
	micros := func() int64 { return p.now.Microseconds() }
	for _, name := range p.names {
		one := &part{Store: weir.NewMemory(weir.MemoryOptions{Now: micros}), of: p, asked: map[string]int64{}}
		var peers []string
		for _, other := range p.names {
			if other != name {
				peers = append(peers, other)
			}
		}
		one.exchange = NewExchange(&earlyBooks{}, Settings{Region: name, Peers: peers, Interval: time.Second, Now: func() time.Duration { return p.now }})
		one.keeper = NewShareKeeper(one.exchange)
		one.front = Front(one, one.exchange)
		one.front.Share(map[string]policy.Sharing{shared: {Scope: policy.ScopeShare, Refill: time.Minute}})
		var err error
		if one.limiter, err = weir.New(weir.Options{Store: one.front, Now: micros}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = one.limiter.Close() })
		p.all[name] = one
	}
	return p
}

// beat lets every region hear what the others said, and look after its shares.
func (p *parts) beat() {
	p.t.Helper()
	for _, name := range p.names {
		p.step(name, nil)
	}
	p.hold()
}

// step lets a region look after its shares, with what others said, or said before.
func (p *parts) step(name string, before map[string]string) {
	p.t.Helper()
	one, heard := p.all[name], map[string]string{}
	for _, other := range p.names {
		if other != name {
			heard[other] = p.all[other].said
		}
	}
	maps.Copy(heard, before)
	var err error
	if one.record, one.said, err = one.keeper.Step(one.record, heard, one.asked); err != nil {
		p.t.Fatal(err)
	}
}

func (p *parts) hold() {
	p.t.Helper()
	for _, one := range p.all {
		if err := one.keeper.Hold(one.record, p.now); err != nil {
			p.t.Fatal(err)
		}
	}
}

// begun is parts that have their shares.
func begun(t *testing.T) *parts {
	p := newParts(t)
	for range 3 {
		p.beat()
	}
	return p
}

func (p *parts) take(region, key, text string, cost int64) *weir.Bill {
	p.t.Helper()
	limit, err := weir.ParseLimit(text)
	if err != nil {
		p.t.Fatal(err)
	}
	c := limit.Charge(key)
	c.Space, c.Cost = shared, cost
	b := &weir.Bill{Charges: []weir.Charge{c}}
	if err := p.all[region].limiter.Decide(context.Background(), b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

var kinds = []string{"90/min", "90/min algorithm=leaky_bucket burst=89", "90/min algorithm=fixed_window", "90/min algorithm=sliding_window", "90/min algorithm=sliding_log"}

// TestARegionWithoutItsShareRefusesForABeat: nobody is admitted before every region
// knows of the others, who then is may ask again at the next beat, and the shares
// that follow are as much as the limit together.
func TestARegionWithoutItsShareRefusesForABeat(t *testing.T) {
	p := newParts(t)
	refused := func(when string) {
		t.Helper()
		for _, text := range kinds {
			if b := p.take("eu", text, text, 1); b.Allowed || b.Reason != weir.Limited || b.RetryAfter != shareBeat {
				t.Errorf("%s, %s: %+v", when, text, b.Decision)
			}
		}
	}
	refused("at first")
	p.beat()
	refused("before it was heard of")
	for range 2 {
		p.beat()
	}
	for _, text := range kinds {
		admitted := int64(0)
		for _, name := range p.names {
			for n := 0; n < 200 && p.take(name, text, text, 1).Allowed; n++ {
				admitted++
			}
		}
		if admitted != 90 {
			t.Errorf("%s: three regions admit %d at once, want 90", text, admitted)
		}
	}
	p.now += settling(shareBeat)
	refused("when the record was not read for long")
	p.hold()
	p.now += time.Hour
	p.hold()
	if b := p.take("eu", "again", kinds[0], 30); !b.Allowed {
		t.Errorf("with the record read again: %+v", b.Decision)
	}
}

// TestACostBeyondTheShare is refused for a beat if the share may grow to it, and for
// good if it never can.
func TestACostBeyondTheShare(t *testing.T) {
	p := begun(t)
	for _, text := range kinds {
		for _, c := range []struct {
			cost   int64
			reason weir.Reason
			retry  time.Duration
		}{{31, weir.Limited, shareBeat}, {75, weir.Limited, shareBeat}, {76, weir.TooLarge, weir.Never}} {
			if b := p.take("eu", text, text, c.cost); b.Allowed || b.Reason != c.reason || b.RetryAfter != c.retry {
				t.Errorf("%s: a cost of %d: %+v", text, c.cost, b.Decision)
			}
		}
	}
	if b := p.take("eu", "little", "1/min burst=1", 1); b.Allowed || b.RetryAfter != weir.Never {
		t.Errorf("a unit that nobody can hold: %+v", b.Decision)
	}
	if b := p.take("eu", "little", "2/min burst=2", 1); b.Allowed || b.RetryAfter != shareBeat {
		t.Errorf("a unit that somebody else may hold: %+v", b.Decision)
	}
}

// TestPeeksAreNoDemand: a share follows what is taken.
func TestPeeksAreNoDemand(t *testing.T) {
	p := begun(t)
	p.take("eu", "k", kinds[0], 3)
	limit, err := weir.ParseLimit(kinds[0])
	if err != nil {
		t.Fatal(err)
	}
	c := limit.Charge("k")
	c.Space, c.Cost = shared, 1000
	if err := p.all["eu"].limiter.Decide(context.Background(), &weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{c}}); err != nil {
		t.Fatal(err)
	}
	if asked := p.all["eu"].keeper.Asked()[shared]; asked != 3 {
		t.Errorf("%d units were asked for, want 3", asked)
	}
}

// TestWithoutTheStoreSharesAreAsLastKnown, or equal where none ever was: the record
// is away with the store.
func TestWithoutTheStoreSharesAreAsLastKnown(t *testing.T) {
	for _, p := range []*parts{newParts(t), begun(t)} {
		p.away = true
		p.now += time.Hour
		for _, text := range kinds {
			b := p.take("eu", text, text, 1)
			if !b.Allowed || b.Source != "local" || b.Limit != 30 || b.Remaining != 29 {
				t.Errorf("%s: %+v", text, b.Decision)
			}
			if b = p.take("eu", text, text+" on_store_failure=closed", 1); b.Allowed || b.Reason != weir.FailedClosed {
				t.Errorf("%s: closed: %+v", text, b.Decision)
			}
		}
	}
}

// TestALostRecordIsNoEqualShare: a region whose server began empty, and then was
// away, answers under the share that it had.
func TestALostRecordIsNoEqualShare(t *testing.T) {
	p := begun(t)
	eu := p.all["eu"]
	eu.record = fmt.Sprintf(`{%q:{"given":{"us":180180}}}`, shared) // of 240240
	p.hold()
	eu.record = ""
	p.hold()
	if b := p.take("eu", "k", "90/min", 1); b.Allowed || b.RetryAfter != shareBeat {
		t.Errorf("with its record lost: %+v", b.Decision)
	}
	p.away = true
	for _, text := range kinds {
		if b := p.take("eu", text, text, 1); b.Limit != 7 {
			t.Errorf("%s: the limit without the store is %d, want the 7 that it was", text, b.Limit)
		}
	}
}

// TestDebtsOfAShare: what was admitted without the store is debited there under the
// share that it was admitted under, before the record was read again, too.
func TestDebtsOfAShare(t *testing.T) {
	t.Parallel()
	p := begun(t)
	store, err := redisstore.Open(testredis.Start(t).URL(), redisstore.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	eu := p.all["eu"]
	eu.Store = store // closed as the limiter is
	p.now += settling(shareBeat)
	var texts []string // no period ends meanwhile
	for _, text := range kinds {
		texts = append(texts, strings.Replace(text, "min", "366d", 1))
	}
	for i, text := range texts {
		limit, err := weir.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		c := limit.Charge(text)
		c.Space, c.Cost, c.Receipt.ID = shared, 30, uint64(i+1)
		b := &weir.Bill{Verb: algo.Repay, Charges: []weir.Charge{c}}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		if eu.front.Apply(context.Background(), []*weir.Bill{b}); b.Err != nil {
			t.Fatal(b.Err)
		}
		if got := b.Charges[0].Limit; got != limit {
			t.Errorf("%s is %s after a debt", text, got)
		}
	}
	p.hold()
	for _, text := range texts {
		if b := p.take("eu", text, text, 30); b.Allowed {
			t.Errorf("%s: the share is admitted again beside a debt of it: %+v", text, b.Decision)
		}
	}
}

// TestRefundsOfAShare come back as they were charged, also while the record is lost.
func TestRefundsOfAShare(t *testing.T) {
	p := begun(t)
	for _, text := range kinds {
		p.hold()
		b := p.take("eu", text, text, 10)
		if !b.Allowed {
			t.Fatalf("%s: %+v", text, b.Decision)
		}
		was := b.Charges[0].Limit
		if err := p.all["eu"].keeper.Hold("", p.now); err != nil {
			t.Fatal(err)
		}
		back := &weir.Bill{Verb: algo.Refund, Charges: []weir.Charge{b.Charges[0]}}
		back.Charges[0].Cost = 0
		if err := p.all["eu"].limiter.Decide(context.Background(), back); err != nil || back.Err != nil {
			t.Fatal(err, back.Err)
		}
		if got := back.Charges[0].Receipt.Refunded; got != 10 || back.Charges[0].Limit != was {
			t.Errorf("%s: %d came back of 10, under %s", text, got, back.Charges[0].Limit)
		}
		p.hold()
		if left := p.take("eu", text, text, 30); !left.Allowed {
			t.Errorf("%s: the share after a refund: %+v", text, left.Decision)
		}
	}
}
