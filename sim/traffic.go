package sim

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is one request.
type Arrival struct {
	At  time.Duration // since the start of the run
	Via int           // which instance it comes through, from 0
}

// traffic is a stream of arrivals in order of time.
type traffic = iter.Seq[Arrival]

// together is n arrivals at one instant.
func together(at time.Duration, n int) traffic { return byTurns(at, n, 1) }

// byTurns is n arrivals at one instant that come through instances in turn.
func byTurns(at time.Duration, n, instances int) traffic {
	return func(yield func(Arrival) bool) {
		for i := range n {
			if !yield(Arrival{at, i % instances}) {
				return
			}
		}
	}
}

// evenly is one arrival every step, from the first instant to before the second.
func evenly(from, to, step time.Duration, instances int) traffic {
	return func(yield func(Arrival) bool) {
		for i := 0; ; i++ {
			at := from + time.Duration(i)*step
			if at >= to || !yield(Arrival{at, i % instances}) {
				return
			}
		}
	}
}

// rising is traffic that begins at nothing and grows evenly to the given rate a
// second. The nth arrival comes when the area under the rate is n.
func rising(from, to time.Duration, rate float64) traffic {
	long := (to - from).Seconds()
	return func(yield func(Arrival) bool) {
		for n := 1; ; n++ {
			at := from + time.Duration(math.Sqrt(2*float64(n)*long/rate)*float64(time.Second)).Truncate(time.Microsecond)
			if at >= to || !yield(Arrival{At: at}) {
				return
			}
		}
	}
}

// spread is n arrivals, each at a random instant of [from, to), always the same
// ones: half of them in the first half, and so on, as n draws come out.
func spread(from, to time.Duration, n int) traffic {
	return func(yield func(Arrival) bool) {
		draw := rand.New(rand.NewPCG(1, 2))
		// The gaps of a random order are exponential; scaled, they fill the span.
		gaps := make([]float64, n+1)
		sum := 0.0
		for i := range gaps {
			gaps[i] = draw.ExpFloat64()
			sum += gaps[i]
		}
		at := 0.0
		for _, gap := range gaps[:n] {
			at += gap
			if !yield(Arrival{At: from + time.Duration(at/sum*float64(to-from)).Truncate(time.Microsecond)}) {
				return
			}
		}
	}
}

// then is one stream after the other.
func then(parts ...traffic) traffic {
	return func(yield func(Arrival) bool) {
		for _, part := range parts {
			for a := range part {
				if !yield(a) {
					return
				}
			}
		}
	}
}
