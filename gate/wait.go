package gate

import (
	"math/bits"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// How long a door can hold a request is the door's matter, and a leaky bucket
// that admits beyond it would charge for a wait that nobody sits out. So the
// bucket is asked with a shorter queue: the same balance, and one that refuses,
// with an exact retry, what would wait too long. Charging first and giving back
// would for a moment refuse others. Queues are whole units long, so the longest
// wait may fall short of the bound by the time of one unit.

// boundWaits bounds the bill to what the door can hold.
func (v *Verdict) boundWaits() {
	switch {
	case v.NoWait:
		BoundWaits(v.Bill.Charges, 0)
	case v.MaxDelay > 0:
		BoundWaits(v.Bill.Charges, v.MaxDelay)
	}
}

// BoundWaits shortens the queues of the leaky buckets among charges, which were
// not decided yet, so that none admits at a delay above longest.
func BoundWaits(charges []weir.Charge, longest time.Duration) {
	for i := range charges {
		c := &charges[i]
		if c.Limit.Kind() != algo.LeakyBucket || c.Limit.Units() <= 0 || c.Limit.IsUnlimited() {
			continue
		}
		// A cost of c waits for what stands before it alone, so its own units
		// may lie beyond the bound.
		if queue := drained(c.Limit, longest) + max(c.Cost, 1) - 1; queue < c.Limit.Most()-1 {
			c.Limit = c.Limit.Burst(queue)
		}
	}
}

// drained returns how many whole units leave the queue of l in d.
func drained(l weir.Limit, d time.Duration) int64 {
	high, low := bits.Mul64(uint64(d/time.Microsecond), uint64(l.Units()))
	period := uint64(l.Period() / time.Microsecond)
	if high >= period {
		return l.Most()
	}
	units, _ := bits.Div64(high, low, period)
	return int64(min(units, uint64(l.Most())))
}
