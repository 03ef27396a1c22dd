package redisconn

import "github.com/redis/rueidis"

// Claimed returns the entries of a stream that XAUTOCLAIM took over. A Redis before
// 7.0 has nothing in the place of one that was removed from the stream since.
func Claimed(m *rueidis.RedisMessage) (entries []rueidis.XRangeEntry, err error) {
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].IsNil() {
			continue
		}
		entry, err := list[i].AsXRangeEntry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}
