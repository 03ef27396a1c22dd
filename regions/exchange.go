package regions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
)

// Books keeps a region's counters and balances. *redisstore.Store does; a
// simulation brings its own.
type Books interface {
	Consumed(*weir.Charge, *algo.Quota, *algo.View, int64) redisstore.Consumption
	Tell(context.Context, []*redisstore.Consumption) error
	Hear(ctx context.Context, region string, taken []*redisstore.Consumption) (map[*redisstore.Consumption]redisstore.Heard, error)
}

// Settings is what an Exchange knows of the regions.
type Settings struct {
	Region    string
	Peers     []string // the other regions
	Interval  time.Duration
	Lag       time.Duration        // how long a message takes at most, one way: bounds, and who is cut off, reckon with it
	Now       func() time.Duration // since any instant, monotonic; the process's own if nil
	ShareBeat time.Duration        // how often shares are looked after; a second if 0
	MostKeys  int                  // changed balances that are kept track of until every peer knows; 1,000,000 if 0
}

const (
	mostKeys  = 1_000_000
	shareBeat = time.Second
)

// account names one balance, and of a window one period of it.
type account struct {
	balance string
	start   int64
}

func accountOf(c *redisstore.Consumption) account { return account{c.Balance, c.Start} }

// kept is what is known of a balance that some peer has not acknowledged.
type kept struct {
	total redisstore.Consumption // since the last Tell
	owing int                    // times it is owed to a peer or on its way there
}

// Exchange adds up what this instance debits, says what each peer must hear and
// debits what peers say. It does no talking and has no clock: Service does and
// has, and a simulation. It is safe for concurrent use.
type Exchange struct {
	books    Books
	settings Settings
	shares   *shares

	mu      sync.Mutex // not held while books are asked
	pending map[account]*redisstore.Consumption
	known   map[account]*kept
	peers   map[string]*peer
	order   []string
	stats   Stats

	telling sync.Mutex // one Collect at a time
}

// Stats counts since the exchange began.
type Stats struct {
	Told      int64 // changed balances that were sent, each to each peer
	Heard     int64 // that were heard
	Debited   int64 // of those, that changed a balance here
	Unread    int64 // of those, that could not be debited here and were passed over
	Bytes     int64 // of payload sent
	Messages  int64 // sent
	Failed    int64 // messages that were not acknowledged
	Forgotten int64 // debits that were not told because too many keys wait to be
	Guessed   int64 // units debited for regions that are cut off
	Pending   int   // balances debited since the last Collect
	Owed      int   // balances that some peer has not heard of the last change of
	CutOff    int   // peers that are cut off

	// Slowest is the longest of the peers' last trips, there and back; 0 before
	// the first answer.
	Slowest time.Duration
}

// NewExchange returns an exchange over a region's books.
func NewExchange(books Books, s Settings) *Exchange {
	if s.Now == nil {
		began := time.Now()
		s.Now = func() time.Duration { return time.Since(began) + 1 }
	}
	if s.MostKeys <= 0 {
		s.MostKeys = mostKeys
	}
	if s.ShareBeat <= 0 {
		s.ShareBeat = shareBeat
	}
	e := &Exchange{
		books: books, settings: s, order: s.Peers,
		pending: map[account]*redisstore.Consumption{}, known: map[account]*kept{}, peers: map[string]*peer{},
	}
	e.shares = newShares(1+len(s.Peers), s.ShareBeat, s.Now)
	for _, name := range s.Peers {
		e.peers[name] = newPeer()
	}
	return e
}

// Add notes a debit of a limit that regions share. A Layer does it for who has one.
func (e *Exchange) Add(c redisstore.Consumption) {
	e.mu.Lock()
	defer e.mu.Unlock()
	who := accountOf(&c)
	if p := e.pending[who]; p != nil {
		p.Out += c.Out
		p.Back += c.Back
		p.N, p.Most = c.N, c.Most
		return
	}
	if len(e.pending)+len(e.known) >= e.settings.MostKeys && e.known[who] == nil {
		e.stats.Forgotten++
		return
	}
	e.pending[who] = &c
}

// Collect adds what was debited since the last time to the region's counters;
// afterwards it is due to every peer. What could not be added stays for the next
// time: it may then be counted twice, which errs to the careful side.
func (e *Exchange) Collect(ctx context.Context) error {
	e.telling.Lock()
	defer e.telling.Unlock()
	e.mu.Lock()
	taken := make([]*redisstore.Consumption, 0, len(e.pending))
	fresh := make([]redisstore.Consumption, 0, len(e.pending))
	for _, c := range e.pending {
		taken, fresh = append(taken, c), append(fresh, *c)
	}
	e.pending = map[account]*redisstore.Consumption{}
	now := e.settings.Now()
	e.mu.Unlock()
	var err error
	if len(taken) > 0 {
		err = e.books.Tell(ctx, taken)
	}
	e.mu.Lock()
	told := fresh[:0:0]
	for i, c := range taken {
		if c.Incarnation == "" {
			e.putBack(fresh[i])
			continue
		}
		e.due(c, now)
		told = append(told, fresh[i])
	}
	away := e.away(now)
	e.mu.Unlock()
	return errors.Join(err, e.guess(ctx, away, told))
}

