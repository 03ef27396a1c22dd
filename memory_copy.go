package weir

import "github.com/weirhq/weir/algo"

// CopyLog returns a copy of the sliding log that c falls on, as it stands; a log
// that was never charged is an empty one. It is for simulations that ask what
// would have been: of the other algorithms a Balance's View tells all there is.
func (m *Memory) CopyLog(c *Charge) *algo.Log {
	if c.Limit.kind != algo.SlidingLog {
		return new(algo.Log)
	}
	print := m.print(c)
	s := m.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.find(print); at >= 0 && s.slots[at].w[2]&logFlag != 0 {
		return s.logs[print].Clone()
	}
	return new(algo.Log)
}
