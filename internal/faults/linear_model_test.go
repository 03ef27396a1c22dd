package faults

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// What the store did is compared with the algorithms themselves, one operation
// after the other in some order that could have been: it must begin before what
// began after it had ended. If there is no such order, the history is none of a
// store that decides one bill after the other.
//
// The time of a decision is told with it. Of an operation whose outcome is not
// known there is no time, and it may have happened or not, but if it has then by
// its deadline: past it the script charges nothing.

const keysPerHistory = 3

// action is what a client asked.
type action struct {
	verb  algo.Verb
	costs [keysPerHistory]int64 // by key; 0 is not part of the bill
}

// result is what it was told.
type result struct {
	unknown  bool
	now      int64
	allowed  bool
	each     [keysPerHistory]told
	refunded int64
}

type told struct {
	allowed      bool
	remaining    int64
	retry, reset time.Duration
}

// balances are the states of all keys.
type balances [keysPerHistory]struct {
	bucket algo.Bucket
	window algo.Window
	logged int64
}

// limitsOf returns the limits of a history, which regain nothing while it lasts:
// a unit of a bucket takes more than two hours.
func limitsOf(n int) (limits [keysPerHistory]weir.Limit) {
	kinds := []algo.Kind{algo.TokenBucket, algo.FixedWindow, algo.SlidingLog, algo.LeakyBucket, algo.SlidingWindow}
	for i := range limits {
		kind := kinds[(n+i)%len(kinds)]
		limits[i] = weir.Per(100, 240*time.Hour).Using(kind).OnFailure(weir.Closed)
		if kind == algo.LeakyBucket {
			limits[i] = limits[i].Burst(99)
		}
	}
	return limits
}

// model returns the model of one history.
func model(limits [keysPerHistory]weir.Limit) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{balances{}} },
		Step: func(s, in, out any) []any {
			state, act, res := s.(balances), in.(action), out.(result)
			after, right := step(limits, state, act, res)
			switch {
			case res.unknown && act.verb == algo.Peek:
				return []any{state}
			case res.unknown:
				return []any{state, after}
			case right:
				return []any{after}
			}
			return nil
		},
		Equal: func(a, b any) bool { return a.(balances) == b.(balances) },
	}
	return m.ToModel()
}

// step carries an action out by the algorithms and compares the result.
func step(limits [keysPerHistory]weir.Limit, s balances, act action, res result) (after balances, right bool) {
	if act.verb == algo.Refund {
		return giveBack(limits, s, act, res)
	}
	var views [keysPerHistory]algo.View
	var fits [keysPerHistory]bool
	admitted := true
	for i, cost := range act.costs {
		if cost == 0 {
			continue
		}
		q := limits[i].Quota()
		views[i], fits[i] = judge(&q, &s[i].bucket, &s[i].window, s[i].logged, res.now, cost)
		admitted = admitted && fits[i]
	}
	right = admitted == res.allowed
	for i, cost := range act.costs {
		if cost == 0 {
			continue
		}
		q := limits[i].Quota()
		if admitted && act.verb == algo.Take {
			switch {
			case q.Kind.Bucket():
				d := q.Debit(cost)
				s[i].bucket = q.ChargeBucket(&views[i], &d)
				s[i].bucket.Charged = 0 // the same to every later reading
			case q.Kind.Window():
				s[i].window = q.ChargeWindow(&views[i], cost)
			default:
				views[i].Used += cost
				s[i].logged += cost
			}
		}
		r := q.Report(&views[i], cost, 0, fits[i])
		t := res.each[i]
		right = right && t.allowed == fits[i] && t.remaining == r.Remaining
		if q.Kind != algo.SlidingLog { // whose times are those of entries, which are not kept here
			right = right && t.retry == time.Duration(r.RetryAfter)*time.Microsecond && t.reset == time.Duration(r.ResetAfter)*time.Microsecond
		}
	}
	return s, right
}

func judge(q *algo.Quota, b *algo.Bucket, w *algo.Window, logged, now, cost int64) (v algo.View, fits bool) {
	switch {
	case q.Kind.Bucket():
		v = q.AdvanceBucket(b, now)
		d := q.Debit(cost)
		return v, q.FitsBucket(&v, &d, 0)
	case q.Kind.Window():
		v = q.AdvanceWindow(w, now)
		return v, q.FitsWindow(&v, cost)
	}
	v = algo.View{Now: now, At: now, Used: logged, Newest: now}
	return v, q.FitsLog(&v, cost)
}

// giveBack refunds one charge, which nothing has been regained of yet.
func giveBack(limits [keysPerHistory]weir.Limit, s balances, act action, res result) (after balances, right bool) {
	for i, cost := range act.costs {
		if cost == 0 {
			continue
		}
		right = res.refunded == cost
		q := limits[i].Quota()
		switch {
		case q.Kind.Bucket():
			us, _ := q.Debit(cost).Cost()
			s[i].bucket.Full -= us
		case q.Kind.Window():
			s[i].window.Cur -= cost
		default:
			s[i].logged -= cost
		}
	}
	return s, right
}
