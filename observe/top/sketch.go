package top

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// sketch counts keys without keeping them, and keeps those that are asked for
// most.
//
//	hash ─┬─▶ a line of counters, in which four are the key's ─▶ the least is at most
//	      │                                          what others add over the key's own
//	      └─▶ if that is over 1/512 of all: one of 1,024 places for names
//
// It is a count-min sketch whose rows lie beside each other: a cache line has four
// counters of each, so a key's counters are brought near at once, where rows apart
// cost each request a wait for every one of them. What it says of a key is never too
// little, and too much by more than e/4096 of all counts in one case of twenty: the
// worst are some 1,500 keys of the same weight, just over that bound (see
// TestWhatOthersAdd). A place counts its key exactly from when it took it, which is
// never too much. So both ends of what is told are certain. A key that makes up
// 1/256 of all is told, unless four larger ones share its set of places.
//
// Counting is a hash and four plain additions. A map with counters that give way
// (space saving) was rejected: under many keys that are asked for once, each is an
// insertion. Who counts holds the lock of the part (see part).
type sketch struct {
	lines [lines]line
	seen  int64 // in all
	sets  [sets][ways]place
}

// line is a cache line: counter i of row r stands at r*width+i.
type line [rows * width]uint32

const (
	lines = 1024
	rows  = 4
	width = 4
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
	line, own := s.line(hash)
	for _, at := range own {
		line[at]++
		most = min(most, line[at])
	}
	s.seen++
	if int64(most) >= s.seen/share {
		s.place(hash, most, b, i)
	}
	return s.seen%step == 0
}

// line returns the line of a hash and which of its counters are the hash's.
func (s *sketch) line(h uint64) (*line, [rows]uint64) {
	return &s.lines[h%lines], [rows]uint64{h >> 10 % width, width + h>>12%width, 2*width + h>>14%width, 3*width + h>>16%width}
}

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
	line, own := s.line(h)
	for _, at := range own {
		most = min(most, line[at])
	}
	return int64(most)
}
