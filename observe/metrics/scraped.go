package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are what other rooms count by themselves, read at every scrape. What is
// nil is 0.
type Sources struct {
	BreakerOpen func() bool
	Unknown     func() int64
	ClockOffset func() (offset time.Duration, known bool)
	Instances   func() int
	Losses      func() Losses
	Debts       func() (owed, settled, dropped int64)

	Regions func() Regions // nil where there is one

	DenyHits func() int64
	Leases   func() Leases
	Memory   func() Memory

	EventsWritten, EventsDropped, LogsSuppressed func() int64
}

// Losses are counters that the store lost.
type Losses struct{ Flushed, RolledBack, Evicted, Replaced int64 }

// Regions is what was exchanged with other regions.
type Regions struct {
	Behind, CutOff              int
	Told, Heard, Bytes, Guessed int64
	Unread, Forgotten           int64
	Trip                        time.Duration
	Bounds                      map[string]int64 // by rule
}

// Leases are units.
type Leases struct{ Borrowed, Spent, Returned, Out, Peak int64 }

// Memory is what balances in this process take.
type Memory struct{ Keys, Bytes, Evicted, Stepped int64 }

// Read sets where the metrics of other rooms are read.
func (m *Metrics) Read(s Sources) { m.sources.Store(&s) }

// config is what the last reload came to.
type config struct {
	ok      bool
	since   time.Time
	version string
}

// Reloaded says that a policy of the given version is in force, or, with another
// version than "", and ok false, that a file was wrong and the last one is.
func (m *Metrics) Reloaded(ok bool, version string) {
	c := *m.config.Load()
	c.ok = ok
	if ok {
		c.since, c.version = time.Now(), version
	}
	m.config.Store(&c)
}

// scraped is everything that is read rather than counted here.
type scraped struct{ m *Metrics }

// lately is for how long a request that was admitted unchecked counts.
const lately = 30 * time.Second

var descriptions = describe()

func describe() map[string]*prometheus.Desc {
	all := make(map[string]*prometheus.Desc)
	for _, d := range Definitions {
		all[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return all
}

var read = []Definition{
	failOpen, breakerOpen, unknown, clockOffset, instances, losses, debtOwed, debtEnded, denyHits, leaseUnits, leaseOut, leasePeak,
	regionsBehind, regionsAway, regionsTold, regionsBytes, regionsGuessed, regionsLost, regionsTrip, regionsBound,
	memoryKeys, memoryBytes, memoryEvicted, clockSteps, reloadOK, reloadTime, configInfo, eventsWritten, eventsDropped, logsSuppressed,
}

// Describe implements prometheus.Collector.
func (s scraped) Describe(to chan<- *prometheus.Desc) {
	for _, d := range read {
		to <- descriptions[d.Name]
	}
}

// Collect implements prometheus.Collector.
func (s scraped) Collect(to chan<- prometheus.Metric) {
	give := func(d Definition, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d.Kind == Counter {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(descriptions[d.Name], kind, v, labels...)
	}
	m, src, c := s.m, s.m.sources.Load(), s.m.config.Load()
	give(failOpen, truth(time.Since(time.Unix(0, m.opened.Load())) < lately))
	give(breakerOpen, truth(src.BreakerOpen != nil && src.BreakerOpen()))
	give(unknown, count(src.Unknown))
	if src.ClockOffset != nil {
		if offset, known := src.ClockOffset(); known {
			give(clockOffset, offset.Seconds(), "furthest")
		}
	}
	alive := 1
	if src.Instances != nil {
		alive = src.Instances()
	}
	give(instances, float64(alive))
	var lost Losses
	if src.Losses != nil {
		lost = src.Losses()
	}
	give(losses, float64(lost.Flushed), "flushed")
	give(losses, float64(lost.RolledBack), "rolled_back")
	give(losses, float64(lost.Evicted), "evicted")
	give(losses, float64(lost.Replaced), "replaced")
	var owed, settled, dropped int64
	if src.Debts != nil {
		owed, settled, dropped = src.Debts()
	}
	give(debtOwed, float64(owed))
	give(debtEnded, float64(settled), "settled")
	give(debtEnded, float64(dropped), "dropped")
	if src.Regions != nil {
		r := src.Regions()
		give(regionsBehind, float64(r.Behind))
		give(regionsAway, float64(r.CutOff))
		give(regionsTold, float64(r.Told), "told")
		give(regionsTold, float64(r.Heard), "heard")
		give(regionsBytes, float64(r.Bytes))
		give(regionsGuessed, float64(r.Guessed))
		give(regionsLost, float64(r.Unread), "unread")
		give(regionsLost, float64(r.Forgotten), "forgotten")
		give(regionsTrip, r.Trip.Seconds())
		for rule, bound := range r.Bounds {
			give(regionsBound, float64(bound), rule)
		}
	}
	give(denyHits, count(src.DenyHits))
	var leases Leases
	if src.Leases != nil {
		leases = src.Leases()
	}
	give(leaseUnits, float64(leases.Borrowed), "borrowed")
	give(leaseUnits, float64(leases.Spent), "spent")
	give(leaseUnits, float64(leases.Returned), "returned")
	give(leaseOut, float64(leases.Out))
	give(leasePeak, float64(leases.Peak))
	var memory Memory
	if src.Memory != nil {
		memory = src.Memory()
	}
	give(memoryKeys, float64(memory.Keys))
	give(memoryBytes, float64(memory.Bytes))
	give(memoryEvicted, float64(memory.Evicted))
	give(clockSteps, float64(memory.Stepped))
	give(reloadOK, truth(c.ok))
	if !c.since.IsZero() {
		give(reloadTime, float64(c.since.UnixMilli())/1000)
	}
	if c.version != "" {
		give(configInfo, 1, c.version)
	}
	give(eventsWritten, count(src.EventsWritten))
	give(eventsDropped, count(src.EventsDropped))
	give(logsSuppressed, count(src.LogsSuppressed))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func count(f func() int64) float64 {
	if f == nil {
		return 0
	}
	return float64(f())
}
