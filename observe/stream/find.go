package stream

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"
)

// finder is a sink that can be asked for an event.
type finder interface {
	find(ctx context.Context, id string, at time.Time) (Event, bool)
}

// Find returns the event of an ID, of whatever instance, where events go to a
// Redis stream that still has it.
func (s *Stream) Find(ctx context.Context, id string) (e Event, ok bool) {
	in, ok := s.sink.(finder)
	raw, err := hex.DecodeString(id)
	if !ok || err != nil || len(raw) != 16 {
		return e, false
	}
	ms := int64(0) // an ID begins with its time: see weir.Bill.GiveID
	for _, b := range raw[:6] {
		ms = ms<<8 | int64(b)
	}
	return in.find(ctx, hex.EncodeToString(raw), time.UnixMilli(ms))
}

// Entries of a stream are sorted by when they were written, which is soon after
// the decision unless the stream was away; clocks may differ.
const (
	findBefore = 5 * time.Second
	findAfter  = time.Minute
	findPage   = 1000
	findPages  = 50
)

// find looks from the time of the decision onwards, and then back from it, since in a
// flood more events stand in those seconds than are looked through.
func (s *redisSink) find(ctx context.Context, id string, at time.Time) (none Event, ok bool) {
	client, err := s.conn.Client()
	if err != nil {
		return none, false
	}
	stamp := func(t time.Time) string { return strconv.FormatInt(max(0, t.UnixMilli()), 10) }
	for _, way := range [...][3]string{
		{"XRANGE", stamp(at), stamp(at.Add(findAfter))},
		{"XREVRANGE", stamp(at), stamp(at.Add(-findBefore))},
	} {
		from := way[1]
		for range findPages {
			page := client.B().Arbitrary(way[0]).Keys(s.o.Key).Args(from, way[2], "COUNT", strconv.Itoa(findPage)).Build()
			entries, err := client.Do(ctx, page).AsXRange()
			if err != nil {
				return none, false
			}
			for _, entry := range entries {
				if entry.FieldValues["id"] == id {
					e, err := FromFields(entry.FieldValues)
					return e, err == nil
				}
			}
			if len(entries) < findPage {
				break
			}
			from = "(" + entries[len(entries)-1].ID
		}
	}
	return none, false
}
