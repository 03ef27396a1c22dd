// The race detector makes some things dearer than others, so ratios of cost are
// measured without it.

//go:build !race

package observe_test

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe/logs"
	"github.com/weirhq/weir/observe/metrics"
	"github.com/weirhq/weir/observe/refusals"
	"github.com/weirhq/weir/observe/stream"
	"github.com/weirhq/weir/observe/top"
)

// all is the observers of a daemon, as it puts them together.
type all []weir.Observer

func (a all) Observe(ctx context.Context, e weir.Event) {
	for _, one := range a {
		one.Observe(ctx, e)
	}
}

// usual are the observers of a daemon without tracing and without events.
func usual() all {
	log := logs.New(io.Discard, false, slog.LevelInfo)
	return all{metrics.New(metrics.Options{}), top.New(top.Options{}), refusals.New(), logs.NewRefusals(log, nil), logs.NewUnreadable(log, nil)}
}

// stuck is a sink that takes nothing.
type stuck struct{ ended chan struct{} }

func (s stuck) Write(ctx context.Context, _ []stream.Event) (int, error) {
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	return 0, io.ErrClosedPipe
}

func (stuck) Close() error { return nil }

// load is one limiter and keys to ask it about.
type load struct {
	limiter *weir.Limiter
	keys    []string
	limit   weir.Limit
	bill    weir.Bill
}

const manyKeys = 1 << 17 // 128k: as the decision in memory is measured

func newLoad(t testing.TB, o weir.Observer, limit weir.Limit) *load {
	t.Helper()
	l := &load{keys: make([]string, manyKeys), limit: limit}
	l.bill.Charges = []weir.Charge{limit.Charge("")}
	var err error
	if l.limiter, err = weir.New(weir.Options{Observer: o}); err != nil {
		t.Fatal(err)
	}
	for i := range l.keys {
		l.keys[i] = "user:" + strconv.Itoa(i)
	}
	l.decide(2 * manyKeys)
	return l
}

func (l *load) decide(n int) {
	ctx := context.Background()
	for range n {
		l.bill.Charges[0].Key = l.keys[rand.IntN(manyKeys)]
		_ = l.limiter.Decide(ctx, &l.bill) // the bill is sound
	}
}

// cost returns what a decision costs each load: the tenth of the rounds that went
// best, since other work only ever makes a round longer. The loads take turns, so
// that what slows one down slows down all.
func cost(loads ...*load) []time.Duration {
	const rounds, each = 1500, 300
	times := make([][]time.Duration, len(loads))
	for range rounds {
		for i, l := range loads {
			began := time.Now()
			l.decide(each)
			times[i] = append(times[i], time.Since(began))
		}
	}
	costs := make([]time.Duration, len(loads))
	for i := range times {
		slices.Sort(times[i])
		costs[i] = times[i][rounds/10] / each
	}
	return costs
}

// TestObserversCostLittle: with all that a daemon has by default, an admitted
// decision in memory costs at most half as much again as without, and so it does
// with events that nobody takes. Neither it nor a refusal allocates.
func TestObserversCostLittle(t *testing.T) {
	most := weir.Per(1_000_000_000, time.Hour)
	sink := stuck{make(chan struct{})}
	events := stream.New(sink, stream.Options{Admitted: 100, Buffer: 1000})
	t.Cleanup(func() {
		close(sink.ended)
		if err := events.Close(); err != nil {
			t.Error(err)
		}
	})
	bare, seen := newLoad(t, nil, most), newLoad(t, usual(), most)
	full := newLoad(t, append(usual(), events), most)
	var c []time.Duration
	for range 4 { // a machine with other work may spoil one try
		if c = cost(bare, seen, full); 2*c[1] <= 3*c[0] && 2*c[2] <= 3*c[0] {
			break
		}
	}
	t.Logf("a decision: bare %v, observed %v (%.2f), with a full buffer of events %v (%.2f)", c[0], c[1], float64(c[1])/float64(c[0]), c[2], float64(c[2])/float64(c[0]))
	if 2*c[1] > 3*c[0] || 2*c[2] > 3*c[0] {
		t.Error("observers cost more than half a decision")
	}
	for name, l := range map[string]*load{"admitted": seen, "refused": newLoad(t, usual(), weir.PerMinute(0))} {
		l.decide(20_000) // rooms for keys have grown
		if n := testing.AllocsPerRun(2000, func() { l.decide(1) }); n >= 1 {
			t.Errorf("%s: %v allocations a decision", name, n)
		}
	}
}
