// Package suggest finds limits in recorded traffic: how much callers really use
// in several periods, and which limits would touch how many of them.
//
// What it counts is what `algorithm=fixed_window` counts: requests in periods
// that are multiples of their length. So its numbers are exact, in one pass and
// in memory that grows with callers and not with requests, and a replay of what
// it suggests finds the same.
package suggest

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/sim/accesslog"
)

// Periods are those that are looked at, and how a limit names them.
var Periods = [...]struct {
	Name   string
	Length time.Duration
}{
	{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}, {"day", 24 * time.Hour},
}

// The bounds of what is told apart; what comes after them is Crowded. Those who look
// for holes ask for thousands of paths that nobody else does.
const (
	maxRoutes = 20_000
	maxPairs  = 2_000_000 // of a caller and a route
)

// Study counts. Requests must come in order of time. It is used by one goroutine.
type Study struct {
	Requests int64
	// Crowded counts requests that are in no route's numbers, for want of room for
	// the route or for its caller.
	Crowded int64

	seed    maphash.Seed
	all     *usage
	routes  map[string]*usage
	pairs   int
	scratch []byte
}

// usage is the use of one route, or of all, by caller.
type usage struct {
	requests int64
	callers  map[uint64]*caller
	// windows tells for each period how many periods of a caller had a count;
	// those that are not over are in callers.
	windows [len(Periods)]map[uint32]int64
}

type caller [len(Periods)]struct {
	period int64
	count  uint32
	peak   uint32
}

// NewStudy returns an empty Study.
func NewStudy() *Study {
	return &Study{seed: maphash.MakeSeed(), all: newUsage(), routes: map[string]*usage{}}
}

func newUsage() *usage {
	u := &usage{callers: map[uint64]*caller{}}
	for i := range u.windows {
		u.windows[i] = map[uint32]int64{}
	}
	return u
}

// Add counts a request. Clients are told apart as a policy does by default.
func (s *Study) Add(r *accesslog.Record) {
	s.Requests++
	s.scratch = append(s.scratch[:0], r.Client...)
	if r.IP.IsValid() {
		s.scratch = identity.AppendNetwork(s.scratch[:0], identity.NetworkOf(r.IP, identity.DefaultIPv4Prefix, identity.DefaultIPv6Prefix))
	}
	who := maphash.Bytes(s.seed, s.scratch)
	s.all.add(who, r.At)
	name := Route(r.Path)
	route := s.routes[name]
	if route == nil {
		if len(s.routes) >= maxRoutes {
			s.Crowded++
			return
		}
		route = newUsage()
		s.routes[name] = route
	}
	if _, known := route.callers[who]; !known {
		if s.pairs >= maxPairs {
			s.Crowded++
			return
		}
		s.pairs++
	}
	route.add(who, r.At)
}

func (u *usage) add(who uint64, at int64) {
	u.requests++
	c := u.callers[who]
	if c == nil {
		c = &caller{}
		u.callers[who] = c
	}
	for i := range c {
		w := &c[i]
		if period := at / Periods[i].Length.Microseconds(); period != w.period {
			if w.count > 0 {
				u.windows[i][w.count]++
			}
			w.period, w.count = period, 0
		}
		w.count++
		w.peak = max(w.peak, w.count)
	}
}

// peaks returns the most that each caller used in one period, in order.
func (u *usage) peaks(period int) []uint32 {
	list := make([]uint32, 0, len(u.callers))
	for _, c := range u.callers {
		list = append(list, c[period].peak)
	}
	slices.Sort(list)
	return list
}

// refused returns how many requests a limit of n in the period refuses.
func (u *usage) refused(period int, n uint32) (refused int64) {
	for count, windows := range u.windows[period] {
		if count > n {
			refused += int64(count-n) * windows
		}
	}
	for _, c := range u.callers {
		if c[period].count > n {
			refused += int64(c[period].count - n)
		}
	}
	return refused
}
