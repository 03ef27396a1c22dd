package weir

import (
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/algo"
)

// Limit says how much per how long, by which algorithm, and what to answer when
// the store cannot. It is a small comparable value: build it once or at each
// call, copy it freely. Methods return a changed copy. A Limit that cannot be
// kept exactly (see ParseLimit for the bounds) is reported as an *InputError
// when it is used; so is the zero Limit, which is never "unlimited".
type Limit struct {
	n         int64
	burst     int64 // as given; noBurst for the algorithm's default
	period    int64 // microseconds; nominal for a calendar period
	zone      *zone // fixed window in calendar periods, or nil
	name      string
	tag       uint64 // of whose balance it keeps, but for key and space: see tagged
	kind      algo.Kind
	unit      unit // of zone's periods
	failure   Failure
	unlimited bool
	sound     bool // Check found nothing, so use needs not ask again
}

const noBurst = -1

const unlimitedAlone = "unlimited takes no burst and no algorithm"

// Per returns a token-bucket limit of n units per d, with a burst of n.
func Per(n int64, d time.Duration) Limit {
	l := Limit{n: n, burst: noBurst, period: int64(d / time.Microsecond)}
	if d%time.Microsecond != 0 {
		l.period = 0 // refused by Check: the clock of every store is in microseconds
	}
	return l.checked()
}

// PerSecond returns Per(n, time.Second).
func PerSecond(n int64) Limit { return Per(n, time.Second) }

// PerMinute returns Per(n, time.Minute).
func PerMinute(n int64) Limit { return Per(n, time.Minute) }

// Unlimited returns the limit that admits everything and keeps nothing.
func Unlimited() Limit { return Limit{unlimited: true, burst: noBurst, sound: true} }

// Burst sets how much a token bucket holds (at least 1) or how many charges may
// wait in a leaky bucket (at least 0). Other algorithms have no burst. Name the algorithm
// before it: a token bucket's burst of n is its default, and Using takes the default of
// its own algorithm in place of one.
func (l Limit) Burst(n int64) Limit {
	l.burst = n
	if n < 0 {
		l.burst = noBurst - 1 // refused by Check
	}
	return l.checked()
}

// Using sets the algorithm.
func (l Limit) Using(k algo.Kind) Limit { l.kind = k; return l.checked() }

// Named sets the name, which is part of what a balance belongs to: two limits
// with different names on one key never share a balance.
func (l Limit) Named(name string) Limit { l.name = name; return l.tagged() }

// OnFailure sets the answer for when the store cannot decide.
func (l Limit) OnFailure(f Failure) Limit { l.failure = f; return l }

// Share returns the part of the limit that one of n instances may give out by
// itself: everything divided by n, rounded down, at least one unit.
func (l Limit) Share(n int) Limit {
	if n <= 1 || l.unlimited || l.n == 0 {
		return l
	}
	switch {
	case l.kind == algo.TokenBucket:
		l.burst = max(1, l.capacity()/int64(n))
	case l.kind == algo.LeakyBucket:
		l.burst = max(1, l.capacity()/int64(n)) - 1
	}
	l.n = max(1, l.n/int64(n))
	if l.burst > noBurst {
		// A share must still refill in time; rounding down can only slow it by
		// less than the one unit that is always left.
		for l.burst > 1 && !l.checked().sound {
			l.burst /= 2
		}
	}
	return l.checked()
}

// Cut returns the limit with q's units and capacity, on the same balances: the
// part of it that q is. It is for layers.
func (l Limit) Cut(q *algo.Quota) Limit {
	l.n = q.N
	switch l.kind {
	case algo.TokenBucket:
		l.burst = q.Capacity
	case algo.LeakyBucket:
		l.burst = q.Capacity - 1
	}
	return l
}

// Name returns the limit's name, which may be empty.
func (l Limit) Name() string { return l.name }

// Units returns how many units the limit grants per period.
func (l Limit) Units() int64 { return l.n }

// Period returns the length of the period; for a calendar period its longest.
func (l Limit) Period() time.Duration { return time.Duration(l.period) * time.Microsecond }

// PeriodName spells the period, and for a calendar period its time zone, the
// same for equal periods: "min", "30s", "month@Europe/Paris".
func (l *Limit) PeriodName() string {
	if l.zone != nil {
		return l.unit.String() + "@" + l.zone.name
	}
	return periodString(l.period)
}

// Kind returns the algorithm.
func (l Limit) Kind() algo.Kind { return l.kind }

// Failure returns the answer for when the store cannot decide.
func (l Limit) Failure() Failure { return l.failure }

// IsUnlimited reports whether the limit admits everything.
func (l Limit) IsUnlimited() bool { return l.unlimited }

// Most returns what could be admitted at one instant from idle: the burst of a
// token bucket, the burst plus one of a leaky bucket, else Units.
func (l Limit) Most() int64 {
	if l.kind.Bucket() {
		return l.capacity()
	}
	return l.n
}

