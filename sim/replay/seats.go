package replay

import "github.com/weirhq/weir/gate"

// A seat is a rule of the policy or its try: twice the rule's number, and one
// more for the try.
func seatOf(v *gate.Verdict, i int) int {
	seat := 2 * v.RuleNumber(i)
	if v.IsTry(i) {
		seat++
	}
	return seat
}

// seats is a set of pairs of a key, by its hash, and a seat, as a bit for each
// seat. Most rules see the same keys, and what this costs is to find the key in
// memory: that is then done once for a request.
type seats map[uint64]uint64

// lookup is the word that was looked at last. Its zero value is none.
type lookup struct{ at, bits uint64 }

func place(seat int, hash uint64) (at, bit uint64) {
	return hash + uint64(seat/64), 1 << (seat % 64)
}

func (s seats) has(last *lookup, seat int, hash uint64) bool {
	at, bit := place(seat, hash)
	if at != last.at || at == 0 {
		*last = lookup{at, s[at]}
	}
	return last.bits&bit != 0
}

// add adds a pair. A lookup must then be begun anew, or be the one that addNew
// was given.
func (s seats) add(seat int, hash uint64) {
	at, bit := place(seat, hash)
	s[at] |= bit
}

// addNew adds a pair and reports whether it was not there.
func (s seats) addNew(last *lookup, seat int, hash uint64) bool {
	if s.has(last, seat, hash) {
		return false
	}
	s.add(seat, hash)
	_, bit := place(seat, hash)
	last.bits |= bit
	return true
}
