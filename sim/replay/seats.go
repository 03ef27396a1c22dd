package replay

import "github.com/weirhq/weir/gate"

// seatOf returns the seat of v's charge i. A seat is a rule of the policy or its
// try: twice the rule's number, and one more for the try.
func seatOf(v *gate.Verdict, i int) int {
	seat := 2 * v.RuleNumber(i)
	if v.IsTry(i) {
		seat++
	}
	return seat
}

// seats is a set of pairs of a key, by its hash, and a seat, as a bit for each
// seat. Most rules see the same keys, and what this costs is to find the key in
// memory: so the words that were looked at last are kept where they are near.
type seats struct {
	known  map[uint64]uint64
	recent [1 << 10]word
}

// word is the bits of one key for 64 seats.
type word struct{ at, bits uint64 }

func newSeats() *seats { return &seats{known: map[uint64]uint64{}} }

// add adds a pair and reports whether it was not there.
func (s *seats) add(seat int, hash uint64) bool {
	at, bit := hash+uint64(seat/64), uint64(1)<<(seat%64)
	near := &s.recent[at%uint64(len(s.recent))]
	if near.at != at || at == 0 {
		near.at, near.bits = at, s.known[at]
	}
	if near.bits&bit != 0 {
		return false
	}
	near.bits |= bit
	s.known[at] = near.bits
	return true
}
