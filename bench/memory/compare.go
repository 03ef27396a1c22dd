package memory

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/bench/rounds"
)

// Row is what one limiter cost in one workload.
type Row struct {
	Workload string
	Cores    int
	Limiter  string
	Ns       float64 // wall time of a round divided by the charges of all callers, median
	Allocs   float64 // per charge
}

// A round of one caller is shorter than the time slice of the operating system,
// so that most rounds run undisturbed on a machine that has other things to do;
// which ones does not matter, since every limiter has its turn within
// milliseconds of every other. Callers that share locks need longer ones: a
// sync.Mutex shows what it costs only once callers have waited for it for a
// millisecond, which is when it begins to hand itself on in order.
const (
	roundAlone    = 4_000
	roundTogether = 100_000
)

// Compare runs the limiters in turn, with as many callers as cores, and returns
// medians of n rounds each, or of a tenth of n where callers run together.
func Compare(limiters []Limiter, w Workload, cores, n int) ([]Row, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	callers := newCallers(w.orders(cores))
	defer callers.stop()

	takes := make([]Take, len(limiters))
	samples := make([][]float64, len(limiters))
	rows := make([]Row, len(limiters))
	for i, l := range limiters {
		var err error
		if takes[i], err = l.filled(w.Keys); err != nil {
			return nil, err
		}
		rows[i] = Row{Workload: w.Name, Cores: cores, Limiter: l.Name}
		rows[i].Allocs = callers.allocations(takes[i])
	}
	if cores > 1 {
		n = n/10 + 1
	}
	for range n {
		for i, l := range limiters {
			samples[i] = append(samples[i], callers.round(takes[i]))
			if refused := callers.refused(); refused > 0 {
				return nil, fmt.Errorf("%s, %s: %d charges were refused; the limits are meant to admit all", w.Name, l.Name, refused)
			}
		}
	}
	for i := range rows {
		rows[i].Ns = rounds.Median(samples[i])
	}
	return rows, nil
}

// callers are goroutines that charge together, round by round.
type callers struct {
	each    []*caller
	length  int // charges that a caller makes in a round
	waiting atomic.Int32
	done    sync.WaitGroup
}

type caller struct {
	order   []string
	at      int
	work    chan Take
	began   time.Time
	ended   time.Time
	refused int
	_       [64]byte
}

func newCallers(orders [][]string) *callers {
	c := &callers{length: roundAlone}
	if len(orders) > 1 {
		c.length = roundTogether
	}
	for _, order := range orders {
		one := &caller{order: order, work: make(chan Take)}
		c.each = append(c.each, one)
		go c.run(one)
	}
	return c
}

// run makes one caller's charges, a round for each Take that comes.
func (c *callers) run(one *caller) {
	for take := range one.work {
		// All start as one. Waiting without yielding keeps the core, so that the
		// others have to start on cores of their own.
		c.waiting.Add(-1)
		for c.waiting.Load() > 0 {
		}
		one.began = time.Now()
		for range c.length {
			if !take(one.order[one.at]) {
				one.refused++
			}
			if one.at++; one.at == len(one.order) {
				one.at = 0
			}
		}
		one.ended = time.Now()
		c.done.Done()
	}
}

// round returns the nanoseconds a charge took.
func (c *callers) round(take Take) float64 {
	c.waiting.Store(int32(len(c.each)))
	c.done.Add(len(c.each))
	for _, one := range c.each {
		one.work <- take
	}
	c.done.Wait()
	began, ended := c.each[0].began, c.each[0].ended
	for _, one := range c.each {
		if one.began.Before(began) {
			began = one.began
		}
		if one.ended.After(ended) {
			ended = one.ended
		}
	}
	return float64(ended.Sub(began).Nanoseconds()) / float64(c.length*len(c.each))
}

// refused returns how many charges were, over all rounds.
func (c *callers) refused() (n int) {
	for _, one := range c.each {
		n += one.refused
	}
	return n
}

// allocations returns how many allocations a charge makes.
func (c *callers) allocations(take Take) float64 {
	var before, after runtime.MemStats
	c.round(take) // fills pools
	runtime.ReadMemStats(&before)
	c.round(take)
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs - before.Mallocs)
	return float64(int(allocs/float64(c.length*len(c.each))*100)) / 100 // the rounds' own are far below one
}

func (c *callers) stop() {
	for _, one := range c.each {
		close(one.work)
	}
}
