package rlsconfig

import (
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// MaxRequests is the most that is counted in a period: one less than what a limit
// may grant, see Rule.Tally. A larger requests_per_unit, which mostly stands for
// no limit at all, is over the limit from there on.
const MaxRequests = algo.MaxUnits - 1

type unit = rlsv3.RateLimitResponse_RateLimit_Unit

// units are the units of a limit and their lengths, which are those of that
// server: a month has 30 days and a year 365.
var units = []struct {
	unit   unit
	length time.Duration
}{
	{rlsv3.RateLimitResponse_RateLimit_YEAR, 365 * 24 * time.Hour},
	{rlsv3.RateLimitResponse_RateLimit_MONTH, 30 * 24 * time.Hour},
	{rlsv3.RateLimitResponse_RateLimit_WEEK, 7 * 24 * time.Hour},
	{rlsv3.RateLimitResponse_RateLimit_DAY, 24 * time.Hour},
	{rlsv3.RateLimitResponse_RateLimit_HOUR, time.Hour},
	{rlsv3.RateLimitResponse_RateLimit_MINUTE, time.Minute},
	{rlsv3.RateLimitResponse_RateLimit_SECOND, time.Second},
}

// Length returns how long a unit is, or 0.
func Length(u unit) time.Duration {
	for _, known := range units {
		if known.unit == u {
			return known.length
		}
	}
	return 0
}

// limit is a rate_limit and the weir: beside it while they are read.
type limit struct {
	rule      Rule
	unit      string
	requests  int64
	counted   bool // requests_per_unit was given
	own       string
	failure   weir.Failure
	onFailure bool
}

// limit reads what a descriptor is limited by into l.rule and reports whether
// there is anything. at is the descriptor.
func (r *reader) limit(at, rateLimit, own *node, l *limit) bool {
	faults := len(r.errs)
	rule := &l.rule
	where := at
	var replaces *node
	if rateLimit != nil && rateLimit.kind != null {
		where = rateLimit
		r.object(rateLimit, "rate_limit",
			field{"name", r.text(&rule.Name, "name")},
			field{"unit", r.text(&l.unit, "unit")},
			field{"requests_per_unit", r.count(&l.requests, &l.counted)},
			field{"unlimited", r.flag(&rule.Unlimited, "unlimited")},
			field{"replaces", func(n *node) { replaces = n }},
		)
	}
	var ownLimit *node
	if own != nil {
		r.object(own, "weir",
			field{"limit", func(n *node) { ownLimit = n; r.text(&l.own, "limit")(n) }},
			field{"on_store_failure", r.failure(&l.failure, &l.onFailure)},
			field{"all_or_nothing", r.flag(&rule.AllOrNothing, "all_or_nothing")},
		)
		if rateLimit == nil && l.own == "" && len(r.errs) == faults {
			r.fail(own, "weir: needs a rate_limit beside it, or a limit: of its own, such as 100/30s")
		}
	}
	if replaces != nil {
		r.list(replaces, "replaces", func(n *node) {
			name := ""
			r.object(n, "replaces", field{"name", r.text(&name, "name")})
			switch {
			case name == "":
				r.fail(n, "should not have an empty replaces entry")
			case name == rule.Name:
				r.fail(n, "replaces should not contain name of same descriptor")
			default:
				rule.Replaces = append(rule.Replaces, name)
			}
		})
	}
	if len(r.errs) > faults {
		return false
	}
	switch {
	case l.own != "":
		r.ownLimit(ownLimit, l)
	case rule.Unlimited:
		if _, valid := unitNamed(l.unit); valid {
			r.fail(where, "should not specify rate limit unit when unlimited")
		}
		rule.Limit = weir.Unlimited()
	default:
		u, valid := unitNamed(l.unit)
		if !valid {
			r.fail(where, "invalid rate limit unit '%s'; use second, minute, hour, day, week, month or year", clip(l.unit))
			return false
		}
		rule.window(l.requests, u, 1, l.failure)
	}
	if rule.Shadow && rule.Limit.Failure() == weir.Closed {
		r.fail(at, "shadow_mode never refuses and on_store_failure: closed always does; choose one")
	}
	return len(r.errs) == faults
}

// ownLimit reads the limit of weir:, which may be any that Weir knows.
func (r *reader) ownLimit(at *node, l *limit) {
	if l.counted || l.unit != "" || l.rule.Unlimited {
		r.fail(at, "limit: of weir: stands in place of unit, requests_per_unit and unlimited; drop those")
		return
	}
	parsed, err := weir.ParseLimit(l.own)
	if err != nil {
		r.fail(at, "%v", err)
		return
	}
	if parsed.Name() != "" {
		r.fail(at, "a limit has its name in rate_limit: {name: %s}", clip(parsed.Name()))
		return
	}
	if l.onFailure {
		if strings.Contains(l.own, "on_store_failure=") {
			r.fail(at, "on_store_failure stands twice")
			return
		}
		parsed = parsed.OnFailure(l.failure)
	}
	rule := &l.rule
	rule.Limit, rule.Unlimited, rule.Requests = parsed, parsed.IsUnlimited(), parsed.Most()
	rule.Reported = reported(parsed.Units(), parsed.Period(), rule.Name)
}

// window makes r a fixed window of requests in so many units, as that server
// counts them. Share is kept by hand-outs of the limit itself, which cannot have
// a unit more, so that it counts no refused hits.
func (r *Rule) window(requests int64, u unit, times int64, f weir.Failure) {
	r.Requests, r.Tally = requests, !r.AllOrNothing && f != weir.Share
	n := min(requests, MaxRequests)
	if r.Tally {
		n++
	}
	r.Limit = weir.Per(n, Length(u)*time.Duration(times)).Using(algo.FixedWindow).OnFailure(f)
	r.Reported = &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(requests), Unit: u, Name: r.Name}
	if times > 1 {
		r.Reported.UnitMultiplier = wrapperspb.UInt32(uint32(times))
	}
}

