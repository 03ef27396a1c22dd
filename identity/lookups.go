package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"sync/atomic"
	"time"
)

// LookupOptions bounds what a Lookups asks and keeps. Zero values stand for the
// defaults.
type LookupOptions struct {
	// PerNetwork and PerInstance are how many never-seen API keys are looked up
	// in a second, for one network of callers and in all: 5 and 500. Over it a
	// key is unresolved, and nobody is asked.
	PerNetwork, PerInstance int
	// Timeout ends a question to the directory: 50 ms.
	Timeout time.Duration
	// MaxKnown bounds how many keys, and how many tenants, are kept: 100,000.
	MaxKnown int
	// OnError, if set, hears of each question that failed, on the caller's
	// goroutine.
	OnError func(error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Lookups is a Directory with a cache and a budget in front. It is safe for
// concurrent use and outlives the Resolvers that use it, so that a reload of
// the policy forgets nothing.
type Lookups struct {
	directory Directory
	timeout   time.Duration
	maxKnown  int
	onError   func(error)
	now       func() time.Time
	start     time.Time
	budget    *budget
	keys      *answers[keySum, namedKey]
	tenants   *answers[string, TenantRecord]

	asked, failed, refused atomic.Uint64
}

// keySum is the SHA-256 of an API key. Keys are compared by it alone, so that
// the time a look-up takes says nothing about the keys there are.
type keySum [sha256.Size]byte

// namedKey is a record with the id it was found by.
type namedKey struct {
	KeyRecord
	id string
}

// LookupCounts says what a Lookups has done since it was made.
type LookupCounts struct {
	Asked   uint64 // questions to the directory
	Failed  uint64 // of these
	Refused uint64 // over the budget, not asked
	Known   int    // keys kept now
	Unknown int    // keys kept now as nobody's
}

// NewLookups puts a cache and a budget before a directory. Negative options are
// a *ConfigError.
func NewLookups(d Directory, o LookupOptions) (*Lookups, error) {
	if o.PerNetwork < 0 || o.PerInstance < 0 || o.Timeout < 0 || o.MaxKnown < 0 {
		return nil, &ConfigError{Field: "api_keys", Problem: "bounds of look-ups must not be negative"}
	}
	l := &Lookups{
		directory: d,
		timeout:   cmp.Or(o.Timeout, 50*time.Millisecond),
		maxKnown:  cmp.Or(o.MaxKnown, 100_000),
		onError:   o.OnError,
		now:       o.Now,
		budget:    newBudget(cmp.Or(o.PerNetwork, 5), cmp.Or(o.PerInstance, 500)),
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.start = l.now()
	l.keys = newAnswers[keySum, namedKey](l)
	l.tenants = newAnswers[string, TenantRecord](l)
	return l, nil
}

// Counts returns what was done so far.
func (l *Lookups) Counts() LookupCounts {
	c := LookupCounts{Asked: l.asked.Load(), Failed: l.failed.Load(), Refused: l.refused.Load()}
	l.keys.mu.RLock()
	defer l.keys.mu.RUnlock()
	c.Known, c.Unknown = len(l.keys.kept), len(l.keys.missed)+len(l.keys.older)
	return c
}

func (l *Lookups) clock() int64 { return int64(l.now().Sub(l.start)) }

func (l *Lookups) fail(err error) {
	l.failed.Add(1)
	if l.onError != nil {
		l.onError(err)
	}
}

// key looks up an API key. A listed one, which the configuration names, needs no
// budget.
func (l *Lookups) key(ctx context.Context, sum keySum, network netip.Prefix, listed bool) (answer[namedKey], error) {
	now := l.clock()
	if known, ok := l.keys.fresh(now, sum); ok {
		return known, nil
	}
	return l.keys.get(ctx, now, sum, question[namedKey]{
		ask: func(ctx context.Context) (namedKey, bool, error) {
			id := hex.EncodeToString(sum[:])
			record, ok, err := l.directory.APIKey(ctx, id)
			return namedKey{record, id}, ok, err
		},
		keep:    listed,
		allowed: func() bool { return l.budget.take(now, network) },
	})
}

// tenant looks up a tenant that a known key names.
func (l *Lookups) tenant(ctx context.Context, id string) (TenantRecord, error) {
	now := l.clock()
	known, ok := l.tenants.fresh(now, id)
	if ok {
		return known.value, nil
	}
	known, err := l.tenants.get(ctx, now, id, question[TenantRecord]{
		ask:  func(ctx context.Context) (TenantRecord, bool, error) { return l.directory.Tenant(ctx, id) },
		keep: true,
	})
	return known.value, err
}
