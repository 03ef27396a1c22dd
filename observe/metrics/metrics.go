// Package metrics counts decisions for Prometheus.
//
// It counts on the goroutine of whoever asked, in a few atomic additions and
// without allocating: the series of a rule are found in a map that is only read,
// and each series is found by three small numbers. What other rooms count by
// themselves is read when it is scraped (Sources).
package metrics

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// Options configures New.
type Options struct {
	Version string // of the program
	// Trace returns the ID of the trace that ctx belongs to if it is recorded, for
	// exemplars; nil for none.
	Trace func(ctx context.Context) string
}

// Metrics is a weir.Observer. It is safe for concurrent use.
type Metrics struct {
	trace    func(context.Context) string
	registry *prometheus.Registry

	decisions, shadows, tries, errors *prometheus.CounterVec
	duration                          *latency
	store, bills, queued              prometheus.Histogram

	rules   atomic.Pointer[map[string]*rule] // only ever replaced
	adding  sync.Mutex                       // guards replacing it
	sources atomic.Pointer[Sources]
	config  atomic.Pointer[config]
	opened  atomic.Int64 // when a limit last failed open, Unix nanoseconds
}

// rule holds the series of one rule.
type rule struct {
	name      string
	decisions [len(outcomes)][len(sources)][len(doors)]atomic.Pointer[series]
}

type series struct{ prometheus.Counter }

// New returns metrics with a registry of their own, in which Go and process
// metrics stand too.
func New(o Options) *Metrics {
	m := &Metrics{
		trace: o.Trace, registry: prometheus.NewRegistry(),
		decisions: counters(decisions), shadows: counters(shadows), tries: counters(tries), errors: counters(storeErrors),
		duration: newLatency(duration), store: histogram(storeDuration), bills: histogram(batchBills), queued: histogram(queued),
	}
	m.rules.Store(&map[string]*rule{})
	m.sources.Store(&Sources{})
	m.config.Store(&config{ok: true})
	for _, kind := range errorKinds {
		m.errors.WithLabelValues(kind)
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo.Name, Help: buildInfo.Help}, buildInfo.Labels)
	info.WithLabelValues(o.Version, runtime.Version()).Set(1)
	m.registry.MustRegister(m.decisions, m.shadows, m.tries, m.errors, m.duration, m.store, m.bills, m.queued, info,
		scraped{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counters(d Definition) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// histogram has classic buckets for every Prometheus, and native ones, each 10 %
// wider than the one before, for those that ask for them.
func histogram(d Definition) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: d.Name, Help: d.Help, Buckets: d.Buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	})
}

// Handler serves the metrics, as OpenMetrics with exemplars to those who ask for
// it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: m.registry})
}

// Register adds what another room counts under names of its own. The error is a
// name that is taken.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Gatherer reads the metrics, for whoever shows them in another way.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Observe implements weir.Observer. It counts takes; looking costs nobody
// anything.
func (m *Metrics) Observe(ctx context.Context, e weir.Event) {
	b := e.Bill
	if b.Verb != algo.Take {
		return
	}
	note := observe.NoteOf(&e)
	m.seriesOf(b, observe.Rule(note, b), note.DoorName()).Inc()
	m.observeDuration(ctx, e.Elapsed, 1)
	m.countRest(note, b)
}

// seriesOf returns the series that a decided bill goes into.
func (m *Metrics) seriesOf(b *weir.Bill, ruleName, doorName string) *series {
	return m.series(m.rule(ruleName), outcome(&b.Decision), source(b.Source), door(doorName))
}

// countRest counts what few bills have.
func (m *Metrics) countRest(note observe.Note, b *weir.Bill) {
	if b.Reason == weir.FailedOpen {
		m.opened.Store(time.Now().UnixNano())
	}
	if b.Err != nil {
		m.countError(b.Err)
	}
	if n := len(b.Charges); n > 1 || n == 1 && b.Charges[0].Trial != 0 {
		m.countTrials(note, b)
	}
}

// ObserveAll implements observe.Batch. Bills that go into the same series one
// after another, as those of a batch mostly do, are added as one number.
func (m *Metrics) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	var last *weir.Bill // whose series it is
	var its *series
	same, takes := 0, 0
	for _, b := range bills {
		if b.Verb != algo.Take {
			continue
		}
		takes++
		if last == nil || !alike(last, b) {
			if last != nil {
				its.Add(float64(same))
			}
			note := observe.NoteOf(&weir.Event{Bill: b})
			last, its, same = b, m.seriesOf(b, observe.Rule(note, b), note.DoorName()), 0
		}
		same++
		if b.Err != nil || b.Reason == weir.FailedOpen || len(b.Charges) != 1 || b.Charges[0].Trial != 0 {
			m.countRest(observe.NoteOf(&weir.Event{Bill: b}), b)
		}
	}
	if last != nil {
		its.Add(float64(same))
		m.observeDuration(ctx, elapsed, uint64(takes))
	}
}

