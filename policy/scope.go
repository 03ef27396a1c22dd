package policy

import (
	"math/bits"
	"time"

	"github.com/weirhq/weir"
)

// Scope says which regions share a rule's limit.
type Scope uint8

// The scopes.
const (
	ScopeRegion Scope = iota // each region has a limit of its own
	ScopeGlobal              // one limit: regions tell each other what they took
	ScopeShare               // one limit: each region holds a share of it
)

var scopeWords = [...]string{ScopeRegion: "region", ScopeGlobal: "global", ScopeShare: "global share"}

// String returns the scope's words in the policy file.
func (s Scope) String() string { return scopeWords[s] }

// Regions says how many regions there are and how soon they hear of each other.
// The zero value is one region.
type Regions struct {
	Count    int
	Interval time.Duration // between messages
	Lag      time.Duration // one way
}

// Overshoot returns the most that all regions together admit beyond the limit l
// under ScopeGlobal, and once more for each partition:
//
//	(R−1) · (capacity + rate · (interval + lag))
//
// rounded up. It is 0 for one region and for what has no limit.
func (r Regions) Overshoot(l weir.Limit) int64 {
	if r.Count < 2 || l.IsUnlimited() || l.Units() == 0 {
		return 0
	}
	return r.Beyond(l.Most(), l.Units(), l.Period())
}

// Beyond is Overshoot for a limit that holds capacity and grants n per period.
func (r Regions) Beyond(capacity, n int64, period time.Duration) int64 {
	return int64(r.Count-1) * (capacity + flow(n, period, r.Interval+r.Lag))
}

// flow returns the units that n per period grant in d, rounded up, at most 2^40.
func flow(n int64, per, d time.Duration) int64 {
	const most = 1 << 40
	period := uint64(per)
	hi, lo := bits.Mul64(uint64(n), uint64(d))
	lo, carry := bits.Add64(lo, period-1, 0)
	if hi += carry; hi >= period {
		return most
	}
	units, _ := bits.Div64(hi, lo, period)
	return int64(min(units, most))
}

// Sharing says how regions share the balances of a space.
type Sharing struct {
	Scope  Scope
	Refill time.Duration // the longest that a balance remembers
}

// Shared returns the spaces of balances whose limits regions share.
func (p *Policy) Shared() map[string]Sharing {
	m := map[string]Sharing{}
	for i := range p.rules {
		r := &p.rules[i]
		if r.Scope == ScopeRegion {
			continue
		}
		longest := time.Duration(0)
		for _, l := range r.Plans {
			longest = max(longest, refill(l))
		}
		m[r.space] = Sharing{r.Scope, max(longest, refill(r.Limit))}
		if r.Try != (weir.Limit{}) {
			m[r.trySpace] = Sharing{r.Scope, refill(r.Try)}
		}
	}
	return m
}

func refill(l weir.Limit) time.Duration {
	if l == (weir.Limit{}) || l.IsUnlimited() || l.Units() == 0 {
		return 0
	}
	return l.Refill()
}
