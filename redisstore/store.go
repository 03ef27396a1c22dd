package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/batch"
	"github.com/weirhq/weir/internal/redisconn"
)

// Options configures a store. The zero value is right for production.
type Options struct {
	// Prefix separates deployments that share a Redis; "weir" if empty. No braces.
	Prefix string
	// Secret, if set, makes every stored key an HMAC of the caller's. All
	// instances on one prefix must use the same, or Open and Check fail.
	Secret []byte
	// Timeout bounds a decision, queueing included; 50 ms if 0.
	Timeout time.Duration
	// Senders is how many script calls may be out at a time, 2 if 0.
	Senders int
	// Clock replaces the server's clock, in tests and simulations alone:
	// microseconds since the Unix epoch. The daemon never sets it.
	Clock func() int64
	// Conn is what a URL cannot carry.
	Conn redisconn.Settings
	// Notify is told, on a goroutine of its own, when the server goes away and
	// when it is back.
	Notify func(Health)
}

const (
	defaultPrefix  = "weir"
	defaultTimeout = 50 * time.Millisecond
	maxWeight      = 256
	maxQueued      = 64 * maxWeight
	maxCharges     = 32

	patience = 2 * time.Second        // for the server at start
	minProbe = 250 * time.Millisecond // for a probe: alone on the line, it may take longer than a decision
)

// Store keeps balances in Redis. It is safe for concurrent use.
type Store struct {
	scripter Scripter
	keys     keyer
	timeout  time.Duration
	clock    func() int64            // given time, or nil
	scripts  atomic.Pointer[scripts] // declared, or plain on Redis 6.2
	plain    scripts
	queue    *batch.Queue[*request]
	flights  chan *flight // idle buffers
	breaker  breaker
	cluster  bool

	offset  atomic.Int64 // store's clock minus ours in µs, at least; 0 until known
	stepped atomic.Int64
	unknown atomic.Int64
}

// Open connects to url, one of
//
//	redis://[user[:password]@]host:port[/db]   rediss://… (TLS)   unix:///path
//	redis+sentinel://host:port,host:port/master
//	redis+cluster://host:port,host:port
//
// A server that cannot be reached is no error: the store answers with errors,
// which the Limiter turns into the stated answers, and connects when it can. A
// server that answers and cannot be used (no permission, another key secret, too
// old) is an error.
func Open(url string, o Options) (*Store, error) {
	o.Conn.Response = max(o.Conn.Response, o.Timeout)
	conn, err := redisconn.Open(url, o.Conn)
	if err != nil {
		return nil, err
	}
	s, err := newStore(connScripter{rueidisScripter{conn.Client}, conn}, conn.Cluster(), o)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// connScripter closes the connection with the scripter.
type connScripter struct {
	rueidisScripter
	conn *redisconn.Conn
}

func (s connScripter) Close() error { return s.conn.Close() }

// New returns a store over a client that the caller brings. The store closes it.
func New(s Scripter, o Options) (*Store, error) { return newStore(s, false, o) }

func newStore(scripter Scripter, cluster bool, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, &weir.InputError{Field: "key_prefix", Problem: "must not hold { or }"}
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Senders <= 0 {
		o.Senders = 2
	}
	s := &Store{
		scripter: scripter, cluster: cluster,
		keys:    keyer{prefix: o.Prefix, secret: o.Secret},
		timeout: o.Timeout, clock: o.Clock,
		flights: make(chan *flight, o.Senders),
	}
	declared := composeScripts(s.clock != nil, false)
	s.scripts.Store(&declared)
	s.plain = composeScripts(s.clock != nil, true)
	s.breaker.probe, s.breaker.notify, s.breaker.within = s.Check, o.Notify, max(o.Timeout, minProbe)
	if err := s.begin(); err != nil {
		return nil, err
	}
	for range o.Senders {
		s.flights <- newFlight()
	}
	s.queue = batch.New(batch.Options[*request]{
		Send: s.send, Senders: o.Senders, MaxWeight: maxWeight, MaxQueued: maxQueued, Timeout: o.Timeout,
	})
	return s, nil
}

// begin asks the server whether it can be used. One that does not answer yet
// opens the breaker; one that refuses is an error.
func (s *Store) begin() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.Check(ctx)
	if err == nil {
		return nil
	}
	se := storeError(err)
	switch se.Kind {
	case "secret", "noperm", "other":
		return err
	}
	s.breaker.record(&weir.StoreError{Kind: se.Kind, Err: se.Err, Unreachable: true})
	return nil
}

// Health says whether the server can be used, as far as is known.
func (s *Store) Health() Health { return s.breaker.health() }

// Check runs the script on nothing, which needs every permission but those of
// the keys, and compares the fingerprint of the key secret with the one in
// Redis. It says what is missing.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.run(ctx, take, nil, []string{emptyBatch, ""})
	if text, ok := refusal(err); ok && strings.Contains(text, "near '#'") {
		s.scripts.Store(&s.plain)
		_, err = s.run(ctx, take, nil, []string{emptyBatch, ""})
	}
	if err != nil {
		return s.explain(err)
	}
	mark := s.keys.prefix + "1:{secret}"
	got, err := s.run(ctx, fingerprint, []string{mark}, []string{s.keys.fingerprint()})
	if err != nil {
		return s.explain(err)
	}
	if got != s.keys.fingerprint() {
		return &weir.StoreError{Kind: "secret", Err: errors.New(
			"key_secret_file differs from that of the instances already on this key_prefix; use the same secret or another prefix")}
	}
	return nil
}

