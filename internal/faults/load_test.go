package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/redisstore"
)

// The load: 2,000 checks a second whatever happens, each begun when its moment
// has come and not when the one before was answered. A quarter of them each is
// under a limit that answers an outage with closed, open, local and share.
//
// Balances are such that they can be added up afterwards: nothing regains a unit
// or leaves a window within a test. Most are of plenty, for the sums; some are
// scarce, for the bounds.

const (
	checksPerSecond = 2000
	places          = 16   // groups of keys a class has
	plenty          = 3600 // units, at one a day
	scarce          = 20   // units
	instances       = 4    // that share limits believe in
)

// perSecond is how many checks a second there are.
func perSecond() int {
	if raced {
		return checksPerSecond / 10
	}
	return checksPerSecond
}

var classes = [...]weir.Failure{weir.Closed, weir.Open, weir.Local, weir.Share}

const (
	year = 366 * 24 * time.Hour
	day  = 24 * time.Hour
)

// account is one balance and what callers were told about it.
type account struct {
	charge weir.Charge
	most   int64

	// By the generation of the store's contents, see load.generation.
	begun [3]atomic.Int64 // admitted by redis, by when the check began
	ended [3]atomic.Int64 // the same and unknown outcomes, by when it ended

	local      atomic.Int64 // admitted here; what is known not to be in the store
	debts      atomic.Int64 // is debited there later, for local and share
	failedOpen atomic.Int64
}

// load is checks on a limiter and what came of them.
type load struct {
	limiter  *weir.Limiter
	store    *redisstore.Store
	deadline time.Duration
	bucket   [len(classes)][places]*account
	window   [len(classes)][places]*account
	scarce   [len(classes)][2]*account

	// The store's contents are lost in some tests: 0 before, 1 while it may
	// happen, 2 when it has.
	generation atomic.Int32
	observed   atomic.Int64 // failed_open, as an Observer counts it

	spans   bool // some bills are over two groups, which are not one slot of a cluster
	forget  bool // measure nothing: for loads without end
	next    atomic.Int64
	running sync.WaitGroup

	mu     sync.Mutex
	checks []check
	late   []sample // the control
	wrong  map[string]int
}

// check is one answered check.
type check struct {
	began, ended time.Time
	kind         string // of the store's error; empty if redis decided
	unknown      bool
	group        int
}

// sample is how much later than asked for the control was woken.
type sample struct {
	began time.Time
	late  time.Duration
}

