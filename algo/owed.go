package algo

// A store that counts nanoseconds decides the usual charge by these few steps
// instead of a View. The usual charge falls on a token bucket that is idle or
// was last charged under the very same quota, by a clock that has not gone back
// since:
//
//	owed = (Full-now)*N + Phase                in 1/Period units
//	fits   if owed <= (Capacity-cost)*Period
//	then   Full += cost*Period/N, and Remaining is Capacity-cost-owed/Period, rounded down
//
// They are small enough to be inlined and hand on plain numbers, which stay in
// registers: filling and copying a View costs more than all of the arithmetic.

// Owed is what a bucket owes, in 1/Period units.
type Owed struct{ wide }

// Owes returns what a bucket of n units per period owes that is idle again at
// full+phase/n, which is not before now.
func Owes(full, phase, now, n int64) Owed {
	return Owed{multiply(full-now, n).add(phase)}
}

// Within reports whether no more than units are owed.
func (o Owed) Within(units, period int64) bool {
	return !multiply(units, period).less(o.wide)
}

// Units returns the units owed, rounded up.
func (o Owed) Units(period int64) int64 {
	if o.hi == 0 && o.lo > 0 { // the usual case, in which there is no remainder to look at
		return int64((o.lo-1)/uint64(period)) + 1
	}
	return o.ceil(period)
}

// Regained returns the time that units take to be regained at n per period:
// microseconds and 1/n of one. They must be at most what the bucket holds.
func Regained(units, n, period int64) (us, phase int64) {
	s, _ := divide(multiply(units, period), n)
	return s.us, s.phase
}
