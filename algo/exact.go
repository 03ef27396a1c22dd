package algo

import "math/bits"

// wide is a non-negative 128-bit integer.
type wide struct{ hi, lo uint64 }

// multiply returns a*b for non-negative a and b.
func multiply(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

func (w wide) add(n int64) wide {
	lo, carry := bits.Add64(w.lo, uint64(n), 0)
	return wide{w.hi + carry, lo}
}

func (w wide) plus(x wide) wide {
	lo, carry := bits.Add64(w.lo, x.lo, 0)
	return wide{w.hi + x.hi + carry, lo}
}

// minus returns w-x, or zero where x is larger.
func (w wide) minus(x wide) wide {
	if w.less(x) {
		return wide{}
	}
	lo, borrow := bits.Sub64(w.lo, x.lo, 0)
	return wide{w.hi - x.hi - borrow, lo}
}

func (w wide) less(x wide) bool { return w.hi < x.hi || w.hi == x.hi && w.lo < x.lo }

// ceil returns w/d rounded up, saturating at the largest int64.
func (w wide) ceil(d int64) int64 {
	q, ok := divide(w, d)
	if !ok {
		return forever
	}
	if q.phase > 0 {
		return q.us + 1
	}
	return q.us
}

// floor returns w/d rounded down, saturating at the largest int64.
func (w wide) floor(d int64) int64 {
	q, ok := divide(w, d)
	if !ok {
		return forever
	}
	return q.us
}

// span is a length of time: whole microseconds and a phase in 1/N of one.
type span struct{ us, phase int64 }

// divide returns w/n as quotient and remainder; ok is false when the quotient
// does not fit an int64. n must be positive.
func divide(w wide, n int64) (s span, ok bool) {
	if w.hi == 0 { // the usual case: one short division
		q := w.lo / uint64(n)
		return span{int64(q), int64(w.lo % uint64(n))}, q <= forever
	}
	if w.hi >= uint64(n) {
		return span{}, false
	}
	q, r := bits.Div64(w.hi, w.lo, uint64(n))
	return span{int64(q), int64(r)}, q <= forever
}
