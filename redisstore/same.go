package redisstore

import (
	"context"
	"hash/maphash"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Callers who ask the same of one balance at once are one question, "how many of
// these". Within a flight that is what a run's ask is (flight.go); but a bill that
// travels by itself is encoded, queued, and told its answer by itself, which is most
// of what a hot key costs this side. So a plain take that finds the same one waiting
// sits down in it, and nothing is encoded:
//
//	take 1 of user:1 ─ nobody asks that ─▶ a request, hosted   (place 0)
//	take 1 of user:1 ─ that request waits ─▶ a seat in it      (place 1)
//	                     reply: "1 of 2 was debited" ─▶ place 0 is admitted, 1 is not
//
// Each has its own context, and its own answer by its place: remaining, delay,
// receipt. Bills with more to them (several balances, waits, trials, calendars whose
// periods depend on when they are asked) go by themselves.

// question is what a request asks, for others to compare theirs with. The text is a
// copy: the host's bill may be used again while a flight is out.
type question struct {
	cost  int64
	limit weir.Limit
	quota algo.Quota // what of the limit may be used: a layer may leave a part of it
	text  []byte     // key, space, group
	key   int        // bytes of text that are the key
	space int        // and the space
}

// forget empties it for another use.
func (q *question) forget() {
	q.limit = weir.Limit{}
	clear(q.text)
	q.text = q.text[:0]
}

// plain returns the balance of a bill that may be asked together with others, or nil.
func plain(b *weir.Bill) *weir.Balance {
	balances := b.Balances()
	if b.Verb != algo.Take || len(balances) != 1 || b.MaxWait != 0 {
		return nil
	}
	bal := &balances[0]
	if bal.Trial != 0 || bal.Never || bal.Cost == 0 || bal.Again != 0 || bal.Quota.Calendar != nil {
		return nil
	}
	return bal
}

// print returns what the question about bal is found by, never 0.
func (s *Store) print(bal *weir.Balance) uint64 {
	h := maphash.String(s.seed, bal.Charge.Key) ^ uint64(bal.Cost)*0x9E3779B97F4A7C15
	if bal.Charge.Space != "" { // each rule has one, and a request may fall under many
		h ^= maphash.String(s.seed, bal.Charge.Space) * 0xD6E8FEB86659FD93
	}
	return max(h, 1)
}

// set writes down what bal asks.
func (q *question) set(bal *weir.Balance) {
	c := bal.Charge
	q.cost, q.limit, q.quota = bal.Cost, c.Limit, bal.Quota
	q.text = append(append(append(q.text[:0], c.Key...), c.Space...), c.Group...)
	q.key, q.space = len(c.Key), len(c.Space)
}

// same reports whether bal asks just that.
func (q *question) same(bal *weir.Balance) bool {
	c := bal.Charge
	space := q.key + q.space
	return q.cost == bal.Cost && string(q.text[:q.key]) == c.Key && string(q.text[q.key:space]) == c.Space &&
		string(q.text[space:]) == c.Group && q.limit == c.Limit && q.quota == bal.Quota
}

// takes decides b, whose only balance is bal, together with others who ask the same.
// Callers wait in here, by the hundred: what it keeps on its stack goes through the
// caches for each of them, so nothing stands between it and Apply.
func (s *Store) takes(ctx context.Context, b *weir.Bill, bal *weir.Balance) {
	group := uint16(0)
	if s.cluster {
		group = s.keys.group(bal.Charge)
	}
	l, print := s.line(group), s.print(bal)
	if se := l.breaker.admit(); se != nil {
		s.fail(se, b)
		return
	}
	r, place, joined, err := l.queue.Join(ctx, print, func(r *request) bool { return r.asks.same(bal) })
	if !joined {
		s.hosts(ctx, l, b, bal, print)
		return
	}
	if se := l.outcome(ctx, err); se != nil {
		s.fail(se, b)
		return
	}
	s.settle(ctx, b, r, place)
}

// hosts asks for b in a request that others may join.
func (s *Store) hosts(ctx context.Context, l *line, b *weir.Bill, bal *weir.Balance, print uint64) {
	r := s.requests.Get().(*request)
	r.asks.set(bal)
	weight := r.add(b.Verb, b, nil, &s.keys, l.expected)
	shared, err := l.queue.Host(ctx, r, weight, r.lane, print)
	if se := l.outcome(ctx, err); se != nil {
		s.fail(se, b)
		if !se.Unknown && !shared { // else a flight may still write into it
			s.release(r)
		}
		return
	}
	s.settle(ctx, b, r, 0)
	if !shared { // else its guests still read it
		s.release(r)
	}
}

// settle gives b what came of r for the one at place.
func (s *Store) settle(ctx context.Context, b *weir.Bill, r *request, place int) {
	switch word := r.word(0, place); word {
	case "":
		r.fill(0, place, b, nil)
		b.Settle("redis")
	case moving:
		s.keyByKey(ctx, b)
	default:
		b.Err = replyError(word)
	}
}
