package replay

// series counts over time in at most maxBuckets buckets of equal width, for
// charts. It begins with seconds; when the log outgrows the buckets, they are
// made twice as wide. Times come in order.
type series struct {
	start   int64 // of the first bucket, in microseconds
	width   int64
	buckets []bucket
}

type bucket struct{ allowed, denied int64 }

const maxBuckets = 240

func (s *series) add(us int64, allowed bool) {
	if s.width == 0 {
		s.width = 1e6
		s.start = us - us%s.width
	}
	at := (us - s.start) / s.width
	for at >= maxBuckets {
		half := s.buckets[:(len(s.buckets)+1)/2]
		for i := range half {
			b := s.buckets[2*i]
			if 2*i+1 < len(s.buckets) {
				b.allowed += s.buckets[2*i+1].allowed
				b.denied += s.buckets[2*i+1].denied
			}
			half[i] = b
		}
		s.buckets = half
		s.width *= 2
		at = (us - s.start) / s.width
	}
	for int(at) >= len(s.buckets) {
		s.buckets = append(s.buckets, bucket{})
	}
	if allowed {
		s.buckets[at].allowed++
	} else {
		s.buckets[at].denied++
	}
}
