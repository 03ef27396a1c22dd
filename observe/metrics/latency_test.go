package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestLatencyCountsAsTheLibrary holds our histogram, bucket by bucket, to that of
// the client library, which is slower.
func TestLatencyCountsAsTheLibrary(t *testing.T) {
	ours := newLatency(duration)
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "x", Buckets: classicBounds(), NativeHistogramBucketFactor: 1.1,
	})
	see := func(d time.Duration) {
		ours.observe(d, 1)
		theirs.Observe(d.Seconds())
	}
	for i := range 60 { // powers of two of a second, where buckets end, and beside them
		d := time.Duration(math.Ldexp(1e9, i-24))
		if d > 60*time.Second {
			break
		}
		for off := time.Duration(-1); off <= 1; off++ {
			if d+off > 60 {
				see(d + off)
			}
		}
	}
	for range 100_000 {
		see(time.Duration(math.Exp(rand.Float64()*math.Log(6e10/100))*100) + 1)
	}
	var a, b dto.Metric
	if err := ours.Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Write(&b); err != nil {
		t.Fatal(err)
	}
	if a.Histogram.GetSampleCount() != b.Histogram.GetSampleCount() || math.Abs(a.Histogram.GetSampleSum()/b.Histogram.GetSampleSum()-1) > 1e-9 {
		t.Errorf("count %d and %d, sum %v and %v", a.Histogram.GetSampleCount(), b.Histogram.GetSampleCount(), a.Histogram.GetSampleSum(), b.Histogram.GetSampleSum())
	}
	for i, bucket := range b.Histogram.Bucket {
		if i < classic && a.Histogram.Bucket[i].GetCumulativeCount() != bucket.GetCumulativeCount() {
			t.Errorf("le %v: %d, the library %d", bucket.GetUpperBound(), a.Histogram.Bucket[i].GetCumulativeCount(), bucket.GetCumulativeCount())
		}
	}
	got, want := native(a.Histogram), native(b.Histogram)
	if len(got) != len(want) || len(got) < 100 {
		t.Errorf("%d native buckets, the library has %d", len(got), len(want))
	}
	for index, n := range want {
		if got[index] != n {
			t.Errorf("native bucket %d: %d, the library %d", index, got[index], n)
		}
	}
}

// native returns counts by bucket index.
func native(h *dto.Histogram) map[int32]int64 {
	all := map[int32]int64{}
	index, at, n := int32(0), 0, int64(0)
	for _, span := range h.PositiveSpan {
		index += span.GetOffset()
		for range span.GetLength() {
			n += h.PositiveDelta[at]
			at++
			if n > 0 { // the library fills gaps with empty buckets
				all[index] = n
			}
			index++
		}
	}
	return all
}

func TestLatencyBeyondItsEnds(t *testing.T) {
	l := newLatency(duration)
	for _, d := range []time.Duration{0, 1, time.Hour} {
		l.observe(d, 1)
	}
	l.exemplify(time.Hour, "4bf92f3577b34da6a3ce929d0e0e4736")
	var m dto.Metric
	if err := l.Write(&m); err != nil {
		t.Fatal(err)
	}
	buckets := m.Histogram.Bucket
	if m.Histogram.GetSampleCount() != 3 || buckets[0].GetCumulativeCount() != 2 || buckets[classic-1].GetCumulativeCount() != 2 {
		t.Errorf("%v", m.Histogram)
	}
	last := buckets[len(buckets)-1]
	if !math.IsInf(last.GetUpperBound(), 1) || last.GetExemplar() == nil {
		t.Errorf("the last bucket is %v", last)
	}
}
