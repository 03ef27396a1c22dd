package verify

import (
	"math/big"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// The model is a second opinion: the contract's table of algorithms written
// down as it reads, in exact rationals, with nothing taken from package algo but
// names and bounds. It has no closed form for a wait. It knows when a charge is
// admitted and when a balance is as if never used, and finds the first
// microsecond at which that holds by looking; a formula only says where to look
// first. It is slow, and that is its worth: the fast code shares none of its
// shortcuts, so it shares none of their mistakes.

// maxAhead is how far a stored time may lie ahead of the clock and be believed.
const maxAhead = 10_000_000

// terms are a limit as the model reads it.
type terms struct {
	kind   algo.Kind
	units  int64 // L
	period int64 // W, microseconds
	most   int64 // B, Q+1, or L
	zone   algo.Calendar
}

func termsOf(l weir.Limit) terms {
	t := terms{l.Kind(), l.Units(), l.Period().Microseconds(), l.Most(), l.Quota().Calendar}
	if t.units == 0 { // holds nothing
		t.most = 0
	}
	return t
}

// account is what the model keeps of a balance. A nil account is a balance
// never used.
type account struct {
	terms terms // of the last charge
	// Buckets: tokens left or units queued at a time, and the instant at which
	// the bucket would be full (empty) under the limit of that charge.
	amount    *big.Rat
	at        int64
	forgotten *big.Rat

	// Windows: the start of the period and the units of it and the one before.
	start, prev, cur int64

	// Logs.
	entries []logged
}

type logged struct{ at, cost int64 }

// standing is an account brought to a reading of the clock under some terms.
type standing struct {
	terms
	account account  // as it would be stored, after a step of the clock
	fresh   bool     // as if never used
	amount  *big.Rat // tokens now, or units queued now
	now     int64    // the clock's reading
	at      int64    // the time used
	stepped bool
	start   int64 // of the window's period
	end     int64
	prev    int64
	cur     int64 // units used: of the period, or in the log
}

// stand brings a to the reading now.
func (t terms) stand(a *account, now int64) standing {
	s := standing{terms: t, now: now, at: now, fresh: a == nil}
	if a != nil {
		s.account = *a
		s.settleTime()
	}
	switch t.kind {
	case algo.TokenBucket, algo.LeakyBucket:
		s.standBucket()
	case algo.SlidingLog:
		s.standLog()
	default:
		s.standWindow()
	}
	return s
}

// settleTime decides the time used, and moves the account where its stored time
// is too far ahead.
func (s *standing) settleTime() {
	a := &s.account
	stored := a.at
	switch {
	case s.kind.Window():
		stored = a.start
	case s.kind == algo.SlidingLog:
		stored = a.entries[len(a.entries)-1].at
	}
	ahead := stored - s.now
	if ahead <= 0 {
		return
	}
	if ahead <= maxAhead {
		s.at = stored
		return
	}
	s.stepped = true
	switch {
	case s.kind.Window():
		a.start, _ = s.around(s.now)
	case s.kind == algo.SlidingLog:
		moved := make([]logged, len(a.entries))
		for i, e := range a.entries {
			moved[i] = logged{e.at - ahead, e.cost}
		}
		a.entries = moved
	default:
		a.at = s.now
		a.forgotten = new(big.Rat).Sub(a.forgotten, whole(ahead))
	}
}

func (t terms) around(at int64) (start, end int64) {
	if t.zone != nil {
		return t.zone.Around(at)
	}
	start = new(big.Int).Div(big.NewInt(at), big.NewInt(t.period)).Int64() * t.period // Euclidean
	return start, start + t.period
}

// earned is the units regained in a time.
func (t terms) earned(us int64) *big.Rat {
	r := big.NewRat(us, t.period)
	return r.Mul(r, whole(t.units))
}

// taking is the time that units take to be regained.
func (t terms) taking(units *big.Rat) *big.Rat {
	r := big.NewRat(t.period, t.units)
	return r.Mul(r, units)
}

func (s *standing) standBucket() {
	a := &s.account
	if !s.fresh && whole(s.at).Cmp(a.forgotten) >= 0 {
		s.fresh, s.stepped = true, false
	}
	token := s.kind == algo.TokenBucket
	switch {
	case s.fresh && token:
		s.amount = whole(s.most)
	case s.fresh:
		s.amount = new(big.Rat)
	case token:
		s.amount = least(a.amount, whole(s.most))
		s.amount = least(new(big.Rat).Add(s.amount, s.earned(s.at-a.at)), whole(s.most))
	default:
		s.amount = new(big.Rat).Sub(a.amount, s.earned(s.at-a.at))
		if s.amount.Sign() < 0 {
			s.amount = new(big.Rat)
		}
	}
}

func (s *standing) standWindow() {
	a := &s.account
	s.start, s.end = s.around(s.at)
	switch {
	case s.fresh:
	case a.start == s.start:
		s.prev, s.cur = a.prev, a.cur
	case s.kind == algo.SlidingWindow && a.start+s.period == s.start:
		s.prev = a.cur
	}
	s.fresh = s.prev == 0 && s.cur == 0
}

func (s *standing) standLog() {
	for _, e := range s.account.entries {
		if e.at > s.at-s.period {
			s.cur += e.cost
		}
	}
	s.fresh = s.cur == 0
	s.stepped = s.stepped && !s.fresh
}

// never reports whether cost can never fit, though smaller ones can.
func (t terms) never(cost int64) bool { return t.units > 0 && cost > t.most }

// fits reports whether the table admits cost, or will within wait (buckets).
func (s *standing) fits(cost, wait int64) bool {
	if s.units == 0 || s.never(cost) {
		return false
	}
	switch s.kind {
	case algo.TokenBucket: // tokens >= c
		return new(big.Rat).Add(s.amount, s.earned(wait)).Cmp(whole(cost)) >= 0
	case algo.LeakyBucket: // queue + c <= Q + 1
		room := new(big.Rat).Add(whole(s.most), s.earned(wait))
		return new(big.Rat).Add(s.amount, whole(cost)).Cmp(room) <= 0
	case algo.SlidingWindow: // prev*(W-e) + (cur+c)*W <= L*W
		weighed := times(s.prev, s.end-s.at)
		weighed.Add(weighed, times(s.cur+cost, s.period))
		return weighed.Cmp(times(s.units, s.period)) <= 0
	}
	return s.cur+cost <= s.units
}

// charge debits s and returns what to keep.
func (s *standing) charge(cost int64) *account {
	s.fresh, s.stepped = false, false
	a := s.account
	switch s.kind {
	case algo.TokenBucket:
		s.amount = new(big.Rat).Sub(s.amount, whole(cost))
		owed := new(big.Rat).Sub(whole(s.most), s.amount)
		a = account{terms: s.terms, amount: s.amount, at: s.at, forgotten: owed.Add(s.taking(owed), whole(s.at))}
	case algo.LeakyBucket:
		s.amount = new(big.Rat).Add(s.amount, whole(cost))
		a = account{terms: s.terms, amount: s.amount, at: s.at}
		a.forgotten = new(big.Rat).Add(s.taking(s.amount), whole(s.at))
	case algo.SlidingLog:
		s.cur += cost
		kept := make([]logged, 0, len(a.entries)+1)
		for _, e := range a.entries {
			if e.at > s.at-s.period {
				kept = append(kept, e)
			}
		}
		a = account{terms: s.terms, entries: append(kept, logged{s.at, cost})}
	default:
		s.cur += cost
		a = account{terms: s.terms, start: s.start, prev: s.prev, cur: s.cur}
	}
	s.account = a
	return &a
}

// remaining is the whole units one more charge could take.
func (s *standing) remaining() int64 {
	var left *big.Rat
	switch s.kind {
	case algo.TokenBucket:
		left = s.amount
	case algo.LeakyBucket:
		left = new(big.Rat).Sub(whole(s.most), s.amount)
	case algo.SlidingWindow:
		weighed := new(big.Rat).SetFrac(times(s.prev, s.end-s.at), big.NewInt(s.period))
		left = weighed.Sub(whole(s.units-s.cur), weighed)
	default:
		left = whole(s.units - s.cur)
	}
	if s.units == 0 || left.Sign() <= 0 {
		return 0
	}
	return new(big.Int).Quo(left.Num(), left.Denom()).Int64()
}

// idle reports whether the balance is as if never used.
func (s *standing) idle() bool {
	switch {
	case s.fresh:
		return true
	case s.units == 0 || !s.kind.Bucket():
		return false
	case s.kind == algo.TokenBucket:
		return s.amount.Cmp(whole(s.most)) == 0
	}
	return s.amount.Sign() == 0
}

// delay is how long an admitted cost must wait; s is before the charge.
func (s *standing) delay(cost int64) int64 {
	var wait *big.Rat
	switch s.kind {
	case algo.LeakyBucket: // queue*W/L
		wait = s.taking(s.amount)
	case algo.TokenBucket: // what was admitted ahead
		wait = s.taking(new(big.Rat).Sub(whole(cost), s.amount))
	default:
		return 0
	}
	if wait.Sign() <= 0 {
		return 0
	}
	return ceil(wait) + s.at - s.now
}

// retry is the first reading at which cost fits, less now.
func (s *standing) retry(cost, wait int64) int64 {
	if s.units == 0 || s.never(cost) {
		return algo.Never
	}
	hint := s.end
	switch s.kind {
	case algo.TokenBucket:
		hint = s.at + ceil(s.taking(new(big.Rat).Sub(whole(cost), s.amount))) - wait
	case algo.LeakyBucket:
		over := new(big.Rat).Sub(whole(cost-s.most), new(big.Rat).Neg(s.amount))
		hint = s.at + ceil(s.taking(over)) - wait
	}
	return s.first(s.account, hint, func(later *standing) bool { return later.fits(cost, wait) })
}

// reset is the first reading at which the balance is as if never used, less now.
func (s *standing) reset() int64 {
	if s.idle() {
		return 0
	}
	hint := s.end
	switch {
	case s.units == 0:
	case s.kind == algo.TokenBucket:
		hint = s.at + ceil(s.taking(new(big.Rat).Sub(whole(s.most), s.amount)))
	case s.kind == algo.LeakyBucket:
		hint = s.at + ceil(s.taking(s.amount))
	}
	return s.first(s.account, hint, (*standing).idle)
}

// first looks for the first reading at which holds, which does not hold now and
// once it holds goes on to, if nothing else happens to a. It returns the time
// from now to it.
func (s *standing) first(a account, hint int64, holds func(*standing) bool) int64 {
	at := func(reading int64) bool {
		later := s.terms.stand(&a, reading)
		return holds(&later)
	}
	if hint > s.now && at(hint) && !at(hint-1) {
		return hint - s.now
	}
	no, step := s.now, int64(1)
	for !at(no + step) {
		no += step
		step *= 2
	}
	for yes := no + step; ; {
		if yes-no == 1 {
			return yes - s.now
		}
		if mid := no + (yes-no)/2; at(mid) {
			yes = mid
		} else {
			no = mid
		}
	}
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func times(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// ceil rounds up.
func ceil(r *big.Rat) int64 {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int)) // Euclidean: m >= 0
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// zoneOf returns the calendar period and zone of a limit, "" if it has none.
func zoneOf(l weir.Limit) string {
	words := strings.Fields(l.String())
	for _, w := range words[1:] {
		if zone, ok := strings.CutPrefix(w, "tz="); ok {
			_, unit, _ := strings.Cut(words[0], "/")
			return unit + " " + zone
		}
	}
	return ""
}
