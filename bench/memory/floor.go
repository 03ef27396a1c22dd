package memory

import (
	"hash/maphash"
	"sync"
	"time"
)

// floorSlot is a cache line's worth of state.
type floorSlot struct {
	print uint64
	state [7]uint64
}

type floorShard struct {
	mu    sync.Mutex
	slots []floorSlot
	_     [32]byte
}

// openFloor returns what no limiter in memory can do without: read a clock, hash
// the key and the limit, lock, and change one cache line. It decides nothing.
func openFloor(keys int) (Take, error) {
	const shards = 512
	each := 1
	for each*shards < keys {
		each *= 2
	}
	table := make([]floorShard, shards)
	for i := range table {
		table[i].slots = make([]floorSlot, each)
	}
	seed := maphash.MakeSeed()
	base := time.Now()
	limit := "per-user"
	return func(key string) bool {
		print := maphash.String(seed, key) ^ maphash.String(seed, limit)
		now := uint64(time.Since(base))
		s := &table[print>>55]
		s.mu.Lock()
		slot := &s.slots[print&uint64(each-1)]
		slot.print = print
		slot.state[0] = now
		s.mu.Unlock()
		return true
	}, nil
}
