package httplimit

// Remembered returns how many destinations t remembers.
func (t *Transport) Remembered() int { return len(t.holds.until) }
