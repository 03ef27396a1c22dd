package algo

import "fmt"

// Kind names an algorithm.
type Kind uint8

// The five algorithms. TokenBucket is the default everywhere.
const (
	TokenBucket   Kind = iota // refills continuously up to a capacity
	FixedWindow               // counts in aligned or calendar periods
	SlidingLog                // remembers each charge for a period
	SlidingWindow             // weighs the previous aligned period by its overlap
	LeakyBucket               // queues charges and paces them
)

// Kinds lists every algorithm, in the order reports use.
var Kinds = [...]Kind{TokenBucket, FixedWindow, SlidingLog, SlidingWindow, LeakyBucket}

var kindNames = [...]string{"token_bucket", "fixed_window", "sliding_log", "sliding_window", "leaky_bucket"}

// String returns the name used in limit strings, such as "token_bucket".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(k))
}

// Bucket reports whether k is one of the two bucket algorithms, which have a
// capacity and can admit ahead of time.
func (k Kind) Bucket() bool { return k == TokenBucket || k == LeakyBucket }

// Window reports whether k counts in periods.
func (k Kind) Window() bool { return k == FixedWindow || k == SlidingWindow }

// Verb is what a bill asks of its balances.
type Verb uint8

// The verbs. A store lists those it can do in its capabilities.
const (
	Take   Verb = iota // debit if everything fits
	Peek               // answer as Take would, debit nothing
	Refund             // give back what a receipt still owes
	Reset              // forget the balance
	Block              // refuse everything on the balance for a while
	Repay              // debit once, by the receipt's id, what was admitted while the store was away
)

var verbNames = [...]string{"take", "peek", "refund", "reset", "block", "repay"}

// String returns the verb in lower case.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// The bounds within which every step is exact. Periods and fills are in
// microseconds.
const (
	MaxUnits   = 1_000_000_000              // largest N and largest burst
	MinPeriod  = 1_000                      // 1 ms
	MaxPeriod  = 366 * 24 * 3600 * 1e6      // 366 days
	MaxFill    = 10 * 366 * 24 * 3600 * 1e6 // longest time from empty to full, ten years
	MaxLog     = 5_000                      // largest N of a sliding log
	MaxCost    = 1<<53 - 1                  // what JSON and Lua carry exactly
	MaxSkew    = 10 * 1_000_000             // how far ahead of the clock a stored time is believed
	MaxCharges = 32                         // of a bill, so that indexes and times under locks stay small
	MaxWait    = MaxPeriod                  // how far ahead a bucket may admit
	Never      = -1                         // the retry of what can never fit
	forever    = 1<<63 - 1
	saturation = 1 << 53 // a backlog that no limit can fit, in microseconds
)

// Calendar finds calendar periods. Implementations must be safe for concurrent
// use and must return, for any instant, the same half-open period
// [start, end) with start <= t < end, in microseconds since the Unix epoch.
type Calendar interface {
	Around(t int64) (start, end int64)
}

// Quota is a limit reduced to what the arithmetic needs.
type Quota struct {
	N        int64    // units per period; 0 holds nothing
	Period   int64    // microseconds; for a calendar period its nominal length
	Capacity int64    // buckets: most that fits at one instant from idle (B, or Q+1)
	Calendar Calendar // fixed windows in a time zone; nil for periods since the epoch
	Kind     Kind
}

// Most returns what could be admitted at one instant from idle.
func (q *Quota) Most() int64 {
	if q.Kind.Bucket() {
		return q.Capacity
	}
	return q.N
}

// TooLarge reports whether cost can never fit. A quota of nothing has no
// too-large costs: it refuses all alike.
func (q *Quota) TooLarge(cost int64) bool { return q.N > 0 && cost > q.Most() }

// around returns the period of a window that holds t.
func (q *Quota) around(t int64) (start, end int64) {
	if q.Calendar != nil {
		return q.Calendar.Around(t)
	}
	start = t - t%q.Period
	if start > t { // before the epoch, where % rounds towards zero
		start -= q.Period
	}
	return start, start + q.Period
}

// Check reports the first bound that q breaks, in words fit for an error
// message, or "" if there is none. It says what to use instead.
func (q *Quota) Check() string {
	switch {
	case q.N < 0:
		return "the number of units must not be negative"
	case q.N > MaxUnits:
		return "at most 1000000000 units per period; use a shorter period"
	case q.Period < MinPeriod:
		return "the shortest period is 1ms; use a larger period with more units"
	case q.Period > MaxPeriod:
		return "the longest period is 366 days; use a shorter period with fewer units"
	case q.Kind == SlidingLog && q.N > MaxLog:
		return "a sliding_log keeps every charge and holds at most 5000 units; use sliding_window"
	case !q.Kind.Bucket() || q.N == 0:
		return ""
	case q.Capacity < 1:
		return "the burst must be at least 1"
	case q.Capacity > MaxUnits && q.Kind == TokenBucket, q.Capacity > MaxUnits+1:
		return "the burst is at most 1000000000"
	case !q.fillsInTime():
		return "a bucket must refill within 10 years; use a smaller burst or a higher rate"
	}
	return ""
}

func (q *Quota) fillsInTime() bool {
	fill, ok := divide(multiply(q.Capacity, q.Period), q.N)
	return ok && (fill.us < MaxFill || fill.us == MaxFill && fill.phase == 0)
}
