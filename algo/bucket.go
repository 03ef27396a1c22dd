package algo

// Token bucket and leaky bucket are one machine. Both owe time: a charge of c
// units pushes the instant at which the bucket is idle again (full of tokens,
// or with an empty queue) c*Period/N into the future, and the bucket admits
// while that instant is at most Capacity*Period/N away. This is the generic
// cell rate algorithm (ITU-T I.371, virtual scheduling), kept in exact
// fractions; the debit is an addition and the test a comparison.
//
//	        At                                   Full+Phase/N
//	 ───────┼─────────────────────────────────────┼──────────────┼──────▶ time
//	        │◀── owed: units taken, not regained ─▶│◀── cost ────▶│
//	        │◀────────────── Capacity*Period/N ──────────────────▶│
//
// They differ in two things. A leaky bucket tells an admitted charge to wait
// for what is queued before it. And when the limit changes under a live
// balance, a token bucket keeps its tokens and a leaky bucket its queue.

// Bucket is the state of a token or leaky bucket after its last charge. The
// zero Bucket was never charged.
type Bucket struct {
	Full    int64 // whole microsecond at which the bucket is idle again
	Phase   int64 // and the fraction, in 1/N of a microsecond
	Charged int64 // time of the last charge
	N       int64 // the quota of the last charge: units per period ...
	Cap     int64 // ... and capacity
}

// idle reports whether the bucket is as if never used at t. From then on it is
// forgotten: a bucket keeps no memory of the quota it was full under.
func (b *Bucket) idle(t int64) bool {
	return b.N == 0 || t > b.Full || t == b.Full && b.Phase == 0
}

// AdvanceBucket brings b to the clock's reading now under q.
func (q *Quota) AdvanceBucket(b *Bucket, now int64) View {
	v := View{Now: now, At: now, Full: now, Forget: forever}
	if b.N == 0 {
		return v
	}
	full, charged := b.Full, b.Charged
	if ahead := charged - now; ahead > 0 {
		if ahead <= MaxSkew {
			v.At, v.Full = charged, charged
		} else {
			full, charged, v.Stepped = full-ahead, now, true
		}
	}
	if v.At > full || v.At == full && b.Phase == 0 {
		v.Stepped = false // nothing left to move
		return v
	}
	if b.N == q.N && b.Cap == q.Capacity {
		v.Full, v.Phase = full, b.Phase
		return v
	}
	v.Forget = full
	if b.Phase > 0 {
		v.Forget++
	}
	q.adopt(&v, b, full, charged)
	return v
}

// adopt re-reads a bucket that was last charged under another quota: what it
// held at its last charge stays, what it gained since counts at q's rate.
func (q *Quota) adopt(v *View, b *Bucket, full, charged int64) {
	if q.N == 0 { // holds nothing and regains nothing; forgotten all the same
		v.Full, v.Phase = v.Forget, 0
		return
	}
	owed := multiply(b.N, full-charged).add(b.Phase) // in 1/Period units
	if q.Kind == TokenBucket {
		// tokens = old capacity - owed, capped at the new capacity
		if q.Capacity >= b.Cap {
			owed = owed.plus(multiply(q.Capacity-b.Cap, q.Period))
		} else {
			owed = owed.minus(multiply(b.Cap-q.Capacity, q.Period))
		}
	}
	s, ok := divide(owed, q.N)
	if !ok || s.us > saturation {
		s = span{saturation, 0} // more than fits; Forget comes first anyway
	}
	if charged+s.us < v.At {
		return // regained since: v says idle
	}
	v.Full, v.Phase = charged+s.us, s.phase
}

// span returns the time that units take to be regained. units must be at most
// q.Capacity and q.N positive.
func (q *Quota) span(units int64) span {
	if units == q.N {
		return span{q.Period, 0}
	}
	s, _ := divide(multiply(units, q.Period), q.N)
	return s
}

// Debit is what a cost means to a bucket, computed before its lock is taken.
type Debit struct{ cost, capacity span }

// Debit prepares cost, which must not be TooLarge.
func (q *Quota) Debit(cost int64) Debit {
	if q.N == 0 {
		return Debit{}
	}
	return Debit{q.span(cost), q.span(q.Capacity)}
}

// Cost returns the microseconds the cost takes to be regained and the rest in
// 1/N of one, for engines that do the addition themselves.
func (d Debit) Cost() (us, phase int64) { return d.cost.us, d.cost.phase }

// Capacity returns the same for the whole capacity.
func (d Debit) Capacity() (us, phase int64) { return d.capacity.us, d.capacity.phase }

// FitsBucket reports whether the debit fits at v, or will within wait
// microseconds. A quota of nothing fits nothing.
func (q *Quota) FitsBucket(v *View, d *Debit, wait int64) bool {
	if q.N == 0 {
		return false
	}
	us := v.Full - v.At + d.cost.us - d.capacity.us - wait
	phase := v.Phase + d.cost.phase - d.capacity.phase
	// us + phase/N <= 0, where phase lies in (-N, 2N)
	return us < -1 || us == -1 && phase <= q.N || us == 0 && phase <= 0
}