// explain makes an error of Check fit for the log at start.
func (s *Store) explain(err error) error {
	if text, ok := refusal(err); ok {
		se := replyError(text)
		if se.Kind == "noperm" || se.Kind == "other" { // no key was sent but our own mark
			se.Err = errors.New(text)
		}
		return se
	}
	return storeError(err)
}

// emptyBatch asks the take script for nothing: no deadline, no runs, no bills.
var emptyBatch = string(appendInt(appendInt(appendInt(appendArray(nil, 3), 0), 0), 0))

// Caps implements weir.Store.
func (s *Store) Caps() weir.Caps {
	return weir.Caps{
		Source: "redis", AcrossKeys: !s.cluster, Shared: true, ServerClock: true, MaxCharges: maxCharges,
		Verbs: []algo.Verb{algo.Take, algo.Peek, algo.Refund, algo.Reset, algo.Block},
	}
}

// Close answers what is queued, waits for what is out and closes the client.
func (s *Store) Close() error {
	s.queue.Close()
	s.breaker.end()
	return s.scripter.Close()
}

// expected returns what the store's clock should read, in microseconds.
func (s *Store) expected() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now().UnixMicro() + s.offset.Load()
}

// Apply implements weir.Store.
func (s *Store) Apply(ctx context.Context, bills []*weir.Bill) {
	for len(bills) > 0 {
		n, weight := 0, 0
		r := new(request)
		for n < len(bills) && weight < maxWeight {
			if bills[n].Verb > algo.Peek {
				break
			}
			weight += r.add(bills[n], &s.keys, s.expected())
			n++
		}
		if n == 0 {
			s.command(ctx, bills[0])
			bills = bills[1:]
			continue
		}
		s.decide(ctx, bills[:n], r, weight)
		bills = bills[n:]
	}
}

// decide sends one request and settles its bills.
func (s *Store) decide(ctx context.Context, bills []*weir.Bill, r *request, weight int) {
	se := s.breaker.admit()
	if se == nil {
		if err := s.queue.Do(ctx, r, weight, r.lane); err != nil {
			se = storeError(err)
		}
	}
	if se != nil {
		if se.Unknown {
			s.unknown.Add(int64(len(bills)))
		}
		for _, b := range bills {
			b.Err = se
		}
		return
	}
	for i, b := range bills {
		switch status := r.parts[i].status; status {
		case "":
			r.settle(i, b)
		default:
			b.Err = replyError(status)
		}
	}
}

// send carries out a flight, on a sender's goroutine, and tells the breaker.
func (s *Store) send(requests []*request, deadline time.Time) error {
	f := <-s.flights
	defer func() { s.flights <- f }()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if err := s.fly(ctx, f, requests, deadline); err != nil {
		se := storeError(err)
		s.breaker.record(se)
		return se
	}
	s.breaker.record(nil)
	return nil
}

func (s *Store) fly(ctx context.Context, f *flight, requests []*request, deadline time.Time) error {
	for attempt := 0; ; attempt++ {
		f.reset(requests)
		keys, body, which := f.encode(s.notAfter(deadline))
		reply, err := s.run(ctx, take, keys, []string{body, which})
		if err != nil {
			if text, ok := refusal(err); ok {
				return replyError(text)
			}
			return err
		}
		now, refused, err := f.decode(reply)
		if err != nil {
			return &weir.StoreError{Kind: "other", Err: err, Unknown: true}
		}
		s.learn(now)
		if refused == "STALE" {
			// Nothing was charged. If our own time is not up, the store's clock
			// was stepped, and is known again now.
			if attempt == 0 && time.Now().Before(deadline) {
				continue
			}
			return replyError(refused)
		}
		return nil
	}
}

// notAfter is the deadline on the store's clock, past which a script that waited
// in a stalled server must not charge: its answer was given long ago.
func (s *Store) notAfter(deadline time.Time) int64 {
	offset := s.offset.Load()
	if s.clock != nil || offset == 0 {
		return 0
	}
	return deadline.UnixMicro() + offset
}

// learn takes the offset of the store's clock from a reply. The clock was read
// before the reply came, so the figure errs towards charging less.
func (s *Store) learn(now int64) {
	if s.clock != nil {
		return
	}
	offset := now - time.Now().UnixMicro()
	if offset == 0 {
		offset = -1
	}
	s.offset.Store(offset)
}

// run calls a script. Sending again is right only where the server says that it
// did not run the script at all: it does not know it yet, or it refuses writes,
// in which case the plain text gets the answers that need none.
func (s *Store) run(ctx context.Context, which func(*scripts) *script, keys, args []string) (string, error) {
	if s.clock != nil {
		args = append(args, formatInt(s.clock()))
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
	reply, err := s.scripter.EvalSHA(ctx, sc.sha, keys, args)
	if err != nil && isNoScript(err) {
		return s.scripter.Eval(ctx, sc.text, keys, args)
	}
	return reply, err
}

func take(s *scripts) *script        { return &s.take }
func commandText(s *scripts) *script { return &s.command }
func fingerprint(s *scripts) *script { return &s.fingerprint }

func refusesWrites(err error) bool {
	text, ok := refusal(err)
	return ok && (strings.HasPrefix(text, "NOREPLICAS") || strings.HasPrefix(text, "READONLY") || strings.HasPrefix(text, "MISCONF"))
}

func isNoScript(err error) bool {
	text, ok := refusal(err)
	return ok && strings.HasPrefix(text, "NOSCRIPT")
}
