// Package refusals remembers the last refusals of this process, so that whoever
// was refused can be told why.
package refusals

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// How many are remembered: shards of which each holds its latest.
const (
	shards = 16
	each   = 512

	// Most is how many refusals are remembered.
	Most = shards * each
)

// Refusals is a weir.Observer. It is safe for concurrent use.
type Refusals struct{ shards [shards]shard }

type shard struct {
	mu    sync.Mutex
	next  int
	slots [each]slot
	_     [40]byte
}

// slot is one refusal. Its texts reuse their room, since the bill's own may be in
// a buffer that is used again.
type slot struct {
	id               [16]byte
	key, group       []byte
	charge           weir.Charge // without the texts that stand above
	decision         weir.Decision
	rule, door       string
	tenant, plan     string
	decided, trouble bool // there is a charge; the store did not decide
}

// New returns an empty memory.
func New() *Refusals { return new(Refusals) }

// Observe implements weir.Observer.
func (r *Refusals) Observe(_ context.Context, e weir.Event) {
	b := e.Bill
	if b.Allowed || b.Verb != algo.Take {
		return
	}
	note := observe.NoteOf(&e)
	c := observe.Charge(b)
	s := &r.shards[b.ID[15]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &s.slots[s.next]
	s.next = (s.next + 1) % each
	one.id, one.decision, one.decided, one.trouble = b.ID, b.Decision, c != nil, b.Err != nil
	one.rule, one.door = observe.Rule(note, b), note.DoorName()
	details := observe.DetailsOf(note)
	one.tenant, one.plan = details.TenantName(), details.PlanName()
	if c == nil {
		return
	}
	one.key, one.group = append(one.key[:0], c.Key...), append(one.group[:0], c.Group...)
	one.charge = weir.Charge{Limit: c.Limit, Cost: c.Cost, Space: c.Space}
}

// ObserveAll implements observe.Batch.
func (r *Refusals) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	for _, b := range bills {
		if !b.Allowed {
			r.Observe(ctx, weir.Event{Bill: b, Elapsed: elapsed})
		}
	}
}

// Refusal is one that was remembered.
type Refusal struct {
	ID           string
	At           time.Time
	Door, Rule   string // Rule is the policy's; adhoc, or none where no rule refused
	Tenant, Plan string
	Charge       *weir.Charge // that refused, or nil if the request was refused without one
	weir.Decision
	Trouble bool // the store did not decide: the answer was the one that the limit states
}

// Find returns the refusal of an ID.
func (r *Refusals) Find(id string) (found Refusal, ok bool) {
	var want [16]byte
	if n, err := hex.Decode(want[:], []byte(strings.ToLower(id[:min(len(id), 32)]))); err != nil || n != 16 || len(id) != 32 || want == [16]byte{} {
		return found, false
	}
	s := &r.shards[want[15]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		one := &s.slots[i]
		if one.id != want {
			continue
		}
		found = Refusal{
			ID: id, At: IssuedAt(want), Door: one.door, Rule: one.rule, Tenant: one.tenant, Plan: one.plan,
			Decision: one.decision, Trouble: one.trouble,
		}
		if one.decided {
			c := one.charge
			c.Key, c.Group = string(one.key), string(one.group)
			found.Charge = &c
		}
		return found, true
	}
	return found, false
}

// IssuedAt returns when a refusal was given its ID.
func IssuedAt(id [16]byte) time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}