// alike reports whether two bills surely go into the same series.
func alike(a, b *weir.Bill) bool {
	return a.Reason == b.Reason && a.Binding == b.Binding && len(a.Each) == len(b.Each) && a.Source == b.Source && observe.SameNote(a, b)
}

// observeDuration counts n decisions that took d.
func (m *Metrics) observeDuration(ctx context.Context, d time.Duration, n uint64) {
	if m.trace != nil {
		if id := m.trace(ctx); id != "" {
			m.duration.exemplify(d, id)
		}
	}
	m.duration.observe(d, n)
}

func (m *Metrics) countError(err error) {
	kind := "other"
	var se *weir.StoreError
	if errors.As(err, &se) {
		kind = errorKind(se.Kind)
	}
	m.errors.WithLabelValues(kind).Inc()
}

// countTrials counts the charges that decide nothing.
func (m *Metrics) countTrials(note observe.Note, b *weir.Bill) {
	var details observe.Details
	for i := range b.Each {
		if b.Charges[i].Trial == 0 {
			continue
		}
		if details == nil {
			details = observe.DetailsOf(note)
		}
		name := m.rule(note.RuleName(i)).name
		if details.IsTry(i) {
			m.tries.WithLabelValues(name, verdict(&b.Each[i-1]), verdict(&b.Each[i])).Inc()
		} else {
			m.shadows.WithLabelValues(name, verdict(&b.Each[i])).Inc()
		}
	}
}

// rule returns the series of a rule, made at its first use.
func (m *Metrics) rule(name string) *rule {
	if r := (*m.rules.Load())[name]; r != nil {
		return r
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	known := *m.rules.Load()
	if r := known[name]; r != nil {
		return r
	}
	if len(known) >= maxRules && name != otherRule && name != observe.Adhoc {
		if r := known[otherRule]; r != nil {
			return r
		}
		name = otherRule
	}
	more := maps.Clone(known)
	r := &rule{name: name}
	more[name] = r
	m.rules.Store(&more)
	return r
}

// series returns one series of r, made at its first use.
func (m *Metrics) series(r *rule, outcome, source, door int) *series {
	cell := &r.decisions[outcome][source][door]
	s := cell.Load()
	if s == nil {
		s = &series{m.decisions.WithLabelValues(r.name, outcomes[outcome], sources[source], doors[door])}
		cell.Store(s) // whoever comes between stores the same counter
	}
	return s
}

// Rule is a rule for Expect.
type Rule struct {
	Name        string
	Shadow, Try bool
}

// Expect makes the series that rules in force will have behind the doors that
// are open, so that they are there at 0 before anything is counted.
func (m *Metrics) Expect(rules []Rule, storeName string, open []string) {
	m.makeRoom(rules)
	for _, one := range append(slices.Clone(rules), Rule{Name: observe.Adhoc}) {
		r := m.rule(one.Name)
		for _, d := range open {
			for _, reason := range [...]weir.Reason{weir.OK, weir.Limited} {
				m.series(r, int(reason), source(storeName), door(d))
			}
		}
		for _, a := range [...]string{admitted, denied} {
			if one.Shadow {
				m.shadows.WithLabelValues(r.name, a)
			}
			for _, b := range [...]string{admitted, denied} {
				if one.Try {
					m.tries.WithLabelValues(r.name, a, b)
				}
			}
		}
	}
}

// Call counts one call of the store: how many bills it decided, how long the one
// that waited longest had waited, and how long it took.
func (m *Metrics) Call(bills int, waited, took time.Duration) {
	m.bills.Observe(float64(bills))
	m.queued.Observe(waited.Seconds())
	m.store.Observe(took.Seconds())
}

// makeRoom forgets rules that are no longer in force where those that are would be
// too many beside them: else a daemon whose policy changes its names would come to
// count every new rule as other.
func (m *Metrics) makeRoom(rules []Rule) {
	m.adding.Lock()
	defer m.adding.Unlock()
	known, stay := *m.rules.Load(), map[string]*rule{}
	fresh := 0
	for _, name := range append(namesOf(rules), observe.Adhoc, noRule) {
		if r := known[name]; r != nil {
			stay[name] = r
		} else {
			fresh++
		}
	}
	if len(known)+fresh <= maxRules {
		return
	}
	m.rules.Store(&stay)
	for name := range known {
		if stay[name] == nil {
			for _, counts := range [...]*prometheus.CounterVec{m.decisions, m.shadows, m.tries} {
				counts.DeletePartialMatch(prometheus.Labels{"rule": name})
			}
		}
	}
}

func namesOf(rules []Rule) (names []string) {
	for i := range rules {
		names = append(names, rules[i].Name)
	}
	return names
}
