package weir

import "github.com/weirhq/weir/algo"

// words is a packed state. The zero words are a balance never used.
type words [3]uint64

const (
	idleShift = 12
	logFlag   = 1 << 63 // in w[2]: the state is in shard.logs
)

// idleAt is the first microsecond after which the balance is surely idle.
func (w *words) idleAt() int64 { return int64(w[0] >> idleShift) }

// A bucket packs into 191 bits: the bounds of algo keep the instant it is idle
// at below 2^52 µs (the year 2112), the time to it below 2^49, and units and
// phase, which is less than the units per period, below 2^30.
//
// Both ways go word by word and in place: a struct that is copied whole right
// after its fields were written makes the processor wait for the writes.
func (w *words) putBucket(b *algo.Bucket) { w.putUsual(b.Full, b.Phase, b.Charged, b.N, b.Cap) }

func (w *words) putUsual(full, phase, charged, n, capacity int64) {
	gap := uint64(full - charged)
	w[0] = uint64(full)<<idleShift | uint64(phase)>>18
	w[1] = uint64(phase)<<46 | gap>>3
	w[2] = gap&7<<60 | uint64(n)<<30 | uint64(capacity)
}

func (w *words) getBucket(b *algo.Bucket) {
	const units = 1<<30 - 1
	b.Full, b.Phase, b.Charged = w.times()
	b.N = int64(w[2] >> 30 & units)
	b.Cap = int64(w[2] & units)
}

func (w *words) times() (full, phase, charged int64) {
	full = int64(w[0] >> idleShift)
	return full, int64(w[0]&(1<<idleShift-1)<<18 | w[1]>>46), full - int64(w[1]&(1<<46-1)<<3|w[2]>>60&7)
}

// usual returns when the bucket is idle again, now if it is, or a time before
// now where it was charged under another quota or by a clock that was ahead.
func (w *words) usual(now, n, capacity int64) (full, phase int64) {
	full, phase, charged := w.times()
	switch {
	case charged > now:
		return -1, 0
	case full < now:
		return now, 0
	case w[2]&(1<<60-1) != uint64(n)<<30|uint64(capacity):
		return -1, 0
	}
	return full, phase
}

func packWindow(q *algo.Quota, v *algo.View, state algo.Window) words {
	idle := v.End
	if q.Kind == algo.SlidingWindow && state.Cur > 0 {
		idle += q.Period
	}
	return words{uint64(idle) << idleShift, uint64(state.Start), uint64(state.Prev)<<31 | uint64(state.Cur)}
}

func (w *words) window() algo.Window {
	return algo.Window{Start: int64(w[1]), Prev: int64(w[2] >> 31), Cur: int64(w[2] & (1<<31 - 1))}
}
