package top

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
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
// Counting is a hash and three atomic additions, without a lock; only a key that
// takes a place locks. A map with counters that give way (space saving) was
// rejected: under many keys that are asked for once, each is an insertion.
type sketch struct {
	rows  [depth][width]atomic.Uint32
	seen  atomic.Int64 // of all, in steps; lags behind by at most width·step
	sets  [sets][ways]place
	names sync.Mutex // guards name of every place, and who takes which
}

const (
	depth = 3
	width = 4096
	step  = 16
	sets  = 256
	ways  = 4
	share = 512
)

// place holds a key that is asked for much.
type place struct {
	hash  atomic.Uint64 // 0 for none
	count atomic.Int64  // since it took the place
	most  atomic.Uint32 // what the rows said when it was last asked for
	name  name
}

// name is what a key is told as.
type name struct {
	rule string
	key  []byte
}

// count counts one request of a key and reports whether it is time to look at the
// clock.
func (s *sketch) count(hash uint64, rule, key string) (look bool) {
	most := uint32(1<<32 - 1)
	h := hash
	for i := range s.rows {
		v := s.rows[i][h%width].Add(1)
		most = min(most, v)
		if i == 0 && v%step == 0 {
			s.seen.Add(step)
			look = true
		}
		h = bits.RotateLeft64(h, 21) * 0x9E3779B97F4A7C15
	}
	if int64(most) >= s.seen.Load()/share {
		s.place(hash, most, rule, key)
	}
	return look
}

// place counts a key that is asked for much where it has a place, and gives it
// one if it is asked for more than one that has.
func (s *sketch) place(hash uint64, most uint32, rule, key string) {
	set := &s.sets[hash>>56]
	least := &set[0]
	for i := range set {
		p := &set[i]
		if p.hash.Load() == hash {
			p.count.Add(1)
			p.most.Store(most)
			return
		}
		if p.most.Load() < least.most.Load() {
			least = p
		}
	}
	if most <= least.most.Load() {
		return
	}
	s.names.Lock()
	defer s.names.Unlock()
	for i := range set { // somebody may have been quicker
		if set[i].hash.Load() == hash {
			set[i].count.Add(1)
			return
		}
	}
	least.hash.Store(hash)
	least.count.Store(1)
	least.most.Store(most)
	least.name.rule = rule
	least.name.key = append(least.name.key[:0], key...)
}

// Count is what is known of one key.
type Count struct {
	Rule, Key       string // Rule is the policy's, or adhoc
	AtLeast, AtMost int64  // requests: both are certain
}

// known is a Count by its key's hash.
type known struct {
	hash uint64
	Count
}

// list returns the keys that have a place.
func (s *sketch) list() []known {
	var all []known
	s.names.Lock()
	defer s.names.Unlock()
	for i := range s.sets {
		for j := range s.sets[i] {
			p := &s.sets[i][j]
			hash := p.hash.Load()
			if hash == 0 {
				continue
			}
			all = append(all, known{hash, Count{p.name.rule, string(p.name.key), p.count.Load(), s.estimate(hash)}})
		}
	}
	return all
}

// estimate returns what the rows say of a key.
func (s *sketch) estimate(h uint64) int64 {
	most := uint32(1<<32 - 1)
	for i := range s.rows {
		most = min(most, s.rows[i][h%width].Load())
		h = bits.RotateLeft64(h, 21) * 0x9E3779B97F4A7C15
	}
	return int64(most)
}

// total returns how many requests were counted.
func (s *sketch) total() (n int64) {
	for i := range s.rows[0] {
		n += int64(s.rows[0][i].Load())
	}
	return n
}

// most returns the n keys of both sketches together that are asked for most.
func most(n int, now, before *sketch) []Count {
	at := map[uint64]int{}
	all := now.list()
	for i := range all {
		at[all[i].hash] = i
		all[i].AtMost += before.estimate(all[i].hash)
	}
	for _, k := range before.list() {
		if i, ok := at[k.hash]; ok {
			all[i].AtLeast += k.AtLeast
			continue
		}
		k.AtMost += now.estimate(k.hash)
		all = append(all, k)
	}
	// By what is certain, so that a key which only shares counters with a large
	// one does not come before a key that is.
	slices.SortFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(b.AtMost, a.AtMost), cmp.Compare(a.Key, b.Key))
	})
	counts := []Count{}
	for _, k := range all[:min(n, len(all))] {
		counts = append(counts, k.Count)
	}
	return counts
}
