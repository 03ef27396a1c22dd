package weir

import "math/bits"

// locks is a set of shards as a bit map: iterating it is the ascending order.
type locks [1 << shardBits / 64]uint64

func (m *Memory) lock(prints []uint64) (set locks) {
	if m.shift == 64 {
		m.shards[0].mu.Lock()
		return set
	}
	for _, p := range prints {
		i := p >> m.shift
		set[i/64] |= 1 << (i % 64)
	}
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			m.shards[w*64+bits.TrailingZeros64(word)].mu.Lock()
		}
	}
	return set
}

func (m *Memory) unlock(set locks) {
	if m.shift == 64 {
		m.shards[0].mu.Unlock()
		return
	}
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			m.shards[w*64+bits.TrailingZeros64(word)].mu.Unlock()
		}
	}
}
