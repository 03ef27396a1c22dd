package rls

import (
	"context"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// call is one request while it is answered.
type call struct {
	domain   *rlsconfig.Domain
	asked    []asked
	bills    []bill
	pointers []*weir.Bill
	key      []byte
	levels   []*rlsconfig.Descriptor
	names    map[string]bool
}

// bill is a bill and the Note on it, which tells observers of its rules.
type bill struct {
	weir.Bill
	rules []*rlsconfig.Rule
}

// DoorName names the door.
func (*bill) DoorName() string { return "grpc" }

// RuleName names the rule of charge i by its place in the file.
func (b *bill) RuleName(i int) string {
	switch {
	case i < 0 || i >= len(b.rules):
		return ""
	case b.rules[i].Label == "":
		return "override" // by a request: what callers state themselves is one rule
	}
	return b.rules[i].Label
}

// RouteName returns nothing: there are no paths here.
func (*bill) RouteName(int) string { return "" }

// IsTry returns false: there are no tries here.
func (*bill) IsTry(int) bool { return false }

// TenantName returns nothing: descriptors know no tenants.
func (*bill) TenantName() string { return "" }

// PlanName returns nothing: descriptors know no plans.
func (*bill) PlanName() string { return "" }

// asked is one descriptor of a request.
type asked struct {
	rule   *rlsconfig.Rule // nil for none
	counts *Counts         // nil for none
	hits   int64
	refund bool
	bill   int // index in bills, -1 for none
	charge int // index in its charges
	left   int64
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release forgets the request and keeps the room.
func (c *call) release() {
	for i := range c.bills {
		b := &c.bills[i]
		clear(b.Charges)
		clear(b.rules)
		b.Charges, b.rules, b.Note, b.Err, b.Decision, b.ID = b.Charges[:0], b.rules[:0], nil, nil, weir.Decision{}, [16]byte{}
	}
	clear(c.asked)
	clear(c.levels)
	clear(c.names)
	c.domain, c.asked, c.bills, c.pointers, c.levels = nil, c.asked[:0], c.bills[:0], c.pointers[:0], c.levels[:0]
	calls.Put(c)
}

// maxHits is more than any limit grants.
const maxHits = algo.MaxCost

// match finds the rule of every descriptor and makes bills of them: one each, and
// one more of those that are all or nothing. What refuses nobody must not keep the
// others from being charged, or nobody would ever be refused: so a shadow is judged
// beside its bill, and a quota, which refuses only with all others, in one of its own.
func (c *call) match(s *Service, q *rlsv3.RateLimitRequest) error {
	now := s.current.Load()
	c.domain = now.config.Domain(q.GetDomain())
	if c.domain == nil {
		s.counters.unknownDomain(q.GetDomain())
	}
	c.asked = grown(c.asked, len(q.GetDescriptors()))
	replaced := false
	for i, d := range q.GetDescriptors() {
		a := &c.asked[i]
		*a = asked{bill: -1}
		a.hits, a.refund = hitsOf(q, d)
		if c.domain == nil {
			continue
		}
		if err := c.find(s, now, d, a); err != nil {
			return err
		}
		if a.rule != nil && len(a.rule.Replaces) > 0 {
			replaced = true
			if c.names == nil {
				c.names = map[string]bool{}
			}
			for _, name := range a.rule.Replaces {
				c.names[name] = true
			}
		}
	}
	together := -1
	for i, d := range q.GetDescriptors() {
		a := &c.asked[i]
		if replaced && a.rule != nil && !a.rule.Unlimited && a.rule.Name != "" && c.names[a.rule.Name] {
			a.rule = nil
		}
		if a.rule == nil || a.rule.Unlimited {
			a.counts = nil
			continue
		}
		joins := a.rule.AllOrNothing && !a.refund && !s.Quota && !a.rule.Quota
		key := c.keyOf(d)
		if joins && together >= 0 && c.bills[together].takes(key, a.rule) {
			a.bill = together
		} else {
			a.bill = c.addBill()
			if joins {
				together = a.bill
			}
		}
		c.charge(a, string(key), joins)
	}
	return nil
}

// hitsOf returns how much a descriptor asks for: what it says itself, which may
// be nothing, else what the request says, of which nothing is one.
func hitsOf(q *rlsv3.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) (hits int64, refund bool) {
	n := uint64(max(1, q.GetHitsAddend()))
	if d.GetHitsAddend() != nil {
		n = d.GetHitsAddend().GetValue()
	}
	return int64(min(n, maxHits)), d.GetIsNegativeHits() && n > 0
}

// find finds the rule of a descriptor and where its hits are counted.
func (c *call) find(s *Service, now *inForce, d *ratelimitv3.RateLimitDescriptor, a *asked) (err error) {
	entries := d.GetEntries()
	c.levels = c.levels[:0]
	if own := d.GetLimit(); own != nil {
		times := int64(1)
		if m := own.GetUnitMultiplier(); m != nil {
			times = int64(m.GetValue())
		}
		a.rule, err = rlsconfig.Override(own.GetRequestsPerUnit(), rlsv3.RateLimitResponse_RateLimit_Unit(own.GetUnit()), times, s.Load.AllOrNothing)
		if err != nil {
			return err
		}
		path := make([]string, len(entries))
		for i, e := range entries {
			path[i] = segment(e)
		}
		a.counts = s.counters.of(c.domain.Name, path, false)
		return nil
	}
	c.levels, a.rule = c.domain.Match(len(entries), func(i int) (key, value string) {
		return entries[i].GetKey(), entries[i].GetValue()
	}, c.levels)
	if a.rule == nil || a.rule.Unlimited {
		return nil
	}
	if a.rule.Static(c.levels) {
		a.counts = now.static[a.rule]
		return nil
	}
	a.counts = s.counters.of(c.domain.Name, a.rule.Metric(nil, c.levels, func(i int) string { return entries[i].GetValue() }), false)
	return nil
}

func segment(e *ratelimitv3.RateLimitDescriptor_Entry) string {
	if e.GetValue() == "" {
		return e.GetKey()
	}
	return e.GetKey() + "_" + e.GetValue()
}

func (c *call) addBill() int {
	n := len(c.bills)
	c.bills = grown(c.bills, n+1) // with the room that an earlier call left there
	return n
}

// takes reports whether a charge with this key can stand in the bill: there is room,
// and no other limit on its balance, such as one that a request states itself.
func (b *bill) takes(key []byte, rule *rlsconfig.Rule) bool {
	for i := range b.Charges {
		other, l := &b.Charges[i], rule.Limit
		if other.Key == string(key) && other.Limit != l && other.Limit.Kind() == l.Kind() && other.Limit.Period() == l.Period() {
			return false
		}
	}
	return len(b.Charges) < algo.MaxCharges
}

// keyOf returns the key of a descriptor's balance, until it is called again.
func (c *call) keyOf(d *ratelimitv3.RateLimitDescriptor) []byte {
	c.key = c.key[:0]
	shared := d.GetLimit() == nil && c.rematch(d)
	for i, e := range d.GetEntries() {
		value, sign := e.GetValue(), byte(ownValue)
		if shared && c.levels[i].Share {
			value, sign = c.levels[i].Value, sharedValue
		}
		c.key = appendEntry(c.key, e.GetKey(), sign, value)
	}
	return c.key
}

// charge adds a descriptor's charge to its bill, which others may join.
func (c *call) charge(a *asked, key string, joins bool) {
	b := &c.bills[a.bill]
	a.charge = len(b.Charges)
	b.Charges = append(b.Charges, weir.Charge{
		Key: key, Limit: a.rule.Limit, Cost: a.hits, Peek: a.hits == 0, Space: c.domain.Space,
	})
	b.rules = append(b.rules, a.rule)
	charge := &b.Charges[a.charge]
	switch {
	case a.refund:
		charge.Cost, charge.Peek = 0, true
	case joins && a.rule.Shadow:
		charge.Trial = -1
	}
}

// rematch finds again what the entries of d fall under, which is cheaper than to
// keep it for every descriptor. It reports whether any of it is shared.
func (c *call) rematch(d *ratelimitv3.RateLimitDescriptor) bool {
	entries := d.GetEntries()
	c.levels, _ = c.domain.Match(len(entries), func(i int) (key, value string) {
		return entries[i].GetKey(), entries[i].GetValue()
	}, c.levels[:0])
	for _, l := range c.levels {
		if l.Share {
			return true
		}
	}
	return false
}

// decide has the bills decided, in their order: a descriptor that stands twice in
// a request counts twice.
func (c *call) decide(ctx context.Context, l *weir.Limiter) error {
	c.pointers = c.pointers[:0]
	for i := range c.bills {
		c.bills[i].Note = &c.bills[i]
		c.pointers = append(c.pointers, &c.bills[i].Bill)
	}
	if len(c.pointers) == 0 {
		return nil
	}
	if err := l.Decide(ctx, c.pointers...); err != nil {
		return err
	}
	for i := range c.asked {
		a := &c.asked[i]
		if a.bill < 0 {
			continue
		}
		d := c.decision(a)
		a.left = d.Remaining
		switch {
		case a.refund:
			c.giveBack(ctx, l, a)
		case a.rule.Tally && !d.Allowed && d.Reason != weir.FailedClosed && d.Remaining > 0:
			c.takeRest(ctx, l, a)
		}
	}
	return nil
}

func (c *call) decision(a *asked) *weir.Decision { return &c.bills[a.bill].Each[a.charge] }

// takeRest spends what a refusal has left, as that server would have, and notes what
// that was: less than the refusal said, where another caller was there in between or
// the refusal was one of earlier, answered again without the store.
func (c *call) takeRest(ctx context.Context, l *weir.Limiter, a *asked) {
	b := &bill{rules: []*rlsconfig.Rule{a.rule}}
	b.Charges, b.NoReceipts, b.Note = []weir.Charge{c.bills[a.bill].Charges[a.charge]}, true, b
	for a.left > 0 {
		b.Charges[0].Cost, b.Charges[0].Peek = a.left, false
		if l.Decide(ctx, &b.Bill) != nil || b.Allowed || b.Remaining >= a.left {
			return
		}
		a.left = b.Remaining
	}
}

// giveBack takes hits back. The protocol has no receipts, so that what comes back
// is bounded by what the balance owes now, not by what this caller was charged.
func (c *call) giveBack(ctx context.Context, l *weir.Limiter, a *asked) {
	b := &c.bills[a.bill]
	if b.Err != nil || len(b.Balances()) == 0 {
		return
	}
	charge := b.Charges[a.charge]
	charge.Cost, charge.Peek = a.hits, false
	charge.Receipt = b.Balances()[0].Receipt(a.hits)
	charges := []weir.Charge{charge}
	if err := l.Refund(ctx, charges...); err == nil {
		a.left = min(a.left+charges[0].Receipt.Refunded, a.rule.Limit.Most())
	}
}

// closed reports whether a rule of the request refuses without its store.
func (c *call) closed() bool {
	for i := range c.asked {
		if r := c.asked[i].rule; r != nil && !r.Unlimited && r.Limit.Failure() == weir.Closed {
			return true
		}
	}
	return false
}

// untilNext is how long a period still lasts, by now, where no balance says it.
func untilNext(period time.Duration, now time.Time) time.Duration {
	us := period.Microseconds()
	return time.Duration(us-now.UnixMicro()%us) * time.Microsecond
}

// grown returns s with n elements, old ones kept.
func grown[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	t := make([]T, n, max(n, 4))
	copy(t, s)
	return t
}
