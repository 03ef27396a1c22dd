package regions

import (
	"maps"
	"math/bits"
	"sync"
	"time"

	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
)

// A limit with the scope «global share» is cut into shares that sum up to at most
// the whole. Each region begins with an equal one. A region that is asked for less
// than it holds gives some up to one that is asked for more:
//
//	giver: writes «given to B, in all: n» ─▶ tells B ─▶ B: writes «taken from A, in
//	all: n», waits until what the giver has admitted under it is no more, uses it
//
// What was given and what was taken are cumulative, so a message may come twice or
// late. Between giving and using, the share is nobody's. A taker waits for the
// longest refill of the rule: what the giver spent of the part by then has flowed
// in at a rate that nobody used, so that no sum over any time exceeds the limit.
//
// A share moves only where every peer was heard of a moment ago, so none moves
// while regions are parted; what they hold stays right.
//
// An instance goes by a record for some beats after it has read it. One that cannot
// read it any more then holds nothing: another may have given its share away.
//
// A region whose server has no record, at first or because it lost it, holds nothing
// until every peer has said what it took from it and gave to it. Until then, and of
// what its share has no whole unit of, it refuses for a beat and not for ever.

// share is a part of a limit. The whole is divisible by every number of regions to
// 16: an equal share in millionths would leave three regions nothing of 3/min.
type share int64

const (
	whole  share = 720_720
	hardly share = 14_414 // a difference that is not worth a move

	leastPart = 4 // a region keeps so much of its first share, whatever others are asked for
)

// part returns what the share leaves of q, rounded down: shares that sum up to
// the whole never sum up to more of the limit.
func (s share) part(q algo.Quota) algo.Quota {
	q.N = s.of(q.N)
	if q.Kind.Bucket() {
		if q.Capacity = s.of(q.Capacity); q.Capacity == 0 {
			q.N = 0
		}
	}
	return q
}

func (s share) of(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(max(s, 0)))
	part, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(part)
}

// holding is what a region's server keeps of one shared limit.
type holding struct {
	Given   map[string]share `json:"given,omitempty"`   // to a peer, in all
	Taken   map[string]share `json:"taken,omitempty"`   // from a peer, in all
	Waiting map[string]share `json:"waiting,omitempty"` // of what was taken, not used yet
	Asked   int64            `json:"asked,omitempty"`   // a second, about; only in messages
}

// record is a region's holdings by space. What is not there holds the first share.
type record map[string]*holding

func (r record) clone() record {
	c := record{}
	for space, h := range r {
		c[space] = &holding{maps.Clone(h.Given), maps.Clone(h.Taken), maps.Clone(h.Waiting), h.Asked}
	}
	return c
}

func (r record) at(space string) *holding {
	h := r[space]
	if h == nil {
		h = &holding{}
		r[space] = h
	}
	for _, m := range []*map[string]share{&h.Given, &h.Taken, &h.Waiting} {
		if *m == nil {
			*m = map[string]share{}
		}
	}
	return h
}

// has returns what the holding comes to, with what waits and without.
func (h *holding) has(first share) (all, usable share) {
	all = first
	for _, n := range h.Taken {
		all += n
	}
	for _, n := range h.Given {
		all -= n
	}
	usable = all
	for _, n := range h.Waiting {
		usable -= n
	}
	return all, usable
}

// take moves what peers gave into h, to wait, and returns from whom there was
// something.
func (h *holding) take(me, peer string, theirs *holding) bool {
	if theirs == nil || theirs.Given[me] <= h.Taken[peer] {
		return false
	}
	more := theirs.Given[me] - h.Taken[peer]
	h.Taken[peer] += more
	h.Waiting[peer] += more
	return true
}

// give returns to whom something is to be given, and how much: what is more than
// demand asks for, to whom it lacks most, and no more than that lacks.
func (h *holding) give(first share, theirs map[string]*holding) (to string, n share) {
	sum := h.Asked
	for _, t := range theirs {
		sum += t.Asked
	}
	if sum == 0 {
		return "", 0
	}
	floor := first / leastPart
	open := whole - floor*share(len(theirs)+1)
	target := func(asked int64) share { return floor + share(int64(open)*asked/sum) }
	mine, usable := h.has(first)
	over := min(mine-target(h.Asked), usable-floor)
	lack := share(0)
	for peer, t := range theirs {
		have, _ := t.has(first)
		if l := target(t.Asked) - have; l > lack || l == lack && peer < to {
			to, lack = peer, l
		}
	}
	if n = min(over, lack); n < hardly {
		return "", 0
	}
	return to, n
}

// shares is what this instance knows of its region's shares.
type shares struct {
	beat    time.Duration
	now     func() time.Duration
	equal   share         // what each region begins with
	most    share         // that a region can come to hold
	changed chan struct{} // holds one where there are new scopes

	mu     sync.Mutex
	scopes map[string]policy.Sharing
	held   map[string]share // by space, as last read; of what is not in it, an equal one
	until  time.Duration    // then what was read is too old to be used
	asks   map[string]int64 // units since they were last counted
}

func newShares(regions int, beat time.Duration, now func() time.Duration) *shares {
	first := whole / share(regions)
	return &shares{
		beat: beat, now: now,
		equal: first, most: whole - first/leastPart*share(regions-1), changed: make(chan struct{}, 1),
		held: map[string]share{}, asks: map[string]int64{},
	}
}

// again returns how long q's holder refuses a cost that its share does not hold,
// in microseconds: 0 is for good, since no share holds it.
func (s *shares) again(q algo.Quota, cost int64) int64 {
	if most := s.most.part(q); cost < 1 || most.N == 0 || most.TooLarge(cost) {
		return 0
	}
	return s.beat.Microseconds()
}

// holds reports whether the region holds anything.
func (s *shares) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now() < s.until
}

// of returns this region's share of a space's limits, which is nothing while it has
// no record that was read a moment ago.
func (s *shares) of(space string) share {
	if !s.holds() {
		return 0
	}
	return s.last(space)
}

// last returns the share of a space's limits that this region is last known to
// have held, whether it still does or not; an equal one if none is known.
func (s *shares) last(space string) share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[space]; ok {
		return h
	}
	return s.equal
}

// asked counts what a bill asks for, admitted or not: what is refused is demand.
func (s *shares) asked(space string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks[space] += min(max(units, 0), 1<<32)
}

func (s *shares) spaces(scopes map[string]policy.Sharing) {
	s.mu.Lock()
	s.scopes = scopes
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// shared returns the spaces that are held in shares, and how long their limits
// remember.
func (s *shares) shared() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]time.Duration{}
	for space, sharing := range s.scopes {
		if sharing.Scope == policy.ScopeShare {
			m[space] = sharing.Refill
		}
	}
	return m
}

// counted returns what was asked for since it was last called.
func (s *shares) counted() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := s.asks
	s.asks = map[string]int64{}
	return asks
}

// hold puts a record in force that was read at an instant. Of a nil one, which was
// lost, nothing is held, and what was held last stays known.
func (s *shares) hold(r record, at time.Duration) {
	held := map[string]share{}
	for space, h := range r {
		_, held[space] = h.has(s.equal)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		s.until = 0
		return
	}
	s.held, s.until = held, at+settling(s.beat)
}

// settling is how long an instance goes by a record it has read. What was given
// away is used by nobody else before: by then each has read that it was given.
func settling(beat time.Duration) time.Duration { return 3 * beat }