// putBack makes a debit that could not be told pending again.
func (e *Exchange) putBack(c redisstore.Consumption) {
	if p := e.pending[accountOf(&c)]; p != nil {
		p.Out += c.Out
		p.Back += c.Back
		return
	}
	e.pending[accountOf(&c)] = &c
}

// due makes a total due to every peer.
func (e *Exchange) due(c *redisstore.Consumption, now time.Duration) {
	who := accountOf(c)
	k := e.known[who]
	if k == nil {
		k = &kept{}
		e.known[who] = k
	}
	k.total = *c
	for _, p := range e.peers {
		k.owe(p, who, now)
	}
	e.forget(who, k)
}

// owe makes a balance due to a peer, unless it is already.
func (k *kept) owe(p *peer, who account, since time.Duration) {
	if p.owe(who, since) {
		k.owing++
	}
}

// forget drops a balance that is owed to no peer any more.
func (e *Exchange) forget(who account, k *kept) {
	if k.owing == 0 {
		delete(e.known, who)
	}
}

// away returns the peers that are cut off: those that have not acknowledged what they
// should have long ago. One that acknowledges letters, of which more are due than the
// way to it carries, admits without knowing as one does that acknowledges nothing, and
// the bound counts on neither.
func (e *Exchange) away(now time.Duration) (names []string) {
	for _, name := range e.order {
		if e.peers[name].behind(now) > 2*(e.settings.Interval+e.settings.Lag) {
			names = append(names, name)
		}
	}
	return names
}

// guess debits, for each peer that is cut off, as much as was taken here.
func (e *Exchange) guess(ctx context.Context, away []string, told []redisstore.Consumption) error {
	var errs []error
	for _, name := range away {
		guesses := make([]*redisstore.Consumption, 0, len(told))
		units := int64(0)
		for _, c := range told {
			if c.Out > c.Back {
				c.Guess, c.Out, c.Back = true, c.Out-c.Back, 0
				c.Debt = e.debt(&c)
				units += c.Out
				guesses = append(guesses, &c)
			}
		}
		if len(guesses) == 0 {
			continue
		}
		if _, err := e.books.Hear(ctx, name, guesses); err != nil {
			errs = append(errs, err)
			continue
		}
		e.mu.Lock()
		e.stats.Guessed += units
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}

// debt is how far c's balance may be overdrawn: what the regions may admit before
// they know of each other.
func (e *Exchange) debt(c *redisstore.Consumption) int64 {
	r := policy.Regions{Count: 1 + len(e.order), Interval: e.settings.Interval, Lag: e.settings.Lag}
	return r.Beyond(c.Most, c.N, time.Duration(c.Period)*time.Microsecond)
}

// Hear debits what a peer says it took. Where the region's own store fails, the
// error says so and the letter is to be heard again.
func (e *Exchange) Hear(ctx context.Context, from string, taken []redisstore.Consumption) error {
	return e.debit(ctx, from, taken, false)
}

// debit is Hear for what is heard the first time, or again.
func (e *Exchange) debit(ctx context.Context, from string, taken []redisstore.Consumption, again bool) error {
	e.mu.Lock()
	p := e.peers[from]
	if p == nil {
		e.mu.Unlock()
		return nil // a region that this one does not know
	}
	all := make([]*redisstore.Consumption, 0, len(taken))
	for i := range taken {
		c := taken[i]
		c.Debt = e.debt(&c)
		all = append(all, &c)
	}
	e.mu.Unlock()
	outcome, err := e.books.Hear(ctx, from, all)
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, came := range outcome {
		if !again {
			e.stats.Heard++
		}
		switch came {
		case redisstore.HeardDebit:
			e.stats.Debited++
		case redisstore.HeardFault:
			e.stats.Unread++
		}
		// What came before its period waits, and is forgotten once it was heard: a
		// store that fails meanwhile loses nothing of it.
		old, held := p.early[accountOf(c)]
		newer := !held || old.Out <= c.Out
		if held && old.Incarnation != c.Incarnation {
			newer = !again // else what is held came while it was heard
		}
		switch {
		case came == redisstore.HeardEarly && newer && (held || len(p.early) < e.settings.MostKeys):
			p.early[accountOf(c)] = *c
		case came != redisstore.HeardEarly && held && newer:
			delete(p.early, accountOf(c))
		}
	}
	return err
}

// count notes a message of so many bytes.
func (e *Exchange) count(bytes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Messages++
	e.stats.Bytes += int64(bytes)
}

// Again hears what came before its period once more.
func (e *Exchange) Again(ctx context.Context) error {
	var errs []error
	for _, name := range e.order {
		e.mu.Lock()
		p := e.peers[name]
		taken := make([]redisstore.Consumption, 0, len(p.early))
		for _, c := range p.early {
			taken = append(taken, c)
		}
		e.mu.Unlock()
		if len(taken) > 0 {
			errs = append(errs, e.debit(ctx, name, taken, true))
		}
	}
	return errors.Join(errs...)
}

// Stats returns what was exchanged so far.
func (e *Exchange) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Pending, s.Owed = len(e.pending), len(e.known)
	for _, p := range e.peers {
		s.Slowest = max(s.Slowest, p.rtt)
	}
	s.CutOff = len(e.away(e.settings.Now()))
	return s
}
