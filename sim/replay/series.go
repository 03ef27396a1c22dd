package replay

import "slices"

// series counts over time in at most maxBuckets buckets of equal width, for
// charts. It begins with seconds; when the log outgrows the buckets, they are
// made wider. Buckets begin at round times. Times come in order.
type series struct {
	start   int64 // of the first bucket, in microseconds
	width   int64
	buckets []bucket
}

type bucket struct{ allowed, denied int64 }

const maxBuckets = 240

// widths are those that people think in, in seconds, each a multiple of the one
// before. Beyond them a bucket is twice as wide as before.
var widths = []int64{1, 5, 15, 60, 5 * 60, 15 * 60, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600}

func (s *series) add(us int64, allowed bool) {
	if s.width == 0 {
		s.width = 1e6
		s.start = us - us%s.width
	}
	for us-s.start >= maxBuckets*s.width {
		s.widen()
	}
	at := (us - s.start) / s.width
	for int(at) >= len(s.buckets) {
		s.buckets = append(s.buckets, bucket{})
	}
	if allowed {
		s.buckets[at].allowed++
	} else {
		s.buckets[at].denied++
	}
}

// widen goes over to the next width.
func (s *series) widen() {
	start, width := s.start, 2*s.width
	if i := slices.Index(widths, s.width/1e6); i >= 0 && i+1 < len(widths) {
		width = widths[i+1] * 1e6
	}
	s.start = start - start%width
	wider := s.buckets[:0]
	for i, b := range s.buckets {
		at := (start + int64(i)*s.width - s.start) / width
		if int(at) == len(wider) { // never further: i has been read
			wider = append(wider, bucket{})
		}
		wider[at].allowed += b.allowed
		wider[at].denied += b.denied
	}
	s.buckets, s.width = wider, width
}

// within returns s in the buckets of frame, whose time holds that of s.
func (s *series) within(frame *series) *series {
	narrow := series{s.start, s.width, slices.Clone(s.buckets)}
	for narrow.width < frame.width {
		narrow.widen()
	}
	out := &series{frame.start, frame.width, make([]bucket, len(frame.buckets))}
	copy(out.buckets[(narrow.start-frame.start)/frame.width:], narrow.buckets)
	return out
}
