package regions

import (
	"context"
	"math/bits"
	"sync"

	"github.com/weirhq/weir/algo"
)

// share is a part of a limit, in millionths.
type share int64

const whole share = 1_000_000

// part returns what the share leaves of q, rounded down: shares that sum up to
// the whole never sum up to more of the limit.
func (s share) part(q algo.Quota) algo.Quota {
	q.N = s.of(q.N)
	if q.Kind.Bucket() {
		q.Capacity = s.of(q.Capacity)
	}
	if q.N == 0 || q.Kind.Bucket() && q.Capacity == 0 {
		q.N = 0
	}
	return q
}

func (s share) of(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(s))
	part, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(part)
}

// shares is what this region holds of each limit, and how much it is asked for.
type shares struct {
	mu    sync.Mutex
	held  map[string]share // by space; what is not there is the first share
	first share
	asks  map[string]int64 // units since they were last counted
}

func newShares(s Settings) *shares {
	return &shares{held: map[string]share{}, asks: map[string]int64{}, first: whole / share(len(s.Peers)+1)}
}

func (s *shares) of(space string) share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[space]; ok {
		return h
	}
	return s.first
}

func (s *shares) asked(space string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks[space] += units
}

func (s *Service) keepShares(ctx context.Context) {}

func (s *Service) heardShares(from, body string) error { return nil }
