package stream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/redisconn"
)

// RedisOptions configures ToRedis.
type RedisOptions struct {
	Key    string        // of the stream
	MaxLen int64         // about how many entries are kept; 1,000,000 if this and MaxAge are 0
	MaxAge time.Duration // how long entries are kept, instead
	Conn   redisconn.Settings
}

const defaultMaxLen = 1_000_000

// redisSink writes to a stream over a connection of its own, so that a flood of
// events never stands in front of a decision.
type redisSink struct {
	conn *redisconn.Conn
	o    RedisOptions
}

// ToRedis returns a sink that appends to a stream in the Redis at url.
func ToRedis(url string, o RedisOptions) (Sink, error) {
	o.Conn.Response = max(o.Conn.Response, lastTry)
	o.Conn.CacheBytes = 0
	conn, err := redisconn.Open(url, o.Conn)
	if err != nil {
		return nil, err
	}
	if o.MaxLen == 0 && o.MaxAge == 0 {
		o.MaxLen = defaultMaxLen
	}
	return &redisSink{conn, o}, nil
}

// Write implements Sink. Commands are pipelined in order. The first that fails
// ends what counts as written: those behind it may have been carried out, and
// will stand in the stream twice.
func (s *redisSink) Write(ctx context.Context, events []Event) (written int, err error) {
	client, err := s.conn.Client()
	if err != nil {
		return 0, err
	}
	commands := make(rueidis.Commands, len(events))
	for i := range events {
		commands[i] = s.add(client, &events[i])
	}
	for i, r := range client.DoMulti(ctx, commands...) {
		if err := s.conn.Came(r.Error()); err != nil {
			if refused, ok := rueidis.IsRedisErr(err); ok { // it may quote the key, which is ours
				err = errors.New(refused.Error())
			}
			return i, err
		}
	}
	return len(events), nil
}

func (s *redisSink) add(client rueidis.Client, e *Event) rueidis.Completed {
	c := client.B().Arbitrary("XADD").Keys(s.o.Key)
	if s.o.MaxAge > 0 {
		c = c.Args("MINID", "~", strconv.FormatInt(max(0, e.TimeMS-s.o.MaxAge.Milliseconds()), 10))
	} else {
		c = c.Args("MAXLEN", "~", strconv.FormatInt(s.o.MaxLen, 10))
	}
	return c.Args("*").Args(e.Fields()...).Build()
}

// Close implements Sink.
func (s *redisSink) Close() error { return s.conn.Close() }
