package redisstore

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/batch"
)

const (
	maxQueued = 64 * maxWeight // waiting on one line
	minProbe  = 250 * time.Millisecond
	mostDesks = 8 // of a line: many lines have one each on a cluster
)

// line is the way to one place where scripts run: a server, or a slot of a
// cluster. It has a queue, a breaker and what is known of the clock there.
type line struct {
	store   *Store
	group   uint16
	queue   *batch.Queue[*request]
	flights chan *flight // idle buffers, one per sender
	breaker breaker
	paced   pace           // how fast the server is
	asking  sync.WaitGroup // the questions to it about that
	offset  atomic.Int64   // its clock minus ours in µs, at least; 0 until known
}

func newLine(s *Store, group uint16) *line {
	o := &s.options
	l := &line{store: s, group: group, flights: make(chan *flight, o.Senders)}
	for range o.Senders {
		l.flights <- newFlight()
	}
	// Alone on the line, a probe may take longer than a decision.
	l.breaker.probe, l.breaker.notify, l.breaker.within = l.probe, o.Notify, max(o.Timeout, minProbe)
	l.queue = batch.New(batch.Options[*request]{
		Send: l.send, Desks: min(mostDesks, 2*runtime.GOMAXPROCS(0)), Senders: o.Senders, MaxWeight: maxWeight, MaxQueued: maxQueued, Timeout: o.Timeout,
	})
	return l
}

func (l *line) close() {
	l.queue.Close()
	l.asking.Wait()
	l.breaker.end()
}

// ask sends a request in some flight and waits for it.
func (l *line) ask(ctx context.Context, r *request, weight int) *weir.StoreError {
	if se := l.breaker.admit(); se != nil {
		return se
	}
	return l.outcome(ctx, l.queue.Do(ctx, r, weight, r.lane))
}

// outcome is what came of a call that ended with err under its caller's ctx.
func (l *line) outcome(ctx context.Context, err error) *weir.StoreError {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // known not to be charged if it was never sent
		var flight *weir.StoreError // may have ended by a deadline of its own
		unknown := errors.Is(err, batch.ErrUnknown) || errors.As(err, &flight) && flight.Unknown
		return &weir.StoreError{Kind: "canceled", Err: ctx.Err(), Unknown: unknown}
	}
	return storeError(err)
}

// send carries out a flight, on a sender's goroutine, and tells the breaker.
func (l *line) send(requests []*request, seats []int, deadline time.Time) error {
	for i, r := range requests {
		r.seats = seats[i]
	}
	f := <-l.flights
	defer func() { l.flights <- f }()
	// A flight may have left late because others were long. It still gets the
	// whole time for its trip, so that a full queue is not taken for a server
	// that is away; past the deadline the script charges nothing and says so.
	ctx, cancel := context.WithTimeout(context.Background(), l.store.options.Timeout)
	defer cancel()
	began := time.Now()
	refused, err := l.fly(ctx, f, requests, deadline)
	if errors.Is(err, errMoving) {
		refused, err = l.apart(ctx, requests, deadline)
	}
	switch {
	case err != nil:
		se := storeError(err)
		l.breaker.record(se)
		l.store.observed(requests, deadline, began, se.Kind)
		return se
	case refused != "": // what needs no write was answered; the server is out of use all the same
		se := replyError(refused)
		l.breaker.record(se)
		l.store.observed(requests, deadline, began, se.Kind)
	default:
		l.breaker.record(nil)
		l.store.observed(requests, deadline, began, "")
		if l.paced.flown(requests) {
			l.asking.Go(l.keepPace)
		}
	}
	return nil
}

// fly carries a flight out. It returns the server's word where that answered and
// refused the writes.
func (l *line) fly(ctx context.Context, f *flight, requests []*request, deadline time.Time) (refused string, err error) {
	for attempt := 0; ; attempt++ {
		f.reset(requests)
		keys, body, which := f.encode(l.notAfter(deadline))
		reply, err := l.store.run(ctx, take, keys, []string{body, which})
		if err != nil {
			text, ok := refusal(err)
			switch {
			case isMoving(text):
				return "", errMoving
			case ok:
				return "", replyError(text)
			}
			return "", err
		}
		now, refused, err := f.decode(reply)
		if err != nil {
			return "", &weir.StoreError{Kind: "other", Err: err, Unknown: true}
		}
		l.learn(now)
		if refused != "STALE" {
			return refused, nil
		}
		// Nothing was charged. If our own time is not up, the store's clock was
		// stepped, and is known again now.
		if attempt > 0 || !time.Now().Before(deadline) {
			return "", replyError(refused)
		}
	}
}

