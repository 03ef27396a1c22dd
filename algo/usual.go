package algo

// The usual charge falls on a token bucket that is idle or was last charged
// under the very same quota, by a clock that has not gone back since. It needs
// no View and no division but two, both outside the lock:
//
//	owed = (Full-now)*N + Phase                in 1/Period units
//	fits   if owed <= (Capacity-cost)*Period
//	then   Full += cost*Period/N, and Remaining is Capacity-cost-ceil(owed/Period)
//
// It is AdvanceBucket, FitsBucket, ChargeBucket and Report in one, held equal to
// them by TestUsual, for stores that count nanoseconds. For these it is also
// filled in place, field by field: a struct that is copied right after it was
// written costs more than all of the arithmetic.

// Usual is a charge on a token bucket of a quota.
type Usual struct {
	n, period, capacity, cost int64

	span span // the time the cost takes to be regained
	room wide // most that may be owed before the charge, in 1/Period units

	// Left by Take.
	owed        wide
	full, phase int64
	now         int64
	fits        bool
}

// Prepare makes u the charge of cost on a bucket of n units per period and a
// capacity. It is done before the lock is taken, and reports false where only
// the long way leads to an answer: a bucket that never holds that much.
func (u *Usual) Prepare(n, period, capacity, cost int64) bool {
	if n == 0 || cost > capacity {
		return false
	}
	u.n, u.period, u.capacity, u.cost = n, period, capacity, cost
	if cost == n {
		u.span.us, u.span.phase = period, 0
	} else {
		u.span, _ = divide(multiply(cost, period), n)
	}
	u.room = multiply(capacity-cost, period)
	return true
}

// Take charges b at the clock's reading now if the charge fits. It reports
// false, and leaves b as it was, where b needs the long way.
func (u *Usual) Take(b *Bucket, now int64) (fits, usual bool) {
	if b.Charged > now {
		return false, false
	}
	full, phase, owed := now, int64(0), wide{}
	if !b.idle(now) {
		if b.N != u.n || b.Cap != u.capacity {
			return false, false
		}
		full, phase = b.Full, b.Phase
		owed = multiply(full-now, u.n).add(phase)
	}
	fits = !u.room.less(owed)
	if fits {
		full += u.span.us
		if phase += u.span.phase; phase >= u.n {
			phase -= u.n
			full++
		}
		b.Full, b.Phase, b.Charged, b.N, b.Cap = full, phase, now, u.n, u.capacity
	}
	u.owed, u.full, u.phase, u.now, u.fits = owed, full, phase, now, fits
	return fits, true
}

// Report says what Take found, as Quota.Report does.
func (u *Usual) Report() (r Report) {
	r.Remaining = u.capacity - u.owed.ceil(u.period)
	r.ResetAfter = u.full - u.now
	if u.phase > 0 {
		r.ResetAfter++
	}
	if u.fits {
		r.Remaining -= u.cost
		return r
	}
	s, _ := divide(multiply(u.capacity, u.period), u.n)
	r.RetryAfter = ceilSpan(span{u.full + u.span.us - s.us, u.phase + u.span.phase - s.phase}, u.n) - u.now
	return r
}
