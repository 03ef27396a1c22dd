package algo

// View is how a balance stands at a time: what Advance saw and the Charge
// functions left. It holds all that Report needs, so it can be reported long
// after the state it came from has moved on.
type View struct {
	Now int64 // the clock's reading; reported times count from it
	At  int64 // the time used: Now, or the stored time where that is ahead

	// Buckets: the instant the bucket is idle again, under the quota in force,
	// and the instant it is forgotten whatever the quota (see Bucket).
	Full, Phase int64
	Forget      int64

	// Windows: the period, and the counts of the one before and of this one.
	Start, End int64
	Prev, Cur  int64

	// Sliding logs: units in the last period, time of the newest charge, and,
	// where a cost did not fit, when enough will have left.
	Used, Newest, FreeAt int64

	Stepped bool // the stored time was too far ahead and became Now
}

// Report is the second half of a decision. Times are microseconds from the
// clock's reading, rounded up.
type Report struct {
	Remaining  int64 // whole units one more charge could take now
	RetryAfter int64 // 0 if admitted, Never if it can never be
	ResetAfter int64 // until the balance is as if never used
}

// Report says what v means to a charge of cost units under q that may wait up
// to wait microseconds (buckets). fits is whether the charge passes by itself,
// as Fits said. A negative cost is a sum too large to be one.
func (q *Quota) Report(v *View, cost, wait int64, fits bool) Report {
	var r Report
	switch {
	case q.Kind.Bucket():
		r = Report{q.bucketRemaining(v), 0, v.bucketReset()}
	case q.Kind == SlidingLog:
		r.Remaining = q.N - v.Used
		if v.Used > 0 {
			r.ResetAfter = v.Newest + q.Period - v.Now
		}
	case q.Kind == SlidingWindow:
		r.Remaining = q.slidingRemaining(v)
		if v.Cur > 0 {
			r.ResetAfter = v.End + q.Period - v.Now
		} else if v.Prev > 0 {
			r.ResetAfter = v.End - v.Now
		}
	default:
		r.Remaining = q.N - v.Cur
		if v.Cur > 0 {
			r.ResetAfter = v.End - v.Now
		}
	}
	r.Remaining = max(r.Remaining, 0)
	if fits {
		return r
	}
	switch {
	case q.N == 0 || cost < 0 || q.TooLarge(cost):
		r.RetryAfter = Never
	case q.Kind.Bucket():
		r.RetryAfter = q.bucketRetry(v, cost, wait) - v.Now
	case q.Kind == SlidingLog:
		r.RetryAfter = v.FreeAt - v.Now
	case q.Kind == SlidingWindow:
		r.RetryAfter = q.slidingRetry(v, cost) - v.Now
	default:
		r.RetryAfter = v.End - v.Now
	}
	return r
}
