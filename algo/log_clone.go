package algo

import "slices"

// Clone returns a copy that shares nothing with l.
func (l *Log) Clone() *Log {
	entries := slices.Clone(l.entries)
	return &Log{room: entries, entries: entries, base: l.base}
}
