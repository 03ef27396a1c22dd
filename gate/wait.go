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

// boundWaits shortens the queues of the bill's leaky buckets to what the door
// can hold.
func (v *Verdict) boundWaits() {
	if !v.NoWait && v.MaxDelay <= 0 {
		return
	}
	for i := range v.Bill.Charges {
		c := &v.Bill.Charges[i]
		if c.Limit.Kind() != algo.LeakyBucket || c.Limit.Units() <= 0 || c.Limit.IsUnlimited() {
			continue
		}
		waiting := int64(0)
		if !v.NoWait {
			waiting = drained(c.Limit, v.MaxDelay)
		}
		// A cost of c waits for what stands before it alone, so its own units
		// may lie beyond the bound.
		if most := c.Limit.Most() - 1; waiting < most-max(c.Cost, 1)+1 {
			c.Limit = c.Limit.Burst(waiting + max(c.Cost, 1) - 1)
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