// ChargeBucket debits v and returns the state to keep. The debit must fit.
func (q *Quota) ChargeBucket(v *View, d *Debit) Bucket {
	v.Full += d.cost.us
	v.Phase += d.cost.phase
	if v.Phase >= q.N {
		v.Phase -= q.N
		v.Full++
	}
	v.Forget = forever
	return Bucket{v.Full, v.Phase, v.At, q.N, q.Capacity}
}

// Units returns how many units a length of time in this bucket stands for,
// rounded up.
func (q *Quota) Units(us, phase int64) int64 {
	return multiply(q.N, us).add(phase).ceil(q.Period)
}

// Uncharge takes one debit back out of v, for engines that debit elsewhere and
// report here. What was owed to an older quota is not restored: neither Delay
// nor the report on an admitted charge asks for it.
func (q *Quota) Uncharge(v *View, d *Debit) {
	v.Full -= d.cost.us
	v.Phase -= d.cost.phase
	if v.Phase < 0 {
		v.Phase += q.N
		v.Full--
	}
}

// StepBucket returns b moved to now, for a denial that must keep the new
// stored time after the clock was stepped back.
func StepBucket(b Bucket, now int64) Bucket {
	b.Full -= b.Charged - now
	b.Charged = now
	return b
}

// Delay returns how long an admitted charge must wait, in microseconds: for a
// leaky bucket the queue before it, for a token bucket what was admitted ahead.
// v is the view before the charge.
func (q *Quota) Delay(v *View, d *Debit) int64 {
	wait := span{v.Full - v.At, v.Phase}
	if q.Kind == TokenBucket {
		wait.us += d.cost.us - d.capacity.us
		wait.phase += d.cost.phase - d.capacity.phase
	}
	us := ceilSpan(wait, q.N)
	if us <= 0 {
		return 0
	}
	return us + v.At - v.Now
}

// ceilSpan rounds up a span whose phase lies in (-n, 2n).
func ceilSpan(s span, n int64) int64 {
	switch {
	case s.phase > n:
		return s.us + 2
	case s.phase > 0:
		return s.us + 1
	}
	return s.us
}

func (q *Quota) bucketRemaining(v *View) int64 {
	if q.N == 0 {
		return 0
	}
	owed := multiply(q.N, v.Full-v.At).add(v.Phase)
	return q.Capacity - owed.ceil(q.Period)
}

func (v *View) bucketReset() int64 {
	if v.Full == v.At && v.Phase == 0 {
		return 0
	}
	full := v.Full
	if v.Phase > 0 {
		full++
	}
	return min(full, v.Forget) - v.Now
}

// bucketRetry returns the first microsecond at which cost fits, or will within
// wait microseconds.
func (q *Quota) bucketRetry(v *View, cost, wait int64) int64 {
	c, b := q.span(cost), q.span(q.Capacity)
	at := ceilSpan(span{v.Full + c.us - b.us, v.Phase + c.phase - b.phase}, q.N)
	return min(at-wait, v.Forget)
}

// RefundBucket gives back up to units of a charge made under q after which the
// bucket was due to be idle at dueFull+duePhase/N, and returns the state to
// keep and the units given back, rounded up. later is how many microseconds
// earlier refunds since that charge have already pulled the bucket forward.
// now is the clock's reading.
//
// A charge is paid off in the order of charging, so what it still owes is the
// part of its own stretch that lies ahead. Giving back more would credit time
// that has already been credited by passing: a bucket refunded by "add it back,
// capped at full" mints units in about a fifth of random histories.
//
// Under another limit what is owed was read anew, so nothing is given back. A leaky
// bucket keeps its queue whatever its capacity, and doors ask one balance with many
// (the longest wait they can hold), so there the rate alone has to be the same.
func (q *Quota) RefundBucket(b Bucket, now, units, dueFull, duePhase, later int64) (Bucket, int64) {
	v := q.AdvanceBucket(&b, now)
	changed := b.N != q.N || q.Kind == TokenBucket && b.Cap != q.Capacity
	if b.idle(v.At) || changed || v.Stepped || units < 1 {
		return b, 0
	}
	owed := span{dueFull - later - v.At, duePhase}
	if owed.us < 0 || owed.us == 0 && owed.phase == 0 {
		return b, 0
	}
	if ahead := (span{b.Full - v.At, b.Phase}); ahead.us < owed.us || ahead.us == owed.us && ahead.phase < owed.phase {
		owed = ahead
	}
	back := q.span(min(units, q.Capacity))
	if owed.us < back.us || owed.us == back.us && owed.phase < back.phase {
		back = owed
	}
	given := q.Units(back.us, back.phase)
	b.Full -= back.us
	b.Phase -= back.phase
	if b.Phase < 0 {
		b.Phase += q.N
		b.Full--
	}
	return b, given
}

// FirstAfter rounds an instant up to the microsecond; its phase, in 1/n of one,
// may lie in (-n, 2n).
func FirstAfter(us, phase, n int64) int64 { return ceilSpan(span{us, phase}, n) }
