package weir

// lockHeld takes the shard's lock, which was held when the caller tried it: that
// try is compiled into the caller, this is not. A holder is done within some tens
// of nanoseconds, which is less than sync.Mutex spends on one look before it sleeps.
func (s *shard) lockHeld() {
	for range lockTries {
		if s.mu.TryLock() {
			return
		}
	}
	s.mu.Lock()
}

const lockTries = 10
