package weir

import (
	"math/rand/v2"

	"github.com/weirhq/weir/algo"
)

// Balance is one balance a bill touches, as the Limiter prepares it for a Store
// and as the store leaves it. Several charges on one balance are one Balance.
type Balance struct {
	Charge *Charge    // the first charge on it; key, space, group and limit are its
	Quota  algo.Quota // Charge.Limit for the algorithms
	Debit  algo.Debit // buckets: Cost for the algorithms, unless Never; see Measure
	Cost   int64      // the sum over the bill's charges on it; 0 only reads
	Trial  int8       // as in Charge, but index+1 of a Balance for a try
	Never  bool       // Cost can never fit
	// Again is for a Quota that is a part of Charge.Limit and may become more:
	// microseconds until what does not fit into it may be asked for again. 0 is a
	// Quota that stays.
	Again int64

	// Written by the store.
	View    algo.View // before the debit where Debited is false, else after
	Fits    bool      // would pass by itself
	Debited bool
	Delay   int64 // microseconds an admitted charge must wait
	Blocked int64 // microseconds since the epoch until which the key is blocked, or 0

	measured measure // what Debit was found for
}

// Measure finds what Cost comes to under Quota: Never and Debit. It is for layers that
// give a balance another Quota, which is a part of its limit.
func (bal *Balance) Measure() {
	q := &bal.Quota
	if bal.Never = bal.Cost < 0 || q.TooLarge(bal.Cost); bal.Never || !q.Kind.Bucket() {
		return
	}
	if of := (measure{q.N, q.Period, q.Capacity, bal.Cost}); bal.measured != of {
		bal.Debit, bal.measured = q.Debit(bal.Cost), of
	}
}

// measure is all that a Debit follows from. Bills that are used again are mostly of the
// same cost under the same limit, and what it comes to is two divisions of 128 bits.
type measure struct{ n, period, capacity, cost int64 }

// fitsUnblocked reports whether a blocked balance would admit the cost, so that
// the wait told outlasts the block only where it must.
func (bal *Balance) fitsUnblocked(wait int64) bool {
	switch q := &bal.Quota; {
	case bal.Never:
		return false
	case q.Kind.Bucket():
		return q.FitsBucket(&bal.View, &bal.Debit, wait)
	case q.Kind.Window():
		return q.FitsWindow(&bal.View, bal.Cost)
	default:
		return q.FitsLog(&bal.View, bal.Cost)
	}
}

// Receipt writes down a debit of cost units, for the view after it. It is for
// stores that take a debit back themselves.
func (bal *Balance) Receipt(cost int64) (r Receipt) {
	c := *bal.Charge
	c.Cost = cost
	bal.receipt(&r, &c)
	return r
}

// receipt writes it in place: see words.putBucket.
func (bal *Balance) receipt(r *Receipt, c *Charge) {
	r.ID, r.For, r.Cost, r.At, r.Due, r.Phase, r.Refunded = rand.Uint64()|1, c.balanceHash(), c.Cost, bal.View.At, 0, 0, 0
	switch {
	case bal.Quota.Kind.Bucket():
		r.Due, r.Phase = bal.View.Full, bal.View.Phase
	case bal.Quota.Kind.Window():
		r.Due = bal.View.Start
	}
}
