package redisstore

// MisreadClock makes the store believe that its server's clock is off by us
// microseconds, until the next reply says better.
func (s *Store) MisreadClock(us int64) {
	for i := range s.lines {
		if l := s.lines[i].Load(); l != nil {
			l.offset.Store(us)
		}
	}
}