// MostInPeriod returns the most that can be admitted in any span of one period:
// burst + n for a token bucket, burst + 1 + n for a leaky bucket, 2n for a
// fixed window, 2n - 1 for a sliding window, n for a sliding log.
func (l Limit) MostInPeriod() int64 {
	switch l.kind {
	case algo.TokenBucket, algo.LeakyBucket:
		return l.capacity() + l.n
	case algo.FixedWindow:
		return 2 * l.n
	case algo.SlidingWindow:
		return max(0, 2*l.n-1)
	}
	return l.n
}

// Refill returns the time from spent to idle, rounded up to the microsecond:
// for buckets the time to regain the whole capacity, else the period.
func (l Limit) Refill() time.Duration {
	if l.kind.Bucket() && l.n > 0 {
		us, phase := l.debit(l.capacity()).Cost()
		if phase > 0 {
			us++
		}
		return time.Duration(us) * time.Microsecond
	}
	return l.Period()
}

func (l Limit) debit(units int64) algo.Debit { q := l.Quota(); return q.Debit(units) }

// Quota returns the limit as the algorithms see it. It is for stores.
func (l *Limit) Quota() (q algo.Quota) {
	l.fill(&q)
	return q
}

// fill writes the quota in place: see words.putBucket.
func (l *Limit) fill(q *algo.Quota) {
	q.Kind, q.N, q.Period, q.Capacity, q.Calendar = l.kind, l.n, l.period, 0, nil
	if l.kind.Bucket() {
		q.Capacity = l.capacity()
	}
	if l.zone != nil {
		q.Calendar = l.zone.calendar(l.unit)
	}
}

func (l *Limit) capacity() int64 {
	switch {
	case l.n == 0:
		return 0
	case l.kind == algo.LeakyBucket:
		return max(l.burst, 0) + 1
	case l.burst == noBurst:
		return l.n
	}
	return l.burst
}

// Check returns an *InputError that says why the limit cannot be used and what
// to use instead, or nil.
func (l Limit) Check() error {
	if l.sound {
		return nil
	}
	return &InputError{Field: "limit", Problem: l.problem()}
}

func (l *Limit) problem() string {
	switch {
	case *l == Limit{}:
		return "is empty; write one such as 100/min, or unlimited"
	case l.unlimited && (l.burst != noBurst || l.kind != algo.TokenBucket):
		return unlimitedAlone
	case l.unlimited:
		return ""
	case int(l.kind) >= len(algo.Kinds):
		return "unknown algorithm " + l.kind.String()
	case l.burst < noBurst:
		return "the burst must not be negative"
	case l.burst != noBurst && !l.kind.Bucket():
		return l.kind.String() + " has no burst; burst= goes with token_bucket and leaky_bucket"
	case l.burst != noBurst && l.n == 0:
		return "a limit of 0 holds nothing and takes no burst"
	case l.zone != nil && l.kind != algo.FixedWindow:
		return "tz= goes with algorithm=fixed_window alone"
	}
	q := l.Quota()
	return q.Check()
}

// checked returns l with its default burst folded away, so that equal limits
// compare equal, and its soundness found out once.
func (l Limit) checked() Limit {
	if l.n > 0 && (l.kind == algo.TokenBucket && l.burst == l.n || l.kind == algo.LeakyBucket && l.burst == 0) {
		l.burst = noBurst
	}
	l = l.tagged()
	l.sound = false
	if l.kind == algo.TokenBucket && l.burst == noBurst && !l.unlimited && l.zone == nil {
		// The usual limit, without the detour over a Quota.
		l.sound = l.n >= 0 && l.n <= algo.MaxUnits && l.period >= algo.MinPeriod && l.period <= algo.MaxPeriod
		return l
	}
	l.sound = l.problem() == ""
	return l
}

// sameQuota reports whether two limits on one balance would be one limit.
func (l *Limit) sameQuota(m *Limit) bool {
	return l.n == m.n && l.burst == m.burst && l.unlimited == m.unlimited
}

// sameBalance reports whether two limits keep one balance for a key. Those that do not
// mostly differ in their tags.
func (l *Limit) sameBalance(m *Limit) bool {
	return l.tag == m.tag && l.kind == m.kind && l.period == m.period && l.zone == m.zone && l.unit == m.unit && l.name == m.name
}

// String returns the limit in the spelling ParseLimit reads, if its period is whole
// milliseconds and its name has no space.
func (l Limit) String() string {
	var b strings.Builder
	switch {
	case l.unlimited:
		b.WriteString("unlimited")
	default:
		b.WriteString(strconv.FormatInt(l.n, 10))
		b.WriteByte('/')
		if l.zone != nil {
			b.WriteString(l.unit.String())
		} else {
			b.WriteString(l.PeriodName())
		}
		if l.burst != noBurst {
			b.WriteString(" burst=" + strconv.FormatInt(l.burst, 10))
		}
		if l.kind != algo.TokenBucket {
			b.WriteString(" algorithm=" + l.kind.String())
		}
		if l.zone != nil {
			b.WriteString(" tz=" + l.zone.name)
		}
	}
	if l.name != "" {
		b.WriteString(" name=" + l.name)
	}
	if l.failure != Local {
		b.WriteString(" on_store_failure=" + l.failure.String())
	}
	return b.String()
}
