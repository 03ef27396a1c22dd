package top

import (
	"math/bits"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// sketch counts keys without keeping them, and keeps those that are asked for
// most.
//
//	hash ─┬─▶ rows of counters, one counter a row ─▶ the least is at most what
//	      │                                          others add over the key's own
//	      └─▶ if that is over 1/512 of all: one of 1,024 places for names
//
// The rows are a count-min sketch: what it says of a key is never too little, and
// too much by more than e/4096 of all counts in one case of twenty. A place counts
// its key exactly from when it took it, which is never too much. So both ends of
// what is told are certain. A key that makes up 1/256 of all is told, unless four
// larger ones share its set of places.
//
// Counting is a hash and three plain additions. A map with counters that give way
// (space saving) was rejected: under many keys that are asked for once, each is an
// insertion. Who counts holds the lock of the part (see part).
type sketch struct {
	rows [depth][width]uint32
	seen int64 // in all
	sets [sets][ways]place
}

const (
	depth = 3
	width = 4096
	step  = 16 // requests between two looks at the clock
	sets  = 256
	ways  = 4
	share = 512
)

// place holds a key that is asked for much.
type place struct {
	hash  uint64 // 0 for none
	count int64  // since it took the place
	most  uint32 // what the rows said when it was last asked for
	name  name
}

// name is what a key is told as.
type name struct {
	rule string
	key  []byte
}

// count counts charge i of b, one request of the key with that hash, and reports
// whether it is time to look at the clock. What the key is told as is looked for
// only if it takes a place.
func (s *sketch) count(hash uint64, b *weir.Bill, i int) (look bool) {
	most := uint32(1<<32 - 1)
	h := hash
	for i := range s.rows {
		v := &s.rows[i][h%width]
		*v++
		most = min(most, *v)
		h = next(h)
	}
	s.seen++
	if int64(most) >= s.seen/share {
		s.place(hash, most, b, i)
	}
	return s.seen%step == 0
}

// next is where a key's counter stands in the next row.
func next(h uint64) uint64 { return bits.RotateLeft64(h, 21) * 0x9E3779B97F4A7C15 }

// place counts a key that is asked for much where it has a place, and gives it
// one if it is asked for more than one that has.
func (s *sketch) place(hash uint64, most uint32, b *weir.Bill, i int) {
	set := &s.sets[hash>>56]
	least := &set[0]
	for way := range set {
		p := &set[way]
		if p.hash == hash {
			p.count++
			p.most = most
			return
		}
		if p.most < least.most {
			least = p
		}
	}
	if most <= least.most {
		return
	}
	least.hash, least.count, least.most = hash, 1, most
	least.name.rule = observe.NoteOf(&weir.Event{Bill: b}).RuleName(i)
	if least.name.rule == "" {
		least.name.rule = observe.Adhoc
	}
	least.name.key = append(least.name.key[:0], b.Charges[i].Key...)
}

// estimate returns what the rows say of a key.
func (s *sketch) estimate(h uint64) int64 {
	most := uint32(1<<32 - 1)
	for i := range s.rows {
		most = min(most, s.rows[i][h%width])
		h = next(h)
	}
	return int64(most)
}
