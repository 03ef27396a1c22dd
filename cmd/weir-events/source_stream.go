package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/observe/stream"
)

// A consumer group hands each entry to one consumer, which has it until it is
// acknowledged. What a consumer had when it was killed it asks for first when it
// is back; what one that does not come back had is claimed by another.

type streamOptions struct {
	key, group, name string
	claimAfter       time.Duration
	once             bool
}

type streamSource struct {
	streamOptions
	conn    *redisconn.Conn
	mine    string    // after which entry our own pending ones are asked for; "" when there are none
	out     bool      // a batch was handed out and is not acknowledged
	claimed time.Time // when others' were last looked for
	cursor  string    // where looking goes on
}

const (
	blockFor     = time.Second
	claimEvery   = 10 * time.Second
	answerWithin = 10 * time.Second
)

func openStream(ctx context.Context, url string, o streamOptions) (source, error) {
	conn, err := redisconn.Open(url, redisconn.Settings{Response: answerWithin})
	if err != nil {
		return nil, misuse("--store: %w", err)
	}
	s := &streamSource{streamOptions: o, conn: conn, mine: "0", cursor: "0"}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// create makes the group, from the first entry on, if it is not there.
func (s *streamSource) create(ctx context.Context) error {
	client, err := s.conn.Client()
	if err != nil {
		return err
	}
	err = client.Do(ctx, client.B().XgroupCreate().Key(s.key).Group(s.group).Id("0").Mkstream().Build()).Error()
	if refused, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(refused.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}

func (s *streamSource) next(ctx context.Context) (batch, error) {
	client, err := s.conn.Client()
	if err != nil {
		return batch{}, err
	}
	if s.out { // it was not kept, and is still ours: it comes again before anything else
		s.mine = "0"
	}
	entries, err := s.entries(ctx, client)
	err = s.conn.Came(err)
	if refused, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(refused.Error(), "NOGROUP") {
		s.out = false
		return batch{}, s.create(ctx) // the stream was removed
	}
	s.out = s.out || len(entries) > 0
	return batchOf(entries), err
}

// entries returns our own pending entries, then what others have had for too long,
// then what is new.
func (s *streamSource) entries(ctx context.Context, client rueidis.Client) ([]rueidis.XRangeEntry, error) {
	if s.mine != "" {
		entries, err := s.read(ctx, client, s.mine)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			s.mine = entries[len(entries)-1].ID
			return entries, nil
		}
		s.mine, s.out = "", false
	}
	if s.cursor != "0" || time.Since(s.claimed) > claimEvery {
		if entries, err := s.claim(ctx, client); err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	return s.read(ctx, client, ">")
}

// read reads what is new (">"), or what we have and is behind an entry.
func (s *streamSource) read(ctx context.Context, client rueidis.Client, after string) ([]rueidis.XRangeEntry, error) {
	builder := client.B().Xreadgroup().Group(s.group, s.name).Count(batchEvents)
	command := builder.Streams().Key(s.key).Id(after).Build()
	if after == ">" && !s.once {
		command = client.B().Xreadgroup().Group(s.group, s.name).Count(batchEvents).Block(blockFor.Milliseconds()).Streams().Key(s.key).Id(after).Build()
	}
	streams, err := client.Do(ctx, command).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return streams[s.key], err
}

// claim takes over what others have had for too long.
func (s *streamSource) claim(ctx context.Context, client rueidis.Client) ([]rueidis.XRangeEntry, error) {
	reply, err := client.Do(ctx, client.B().Xautoclaim().Key(s.key).Group(s.group).Consumer(s.name).
		MinIdleTime(formatMS(s.claimAfter)).Start(s.cursor).Count(batchEvents).Build()).ToArray()
	if err != nil || len(reply) < 2 {
		return nil, err
	}
	cursor, err := reply[0].ToString()
	if err != nil {
		return nil, err
	}
	if s.cursor, s.claimed = cursor, time.Now(); strings.HasPrefix(cursor, "0-0") {
		s.cursor = "0"
	}
	return redisconn.Claimed(&reply[1])
}

// batchOf reads entries. One that was removed from the stream before it was read
// has no fields, and is no event, as one that somebody else wrote is none.
func batchOf(entries []rueidis.XRangeEntry) (b batch) {
	for _, entry := range entries {
		b.entries = append(b.entries, entry.ID)
		e, err := stream.FromFields(entry.FieldValues)
		if err != nil {
			b.bad++
			continue
		}
		b.events = append(b.events, e)
	}
	return b
}

func (s *streamSource) acknowledge(ctx context.Context, b batch) error {
	client, err := s.conn.Client()
	if err != nil {
		return err
	}
	if err := client.Do(ctx, client.B().Xack().Key(s.key).Group(s.group).Id(b.entries...).Build()).Error(); err != nil {
		return err
	}
	s.out = false
	return nil
}

func (s *streamSource) close() error { return s.conn.Close() }
