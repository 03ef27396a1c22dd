package redisstore

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/redisconn"
)

// Options configures a store. The zero value is right for production.
type Options struct {
	// Prefix separates deployments that share a Redis; "weir" if empty. At most 64
	// bytes, no braces or spaces.
	Prefix string
	// Secret, if set, makes every stored key an HMAC of the caller's. All
	// instances on one prefix must use the same, or Open and Check fail.
	Secret []byte
	// Timeout bounds a decision, queueing included; DefaultTimeout if 0.
	Timeout time.Duration
	// Senders is how many script calls may be out at a time, 3 if 0.
	Senders int
	// Clock replaces the server's clock, in tests and simulations alone:
	// microseconds since the Unix epoch. The daemon never sets it.
	Clock func() int64
	// Conn is what a URL cannot carry.
	Conn redisconn.Settings
	// Through, if set, returns what script calls go through on their way to the
	// client, such as the faults of a drill.
	Through func(Scripter) Scripter
	// Notify is told, on a goroutine of its own, when the server goes away and
	// when it is back.
	Notify func(Health)
	// OnFlight is told of every script call that decides, on the goroutine that
	// sent it, or nil. It must not block.
	OnFlight func(Flight)
}

// DefaultTimeout is how long a decision may take unless Options says otherwise.
const DefaultTimeout = 50 * time.Millisecond

const (
	defaultPrefix  = "weir"
	maxPrefix      = 64 // bytes
	defaultSenders = 3

	patience = 2 * time.Second // for the server at start
)

// Store keeps balances in Redis. It is safe for concurrent use.
type Store struct {
	scripter Scripter
	calls    Scripter // scripter, or what stands in front of it
	keys     keyer
	options  Options
	scripts  atomic.Pointer[scripts] // declared, or plain on Redis 6.2
	plain    scripts

	// A single server has one line for everything. A cluster has one per group
	// of keys in use, since a script call stays within a slot.
	cluster bool
	mu      sync.Mutex // guards making lines and closing
	lines   [groups]atomic.Pointer[line]
	closed  bool

	giving   sync.WaitGroup // back what bills over several groups charged
	unknown  atomic.Int64   // bills whose outcome is not known
	requests sync.Pool
	seed     maphash.Seed // of questions
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

// New returns a store over a client that the caller brings, to a single server
// or one under Sentinel. The store closes it.
func New(s Scripter, o Options) (*Store, error) { return newStore(s, false, o) }

func newStore(scripter Scripter, cluster bool, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if len(o.Prefix) > maxPrefix || strings.ContainsAny(o.Prefix, "{} \t\r\n") {
		return nil, &weir.InputError{Field: "key_prefix", Problem: "must have 1 to 64 characters and no braces or spaces: braces would move every key into one cluster slot"}
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Senders <= 0 {
		o.Senders = defaultSenders
	}
	s := &Store{
		scripter: scripter, calls: scripter, cluster: cluster, options: o,
		keys: keyer{prefix: o.Prefix, secret: o.Secret}, seed: maphash.MakeSeed(),
	}
	if o.Through != nil {
		s.calls = o.Through(scripter)
	}
	s.requests.New = newRequest
	declared := composeScripts(o.Clock != nil, false)
	s.scripts.Store(&declared)
	s.plain = composeScripts(o.Clock != nil, true)
	return s, s.begin()
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
		return errors.Join(err, s.closeLines())
	}
	s.line(0).breaker.record(&weir.StoreError{Kind: se.Kind, Err: se.Err, Unreachable: true})
	return nil
}

// Check asks the server everything the store needs of it and says what is
// missing: whether the script runs, whether it may write, and whether the
// instances already on this prefix use the same key secret.
func (s *Store) Check(ctx context.Context) error { return s.line(0).check(ctx) }

// Health says whether the server can be used, as far as is known; of a cluster,
// whether all of it can.
func (s *Store) Health() Health {
	worst := Health{Up: true}
	for i := range s.lines {
		if l := s.lines[i].Load(); l != nil {
			h := l.breaker.health()
			if worst.Up && (!h.Up || h.Since.After(worst.Since)) {
				worst = h
			}
		}
	}
	return worst
}

// Unknown returns how many bills ended without the store's answer and may have
// been charged all the same. Nothing is ever sent again for them.
func (s *Store) Unknown() int64 { return s.unknown.Load() }

// Caps implements weir.Store.
func (s *Store) Caps() weir.Caps {
	return weir.Caps{
		Source: "redis", AcrossKeys: !s.cluster, Shared: true, ServerClock: true, MaxCharges: algo.MaxCharges,
		Verbs: []algo.Verb{algo.Take, algo.Peek, algo.Refund, algo.Reset, algo.Block, algo.Repay},
	}
}

// line returns the line of a group, made at its first use.
func (s *Store) line(group uint16) *line {
	if !s.cluster {
		group = 0
	}
	if l := s.lines[group].Load(); l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[group].Load()
	if l == nil {
		l = newLine(s, group)
		if s.closed {
			l.close()
		}
		s.lines[group].Store(l)
	}
	return l
}

// Close answers what is queued, waits for what is out and closes the client.
func (s *Store) Close() error {
	err := s.closeLines()
	s.giving.Wait()
	return errors.Join(err, s.scripter.Close())
}

// later does something that nobody waits for but Close.
func (s *Store) later(do func()) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.giving.Go(do)
	}
	s.mu.Unlock()
	if closed {
		do()
	}
}

