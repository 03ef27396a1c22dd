package replay

import (
	"time"

	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// Report is what a replay found. As JSON it has the fields of the contract.
type Report struct {
	Requests     int64      `json:"requests"`
	SkippedLines int64      `json:"skipped_lines"` // every line that is no request, comments included
	Allowed      int64      `json:"allowed"`
	Denied       int64      `json:"denied"`
	From         *time.Time `json:"from"` // null without requests
	To           *time.Time `json:"to"`
	Rules        []Rule     `json:"rules"`

	// What the table and the page show beside it.
	Lines   accesslog.Summary `json:"-"`
	Worst   Minute            `json:"-"`
	Refused int64             `json:"-"` // of Denied: bad input, such as a path that ambiguous_path: reject refuses
	Evicted int64             `json:"-"` // balances that gave way for want of memory
	series  series
}

// Rule is what one rule would have done. A rule's try is a Rule after it.
type Rule struct {
	Rule    string `json:"rule"`
	Matched int64  `json:"matched"`
	// Denied counts the requests that the rule would have refused alone, without
	// the others; a shadow too.
	Denied        int64    `json:"denied"`
	Callers       int64    `json:"callers"`
	CallersDenied int64    `json:"callers_denied"`
	Top           []Caller `json:"top"`

	Decides     bool      `json:"-"` // false for shadow and try
	Limit       string    `json:"-"`
	First, Last time.Time `json:"-"` // refusals
	Worst       Minute    `json:"-"`
	// Headroom is what the request that came closest to the limit left of it, in
	// percent; -1 if some were refused or nothing was asked.
	Headroom int `json:"-"`
	series   series
}

// Caller is one caller of a rule.
type Caller struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// Minute is the minute with the most refusals, of a clock that starts at :00.
type Minute struct {
	Start  time.Time
	Denied int64
}

// Report sums up. lines is what the reading of the logs came to.
func (run *Run) Report(lines accesslog.Summary) *Report {
	r := &Report{
		Requests: run.requests, SkippedLines: lines.Bad + lines.Aside, Allowed: run.allowed, Denied: run.denied,
		Rules: []Rule{}, Lines: lines, Worst: run.worst.report(), Refused: run.refused,
		Evicted: run.memory.Stats().Evicted + run.alone.short, series: run.series,
	}
	if run.requests > 0 {
		r.From, r.To = new(instant(run.first)), new(instant(run.last))
	}
	for seat, t := range run.seats {
		switch {
		case t == nil:
		case seat%2 == 0:
			r.Rules = append(r.Rules, t.report(run, seat, t.rule.Limit.String(), t.rule.Mode == policy.Enforce))
		default:
			r.Rules = append(r.Rules, t.report(run, seat, run.seats[seat-1].rule.Try.String(), false))
		}
	}
	return r
}

func (t *tally) report(run *Run, seat int, limit string, decides bool) Rule {
	met := &run.matcher.met[seat]
	r := Rule{
		Rule: t.name, Matched: met.matched, Denied: t.denied, Callers: met.callers, CallersDenied: int64(len(t.texts)),
		Top: t.top(&run.matcher.names), Limit: limit, Decides: decides, Worst: t.worst.report(), series: t.series, Headroom: -1,
	}
	if t.denied > 0 {
		r.First, r.Last = instant(t.first), instant(t.last)
	} else if met.matched > 0 {
		r.Headroom = int(100 * run.least[seat].remaining / run.least[seat].limit)
	}
	return r
}

func (m *minute) report() Minute { return Minute{instant(m.start * 60e6), m.most} }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// Clients returns how many requests of each client were refused, if
// Options.Clients asked for it. It must not be changed.
func (run *Run) Clients() map[string]int64 { return run.clients }
