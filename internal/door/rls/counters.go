package rls

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Counts are the counters of one rule, or of one value of it where its metric
// has values. Hits are counted, not requests.
type Counts struct {
	Domain string
	Path   []string // a segment a level: key, or key_value

	Total, Over, Near, Within, Shadow atomic.Int64
}

// add counts the hits of a descriptor. Hits that cross a bound are divided: those
// up to it, and those beyond.
func (c *Counts) add(a *asked, o outcome, nearRatio int64) {
	hits := a.hits
	if a.refund {
		return
	}
	c.Total.Add(hits)
	limit := a.rule.Counted()
	near := limit * nearRatio / 1000
	after := o.used + hits
	switch {
	case !o.over:
		c.Within.Add(hits)
		c.Near.Add(max(0, after-max(near, o.used)))
	case o.closed || o.used >= limit:
		c.Over.Add(hits)
	default:
		c.Over.Add(max(0, min(hits, after-limit)))
		c.Near.Add(limit - max(near, o.used))
	}
	if o.over && a.rule.Shadow {
		c.Shadow.Add(hits)
	}
}

// counters are those of a Service. Series are made as they are needed and are
// bounded in number and in the length of their names: a value of a request may be
// in them, and a request may be long. Names that are too long are as those beyond
// the number.
type counters struct {
	requests, serviceErrors, storeErrors, shadowed, loads, loadErrors atomic.Int64

	mu      sync.RWMutex
	series  map[string]*Counts
	unknown map[string]*atomic.Int64 // domains
}

const (
	maxSeries  = 10_000 // that values of requests may make; rules of the file always have theirs
	maxUnknown = 100
	maxName    = 512 // bytes of a name with all its segments
)

// of returns the counts with this name. Beyond the bound, unless the name is
// fixed by the file, that is the one of its domain that stands for all others.
func (c *counters) of(domain string, path []string, fixed bool) *Counts {
	name := domain + "\x00" + strings.Join(labels(path), "\x00")
	if len(name) > maxName && !fixed {
		name, path = domain+"\x00other", []string{"other"}
	}
	c.mu.RLock()
	counts := c.series[name]
	c.mu.RUnlock()
	if counts != nil {
		return counts
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series == nil {
		c.series = map[string]*Counts{}
	}
	if c.series[name] == nil && !fixed && len(c.series) >= maxSeries {
		name, path = domain+"\x00other", []string{"other"}
	}
	counts = c.series[name]
	if counts == nil {
		counts = &Counts{Domain: domain, Path: make([]string, len(path))}
		for i := range path {
			counts.Path[i] = strings.Clone(path[i]) // of a request that need not be kept
		}
		c.series[name] = counts
	}
	return counts
}

// labels returns how a path is told: its first segment and the others, joined by
// dots, which values may hold as well. What is told alike is one series.
func labels(path []string) []string {
	if len(path) <= 2 {
		return path
	}
	return []string{path[0], strings.Join(path[1:], ".")}
}

// unknownDomain counts a request for a domain that no file has.
func (c *counters) unknownDomain(name string) {
	if len(name) > maxName {
		name = "other"
	}
	c.mu.RLock()
	n := c.unknown[name]
	c.mu.RUnlock()
	if n == nil {
		c.mu.Lock()
		if c.unknown == nil {
			c.unknown = map[string]*atomic.Int64{}
		}
		if c.unknown[name] == nil && len(c.unknown) >= maxUnknown {
			name = "other"
		}
		name = strings.Clone(name) // of a request that need not be kept
		if n = c.unknown[name]; n == nil {
			n = new(atomic.Int64)
			c.unknown[name] = n
		}
		c.mu.Unlock()
	}
	n.Add(1)
}

// Stats is what a Service has counted so far.
type Stats struct {
	Requests, ServiceErrors, StoreErrors, Shadowed, Loads, LoadErrors int64
	UnknownDomains                                                    map[string]int64
	Rules                                                             []*Counts // by domain and path
}

// Stats returns what was counted. The Counts go on counting.
func (s *Service) Stats() Stats {
	c := &s.counters
	out := Stats{
		Requests: c.requests.Load(), ServiceErrors: c.serviceErrors.Load(), StoreErrors: c.storeErrors.Load(),
		Shadowed: c.shadowed.Load(), Loads: c.loads.Load(), LoadErrors: c.loadErrors.Load(),
		UnknownDomains: map[string]int64{},
	}
	c.mu.RLock()
	for name, n := range c.unknown {
		out.UnknownDomains[name] = n.Load()
	}
	for _, counts := range c.series {
		out.Rules = append(out.Rules, counts)
	}
	c.mu.RUnlock()
	slices.SortFunc(out.Rules, func(a, b *Counts) int {
		if n := strings.Compare(a.Domain, b.Domain); n != 0 {
			return n
		}
		return slices.Compare(a.Path, b.Path)
	})
	return out
}
