package weir

import "github.com/weirhq/weir/algo"

// Fork returns an empty store on the same clock to which Copy can copy balances
// of m. It is for simulations that ask what would have been.
func (m *Memory) Fork(o MemoryOptions) *Memory {
	f := NewMemory(o)
	f.clock, f.seed = m.clock, m.seed
	return f
}

// Copy copies the balance that c falls on, as it stands, to a Fork of m, where it
// becomes that of the same charge in space; there must be none. Blocks and what
// refunds have given back stay behind.
func (m *Memory) Copy(c *Charge, to *Memory, space string) {
	print := m.printOf(c)
	there := m.print(c.Key, space, &c.Limit)
	from, dest := m.shard(print), to.shard(there)
	now := m.now()
	from.mu.Lock()
	defer from.mu.Unlock()
	at := from.find(print)
	if at < 0 {
		return
	}
	w := from.slots[at].w
	dest.mu.Lock()
	defer dest.mu.Unlock()
	if w[2]&logFlag != 0 {
		log := from.logs[print].Clone()
		if dest.logs == nil {
			dest.logs = make(map[uint64]*algo.Log)
		}
		dest.logs[there] = log
		dest.logBytes += logBytes + int64(log.Cap())*entryBytes
	}
	*dest.place(dest.find(there), there, now) = w
}
