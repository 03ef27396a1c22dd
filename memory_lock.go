package weir

// lock takes the shard's lock. A holder is done within some tens of nanoseconds,
// which is less than sync.Mutex spends on one look before it sleeps.
func (s *shard) lock() {
	for range lockTries {
		if s.mu.TryLock() {
			return
		}
	}
	s.mu.Lock()
}

const lockTries = 10
