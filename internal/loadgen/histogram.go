package loadgen

import (
	"math/bits"
	"time"
)

// Histogram counts durations. Each bucket is as wide as a 64th of its bounds, so
// a quantile is right within 1.6 %. The zero Histogram is empty. It is not safe
// for concurrent use.
type Histogram struct {
	counts [(longest - fine + 1) << fine]uint64
	total  uint64
}

const (
	fine    = 6  // bits of precision
	longest = 40 // durations of 2^40 ns, 18 minutes, and more are counted as that
)

// bucket returns the index for ns: below 64 the number itself, then 64 buckets
// for every power of two.
func bucket(ns uint64) int {
	ns = min(ns, 1<<longest-1)
	shift := max(0, bits.Len64(ns)-fine-1)
	return shift<<fine + int(ns>>shift)
}

// upper returns the largest duration in bucket i, in nanoseconds.
func upper(i int) uint64 {
	shift := max(0, i>>fine-1)
	return (uint64(i-shift<<fine)+1)<<shift - 1
}

// Add counts d.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(uint64(max(0, d)))]++
	h.total++
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// Quantile returns the duration that thousandths of the counted are at most;
// 0 if nothing was counted.
func (h *Histogram) Quantile(thousandths uint64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := (h.total*thousandths + 999) / 1000
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen >= max(rank, 1) {
			return time.Duration(upper(i))
		}
	}
	return time.Duration(upper(len(h.counts) - 1))
}

// Mean returns the average duration.
func (h *Histogram) Mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	sum := uint64(0)
	for i, n := range h.counts {
		sum += n * upper(i)
	}
	return time.Duration(sum / h.total)
}

// Sparse returns the counts that are not zero, by bucket, to be sent elsewhere.
func (h *Histogram) Sparse() map[int]uint64 {
	m := make(map[int]uint64)
	for i, n := range h.counts {
		if n > 0 {
			m[i] = n
		}
	}
	return m
}

// AddSparse adds what Sparse of another histogram returned. Buckets that do not
// exist are ignored.
func (h *Histogram) AddSparse(m map[int]uint64) {
	for i, n := range m {
		if i >= 0 && i < len(h.counts) {
			h.counts[i] += n
			h.total += n
		}
	}
}