// expected returns what the clock there should read, in microseconds.
func (l *line) expected() int64 {
	if clock := l.store.options.Clock; clock != nil {
		return clock()
	}
	return time.Now().UnixMicro() + l.offset.Load()
}

// notAfter is the deadline on the store's clock, past which a script that waited
// in a stalled server must not charge: its answer was given long ago.
func (l *line) notAfter(deadline time.Time) int64 {
	offset := l.offset.Load()
	if l.store.options.Clock != nil || offset == 0 {
		return 0
	}
	// Of deadline only how far away it is: it was reckoned from when the queue began, and
	// this machine's clock may have been set since.
	return time.Now().UnixMicro() + time.Until(deadline).Microseconds() + offset
}

// learn takes the offset of the clock there from a reply. The clock was read
// before the reply came, so the figure errs towards charging less.
func (l *line) learn(now int64) {
	offset := now - time.Now().UnixMicro()
	if offset == 0 {
		offset = -1 // 0 is unknown
	}
	l.offset.Store(offset)
}

// probe is the breaker's: check, but where a primary was before and a replica is
// now, over new connections, which may lead to another server. Of the old ones
// some may lead there already, so that it is not enough that check succeeds.
func (l *line) probe(ctx context.Context) error {
	if c, ok := l.store.scripter.(connScripter); ok && !l.store.cluster && demoted(l.breaker.admit()) {
		c.conn.Renew()
	}
	return l.check(ctx)
}

// check runs the script on nothing, then writes: it compares the fingerprint of
// the key secret with the one kept there.
func (l *line) check(ctx context.Context) error {
	s := l.store
	nothing := []string{emptyBatch, ""}
	mark := []string{s.keys.mark(l.group, s.cluster)}
	_, err := s.run(ctx, take, nil, nothing)
	if text, ok := refusal(err); ok && strings.Contains(text, "near '#'") {
		s.scripts.Store(&s.plain) // Redis 6.2 does not know declared scripts
		_, err = s.run(ctx, take, nil, nothing)
	}
	if err != nil {
		return explain(err)
	}
	got, err := s.run(ctx, fingerprint, mark, []string{s.keys.fingerprint()})
	if err != nil {
		return explain(err)
	}
	if got != s.keys.fingerprint() {
		return &weir.StoreError{Kind: "secret", Err: errors.New(
			"key_secret_file differs from that of the instances already on this key_prefix; use the same secret or another prefix")}
	}
	return nil
}

// explain makes an error of check fit for the log at start: it was about no
// caller's key, so the server's own words may be shown.
func explain(err error) error {
	text, ok := refusal(err)
	if !ok {
		return storeError(err)
	}
	se := replyError(text)
	se.Err = errors.New(text)
	return se
}

// emptyBatch asks the take script for nothing: no deadline, no runs, no bills.
var emptyBatch = string(appendInt(appendInt(appendInt(appendArray(nil, 3), 0), 0), 0))

// run calls a script. Sending again is right only where the server says that it
// did not run the script at all: it does not know it yet, or it refuses writes,
// in which case the plain text gets the answers that need none.
func (s *Store) run(ctx context.Context, which func(*scripts) *script, keys, args []string) (string, error) {
	if s.options.Clock != nil {
		args = append(args, formatInt(s.options.Clock()))
	}
	known := s.scripts.Load()
	reply, err := s.call(ctx, which(known), keys, args)
	if err != nil && known != &s.plain && refusesWrites(err) {
		return s.call(ctx, which(&s.plain), keys, args)
	}
	return reply, err
}

// call calls a script by its hash, and by its text where the server does not
// know the hash.
func (s *Store) call(ctx context.Context, sc *script, keys, args []string) (string, error) {
	reply, err := s.calls.EvalSHA(ctx, sc.sha, keys, args)
	if err != nil && isNoScript(err) {
		return s.calls.Eval(ctx, sc.text, keys, args)
	}
	return reply, err
}

func take(s *scripts) *script        { return &s.take }
func commandText(s *scripts) *script { return &s.command }
func fingerprint(s *scripts) *script { return &s.fingerprint }
func instances(s *scripts) *script   { return &s.instances }
func mark(s *scripts) *script        { return &s.mark }
func load(s *scripts) *script        { return &s.load }

func refusesWrites(err error) bool {
	text, ok := refusal(err)
	return ok && (strings.HasPrefix(text, "NOREPLICAS") || strings.HasPrefix(text, "READONLY") || strings.HasPrefix(text, "MISCONF"))
}

func isNoScript(err error) bool {
	text, ok := refusal(err)
	return ok && strings.HasPrefix(text, "NOSCRIPT")
}