// Override returns the rule that a request states itself for a descriptor. The
// error names what is wrong.
func Override(requests uint32, u unit, times int64, all bool) (*Rule, error) {
	r := &Rule{AllOrNothing: all}
	length := Length(u)
	switch {
	case length == 0:
		return nil, &weir.InputError{Field: "limit.unit", Problem: "is none of SECOND, MINUTE, HOUR, DAY, MONTH and YEAR"}
	case times < 1 || times > int64(longest/length):
		return nil, &weir.InputError{Field: "limit.unit_multiplier", Problem: "must be at least 1, and make a period of at most 366 days"}
	}
	r.window(int64(requests), u, times, weir.Local)
	return r, nil
}

const longest = algo.MaxPeriod * time.Microsecond

// unitNamed returns the unit of a name in any case.
func unitNamed(name string) (unit, bool) {
	value, known := rlsv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
	return unit(value), known && value != int32(rlsv3.RateLimitResponse_RateLimit_UNKNOWN)
}

// reported says a limit of any period in the units of the protocol: the longest
// that divides it, so many times. A part of a second is told by the second, if
// that comes out whole, and else without a unit.
func reported(n int64, period time.Duration, name string) *rlsv3.RateLimitResponse_RateLimit {
	out := &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(n), Name: name}
	if period < time.Second && time.Second%period == 0 {
		if scaled := n * int64(time.Second/period); scaled <= MaxRequests {
			out.RequestsPerUnit, out.Unit = uint32(scaled), rlsv3.RateLimitResponse_RateLimit_SECOND
		}
		return out
	}
	for _, u := range units {
		if period%u.length == 0 && period > 0 {
			out.Unit = u.unit
			if times := period / u.length; times > 1 {
				out.UnitMultiplier = wrapperspb.UInt32(uint32(times))
			}
			break
		}
	}
	return out
}