// newLoad opens a store with a load for it. plant, if not nil, puts a mistake in
// front of the store.
func newLoad(t testing.TB, url string, deadline time.Duration, plant func(weir.Store) weir.Store) *load {
	t.Helper()
	l := &load{deadline: deadline, wrong: make(map[string]int)}
	store, err := redisstore.Open(url, redisstore.Options{Timeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	l.store = store
	var front weir.Store = store
	if plant != nil {
		front = plant(store)
	}
	l.limiter, err = weir.New(weir.Options{Store: front, Observer: l, Instances: func() int { return instances }})
	if err != nil {
		t.Fatal(err)
	}
	for c, answer := range classes {
		limit := func(n int64, period time.Duration, kind algo.Kind) weir.Limit {
			return weir.Per(n, period).Using(kind).OnFailure(answer)
		}
		open := func(name string, place int, limit weir.Limit) *account {
			charge := limit.Charge(fmt.Sprint(name, ":", place))
			charge.Space, charge.Group = answer.String(), fmt.Sprint(answer, place)
			return &account{charge: charge, most: limit.Most()}
		}
		for i := range places {
			l.bucket[c][i] = open("bucket", i, limit(1, day, algo.TokenBucket).Burst(plenty))
			l.window[c][i] = open("window", i, limit(1e9, year, algo.FixedWindow))
		}
		l.scarce[c][0] = open("scarce", 0, limit(scarce, year, algo.SlidingWindow))
		l.scarce[c][1] = open("scarce", 1, limit(scarce, year, algo.SlidingLog))
	}
	t.Cleanup(func() {
		if err := l.limiter.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// accounts returns all of a class, or of all classes for -1.
func (l *load) accounts(class int) (all []*account) {
	for c := range classes {
		if class < 0 || class == c {
			all = append(all, l.bucket[c][:]...)
			all = append(all, l.window[c][:]...)
			all = append(all, l.scarce[c][:]...)
		}
	}
	return all
}

// Observe implements weir.Observer.
func (l *load) Observe(_ context.Context, e weir.Event) {
	if e.Bill.Verb == algo.Take && e.Bill.Reason == weir.FailedOpen {
		l.observed.Add(1)
	}
}

// run puts on the load until ctx ends, and waits for its answers.
func (l *load) run(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			l.running.Wait()
			return
		case now := <-tick.C:
			// Where the machine stood still, what is due comes at once, but no
			// more than a tenth of a second of it.
			due := int(now.Sub(began).Seconds() * float64(perSecond()))
			for sent = max(sent, due-perSecond()/10); sent < due; sent++ {
				l.running.Go(l.check)
				if sent%2 == 0 && !l.forget {
					l.running.Go(l.control)
				}
			}
		}
	}
}

// control does what a check does that nobody answers: it is handed to another
// goroutine, and woken when the deadline has passed. How much later than that is
// the machine's doing.
func (l *load) control() {
	in, woken := make(chan struct{}), make(chan struct{}, 1)
	began := time.Now()
	l.running.Go(func() {
		<-in
		time.AfterFunc(l.deadline, func() { woken <- struct{}{} })
	})
	in <- struct{}{}
	<-woken
	s := sample{began, time.Since(began) - l.deadline}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, s)
}

// check asks for one bill and books the answer.
func (l *load) check() {
	i := int(l.next.Add(1))
	class, place := i%len(classes), i/len(classes)%places
	var of []*account
	switch turn := i / len(classes) / places; {
	case place < 2 && turn%2 == 0:
		of = []*account{l.scarce[class][place]}
	case turn%8 == 1:
		of = []*account{l.bucket[class][place], l.window[class][place]}
	case turn%8 == 3 && l.spans:
		of = []*account{l.bucket[class][place], l.window[class][(place+1)%places]}
	case turn%2 == 0:
		of = []*account{l.bucket[class][place]}
	default:
		of = []*account{l.window[class][place]}
	}
	b := &weir.Bill{}
	for _, a := range of {
		b.Charges = append(b.Charges, a.charge)
	}
	generation := l.generation.Load()
	c := check{began: time.Now(), group: class*places + place}
	err := l.limiter.Decide(context.Background(), b)
	c.ended = time.Now()
	problem := ""
	if err != nil {
		problem = "an error: " + err.Error()
	} else {
		problem = l.book(of, b, generation, &c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.forget {
		l.checks = append(l.checks, c)
	}
	if problem != "" {
		l.wrong[problem]++
	}
}

// book enters an answer into the accounts and says what is wrong with it.
func (l *load) book(of []*account, b *weir.Bill, generation int32, c *check) string {
	var se *weir.StoreError
	now := l.generation.Load()
	if errors.As(b.Err, &se) {
		c.kind, c.unknown = se.Kind, se.Unknown
	}
	for _, a := range of {
		switch {
		case b.Err == nil && b.Allowed:
			a.begun[generation].Add(1)
			a.ended[now].Add(1)
		case c.unknown:
			a.ended[now].Add(1)
		}
		if b.Err != nil && b.Allowed {
			if b.Source == "local" {
				a.local.Add(1)
				if f := a.charge.Limit.Failure(); !c.unknown && (f == weir.Local || f == weir.Share) {
					a.debts.Add(1)
				}
			} else {
				a.failedOpen.Add(1)
			}
		}
	}
	if got, want := b.Source+" "+b.Reason.String(), stated(b, se); !want[got] {
		return fmt.Sprintf("%s answered %q to %v", of[0].charge.Limit.Failure(), got, b.Err)
	}
	return ""
}

// stated returns the answers that a bill's limit states for what befell it.
func stated(b *weir.Bill, se *weir.StoreError) map[string]bool {
	answer := b.Charges[0].Limit.Failure()
	switch {
	case b.Err == nil:
		return map[string]bool{"redis ok": true, "redis limited": true}
	case se == nil:
		return nil // an error of another kind is never an answer
	case answer == weir.Closed:
		return map[string]bool{"none failed_closed": true}
	case answer == weir.Open && se.Unreachable:
		return map[string]bool{"none failed_open": true}
	}
	return map[string]bool{"local ok": true, "local limited": true}
}
