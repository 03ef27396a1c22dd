// Package stream writes decisions down as events, in a Redis stream or in a file,
// for analytics and billing.
//
//	decisions ─▶ Observe ─▶ buffer │ ─▶ writer (one goroutine) ─▶ Redis stream | file
//	                 full: counted ┘            not taken: again, until it is
//
// Nobody who asks for a decision ever waits for an event: Observe copies what the
// event needs into a buffer of fixed size, and counts what does not fit. There
// are two buffers: the writer takes the full one and leaves an empty one.
//
// What Redis did not answer is written again, so an event may stand in the stream
// twice; its ID tells. An event is lost only where the counter says so.
package stream

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// Sink takes events.
type Sink interface {
	// Write writes the events and returns how many from the front were. It is
	// called again with those that were not.
	Write(ctx context.Context, events []Event) (written int, err error)
	Close() error
}

// Options configures New.
type Options struct {
	Admitted int    // how many of 10,000 admitted decisions are written; refusals all are
	Instance string // names this process in its events
	Secret   []byte // makes key hashes; see observe.KeyHash
	Buffer   int    // events that wait for the sink at most; 16,384 if 0
	// OnError is told when the sink does not take events, once in a while, or nil.
	OnError func(error)
}

const (
	defaultBuffer = 16384
	flightEvents  = 512 // handed to the sink at a time
	lastTry       = 3 * time.Second
	pauseLeast    = 50 * time.Millisecond
	pauseMost     = 2 * time.Second
	errorEvery    = time.Minute
)

// Stream is a weir.Observer. It is safe for concurrent use.
type Stream struct {
	o    Options
	sink Sink

	mu     sync.Mutex // guards the rest; never held while writing
	filled buffer     // that Observe writes into
	closed bool

	wake    chan struct{} // something is in filled
	stop    chan struct{}
	end     time.Time // when the last try is over; the writer's
	writer  sync.WaitGroup
	written atomic.Int64
	dropped atomic.Int64
}

// buffer keeps its records, and the room of their keys, from one use to the next.
type buffer struct {
	records []record
	used    int
}

// record is an event before its key is hashed and its numbers are written out.
type record struct {
	id                                        [16]byte
	key                                       []byte
	rule, tenant, plan, route, reason, source string
	at                                        int64 // milliseconds
	cost                                      int64
	allowed, keyed                            bool
}

// New starts the writer. Close ends it and closes the sink.
func New(sink Sink, o Options) *Stream {
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	s := &Stream{o: o, sink: sink, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	s.writer.Go(s.write)
	return s
}

// Written returns how many events the sink took.
func (s *Stream) Written() int64 { return s.written.Load() }

// Dropped returns how many events were lost.
func (s *Stream) Dropped() int64 { return s.dropped.Load() }

// Observe implements weir.Observer.
func (s *Stream) Observe(_ context.Context, e weir.Event) {
	b := e.Bill
	if b.Verb != algo.Take || b.Allowed && (s.o.Admitted == 0 || s.o.Admitted < 10_000 && rand.IntN(10_000) >= s.o.Admitted) {
		return
	}
	note := observe.NoteOf(&e)
	details := observe.DetailsOf(note)
	at := time.Now().UnixMilli()
	s.mu.Lock()
	var r *record
	if !s.closed { // a record that is taken is written
		r = s.filled.next(s.o.Buffer)
	}
	if r == nil {
		s.mu.Unlock()
		s.dropped.Add(1)
		return
	}
	r.id, r.at, r.allowed = b.ID, at, b.Allowed
	r.rule, r.tenant, r.plan = observe.Rule(note, b), details.TenantName(), details.PlanName()
	r.route, r.reason, r.source = details.RouteName(int(b.Binding)), b.Reason.String(), b.Source
	r.cost, r.keyed = 0, false
	if c := observe.Charge(b); c != nil {
		r.cost, r.keyed = c.Cost, true
		r.key = append(r.key[:0], c.Key...)
	}
	first := s.filled.used == 1
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default: // the writer is awake
		}
	}
}

// next returns the next record to fill, or nil if most are.
func (b *buffer) next(most int) *record {
	switch {
	case b.used == most:
		return nil
	case b.used == len(b.records):
		b.records = append(b.records, record{})
	}
	b.used++
	return &b.records[b.used-1]
}

// write is the writer.
func (s *Stream) write() {
	var empty buffer
	events := make([]Event, 0, flightEvents)
	given := false // up: at the end the sink took nothing at the last try
	for open := true; open; {
		select {
		case <-s.wake:
		case <-s.stop:
			open = false
		}
		s.mu.Lock()
		full := s.filled
		s.filled = empty
		s.mu.Unlock()
		for from := 0; from < full.used; from += flightEvents {
			if given {
				s.dropped.Add(int64(full.used - from))
				break
			}
			events = events[:0]
			for i := from; i < min(from+flightEvents, full.used); i++ {
				events = append(events, s.event(&full.records[i]))
			}
			given = !s.deliver(events)
		}
		full.used = 0
		empty = full
	}
}

// event writes a record out.
func (s *Stream) event(r *record) Event {
	e := Event{
		TimeMS: r.at, Instance: s.o.Instance, Rule: r.rule, Tenant: r.tenant, Plan: r.plan, Route: r.route,
		Cost: r.cost, Allowed: r.allowed, Reason: r.reason, Source: r.source, Weight: 1,
	}
	if r.allowed {
		e.Weight = 10_000 / float64(s.o.Admitted)
	}
	if r.keyed {
		e.KeyHash = observe.KeyHash(s.o.Secret, string(r.key))
	}
	if r.id == [16]byte{} { // an admitted bill has no ID; as Bill.GiveID makes one
		binary.BigEndian.PutUint64(r.id[:8], uint64(r.at)<<16|rand.Uint64()>>48)
		binary.BigEndian.PutUint64(r.id[8:], rand.Uint64())
	}
	e.ID = hex.EncodeToString(r.id[:])
	return e
}

// deliver writes events until they are written, or until the end and a last try,
// and reports whether they are. What is not written of them is counted.
func (s *Stream) deliver(events []Event) bool {
	pause := pauseLeast
	var told time.Time
	for len(events) > 0 {
		ending, until := false, time.Now().Add(lastTry)
		select {
		case <-s.stop:
			if ending = true; s.end.IsZero() {
				s.end = until
			}
			until = s.end
		default:
		}
		if ending && !time.Now().Before(until) { // it takes what it is given, too slowly
			s.dropped.Add(int64(len(events)))
			return false
		}
		ctx, cancel := context.WithDeadline(context.Background(), until)
		n, err := s.sink.Write(ctx, events)
		cancel()
		s.written.Add(int64(n))
		if events = events[n:]; err == nil || len(events) == 0 {
			continue
		}
		if ending {
			s.dropped.Add(int64(len(events)))
			return false
		}
		if s.o.OnError != nil && time.Since(told) > errorEvery {
			told = time.Now()
			s.o.OnError(err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
		}
		pause = min(2*pause, pauseMost)
	}
	return true
}

// Close writes what is buffered, once more if the sink does not take it, and
// closes the sink. All of that takes three seconds, and as much again for a write
// that was under way. What is left counts as dropped.
func (s *Stream) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	close(s.stop)
	s.writer.Wait()
	return s.sink.Close()
}
