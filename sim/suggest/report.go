package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Report is what was found: for all requests, then for the busiest routes.
type Report struct {
	Requests     int64      `json:"requests"`
	SkippedLines int64      `json:"skipped_lines"`
	Crowded      int64      `json:"-"`      // Study.Crowded
	Routes       []RouteUse `json:"routes"` // the first is all of them, with the pattern /**
}

// RouteUse is the use of one route.
type RouteUse struct {
	Route    string   `json:"route"`
	Requests int64    `json:"requests"`
	Callers  int      `json:"callers"`
	Periods  []Period `json:"periods"`

	apart []string // busy routes that the pattern would take too, and that are counted by themselves
}

// Period is what callers use in one period at most.
type Period struct {
	Period string  `json:"period"`
	P50    uint32  `json:"p50"`
	P90    uint32  `json:"p90"`
	P99    uint32  `json:"p99"`
	P999   uint32  `json:"p99_9"`
	Max    uint32  `json:"max"`
	Limits []Limit `json:"limits"`
}

// Limit is a limit and whom it would touch.
type Limit struct {
	Target  string `json:"target"` // the share of callers that was aimed at
	Limit   string `json:"limit"`
	N       uint32 `json:"n"`
	Callers int    `json:"callers"` // that would be refused something
	Refused int64  `json:"refused"` // requests
}

// targets are the shares of callers that limits are looked for, as one in so many.
var targets = [...]struct {
	name  string
	oneIn int
}{{"0.1 %", 1000}, {"1 %", 100}, {"5 %", 20}}

// shownRoutes is how many routes a report has.
const shownRoutes = 8

// Report sums up.
func (s *Study) Report() *Report {
	r := &Report{Requests: s.Requests, Crowded: s.Crowded, Routes: []RouteUse{s.all.report("/**")}}
	names := make([]string, 0, len(s.routes))
	for name := range s.routes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.routes[b].requests, s.routes[a].requests), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), shownRoutes)] {
		u := s.routes[name].report(name)
		for _, other := range names {
			if len(u.apart) < mostApart && other != name && takes(name, other) {
				u.apart = append(u.apart, other)
			}
		}
		r.Routes = append(r.Routes, u)
	}
	return r
}

// mostApart is how many routes a rule leaves to others; what is beyond them is little.
const mostApart = 50

func (u *usage) report(name string) RouteUse {
	r := RouteUse{Route: name, Requests: u.requests, Callers: len(u.callers)}
	if len(u.callers) == 0 {
		return r
	}
	for i, period := range Periods {
		peaks := u.peaks(i)
		at := func(perMille int) uint32 { return peaks[(len(peaks)-1)*perMille/1000] }
		p := Period{Period: period.Name, P50: at(500), P90: at(900), P99: at(990), P999: at(999), Max: peaks[len(peaks)-1]}
		for _, t := range targets {
			// So many callers may be touched; the limit is what the next one uses.
			n := peaks[len(peaks)-1-len(peaks)/t.oneIn]
			first, _ := slices.BinarySearch(peaks, n+1)
			p.Limits = append(p.Limits, Limit{
				Target: t.name, N: n, Limit: fmt.Sprintf("%d/%s algorithm=fixed_window", n, period.Name),
				Callers: len(peaks) - first, Refused: u.refused(i, n),
			})
		}
		r.Periods = append(r.Periods, p)
	}
	return r
}