func (s *Store) closeLines() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for i := range s.lines {
		if l := s.lines[i].Load(); l != nil {
			l.close()
		}
	}
	return nil
}

// Apply implements weir.Store. Many bills are decided in their order, a flight's
// worth at a time: sent all at once, one large batch would take the queue's time
// from everybody else. On a cluster each group's bills go their own way.
func (s *Store) Apply(ctx context.Context, bills []*weir.Bill) {
	if len(bills) == 1 {
		if bal := plain(bills[0]); bal != nil {
			s.takes(ctx, bills[0], bal)
			return
		}
	}
	if slices.ContainsFunc(bills, asksNothing) {
		bills = settleFree(bills)
	}
	if len(bills) <= 1 || !s.cluster {
		s.inOrder(ctx, bills)
		return
	}
	s.byGroup(ctx, bills)
}

// asksNothing reports whether a bill has no balance, all its limits being unlimited:
// there is nothing that a script could be asked about it.
func asksNothing(b *weir.Bill) bool { return len(b.Balances()) == 0 && b.Verb <= algo.Peek }

// settleFree settles the bills that ask nothing and returns the others.
func settleFree(bills []*weir.Bill) []*weir.Bill {
	others := make([]*weir.Bill, 0, len(bills))
	for _, b := range bills {
		if asksNothing(b) {
			b.Settle("redis")
		} else {
			others = append(others, b)
		}
	}
	return others
}

// byGroup decides bills on a cluster: each group's on its way, in their order.
func (s *Store) byGroup(ctx context.Context, bills []*weir.Bill) {
	var groups sync.WaitGroup
	for _, some := range s.split(bills) {
		groups.Go(func() { s.inOrder(ctx, some) })
	}
	groups.Wait()
}

// inOrder decides bills a flight's worth after the other.
func (s *Store) inOrder(ctx context.Context, bills []*weir.Bill) {
	for len(bills) > 0 {
		n := s.together(bills)
		s.one(ctx, bills[:n])
		bills = bills[n:]
	}
}

// split splits bills by group, in their order. A bill over several groups
// stands with those of its first.
func (s *Store) split(bills []*weir.Bill) (split [][]*weir.Bill) {
	at := make(map[uint16]int)
	for _, b := range bills {
		group, _ := s.groupOf(b)
		i, ok := at[group]
		if !ok {
			i = len(split)
			at[group], split = i, append(split, nil)
		}
		split[i] = append(split[i], b)
	}
	return split
}

// one decides bills that go together.
func (s *Store) one(ctx context.Context, bills []*weir.Bill) {
	if bills[0].Verb > algo.Peek {
		s.command(ctx, bills[0])
		return
	}
	group, one := s.groupOf(bills[0])
	if !one {
		s.span(ctx, bills[0])
		return
	}
	s.decide(ctx, group, bills)
}

// groupOf returns the line's group of a bill, and whether it needs only one.
func (s *Store) groupOf(b *weir.Bill) (group uint16, one bool) {
	if !s.cluster {
		return 0, true
	}
	balances := b.Balances()
	for i := range balances {
		g := s.keys.group(balances[i].Charge)
		if i > 0 && g != group {
			return group, false
		}
		group = g
	}
	return group, true
}

// together returns how many bills from the front go together: takes and peeks on
// one line, up to the weight of a flight; any other bill goes by itself.
func (s *Store) together(bills []*weir.Bill) int {
	weight, most := 0, maxWeight
	var first uint16
	for n, b := range bills {
		group, one := s.groupOf(b)
		alone := b.Verb > algo.Peek || !one
		if n == 0 {
			if first = group; alone {
				return 1
			}
			most = s.line(group).paced.weighs()
		}
		for i := range b.Charges {
			weight += weightOf(b.Charges[i].Limit.Kind(), b.Charges[i].Limit.Units())
		}
		if n > 0 && (alone || group != first || weight > most) {
			return n
		}
	}
	return len(bills)
}
