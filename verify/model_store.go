package verify

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// owner is whose balance a charge falls on.
type owner struct {
	space, key, name, zone string
	kind                   algo.Kind
	period                 time.Duration
}

func ownerOf(c *weir.Charge) owner {
	l := c.Limit
	return owner{c.Space, c.Key, l.Name(), zoneOf(l), l.Kind(), l.Period()}
}

// modelStore is the model behind the Store interface. It reads a bill's charges
// and writes its decisions, and uses nothing of what the Limiter prepares for
// stores, so that the joining of duplicates, the order of trials and the choice
// of the binding charge are checked too. It cannot refund: see refunds.go for
// how refunds are judged without a second opinion.
type modelStore struct {
	clock    *Clock
	accounts map[owner]*account
	blocks   map[owner]int64
}

// Model returns an empty model on clock as a store. It is for one goroutine.
func Model(clock *Clock) (weir.Store, error) {
	return &modelStore{clock: clock, accounts: map[owner]*account{}, blocks: map[owner]int64{}}, nil
}

func (m *modelStore) Caps() weir.Caps {
	return weir.Caps{Source: "model", AcrossKeys: true, Verbs: []algo.Verb{algo.Take, algo.Peek, algo.Reset, algo.Block}}
}

func (m *modelStore) Close() error { return nil }

func (m *modelStore) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		switch b.Verb {
		case algo.Take, algo.Peek:
			m.decide(b)
		default:
			m.command(b)
		}
	}
}

func (m *modelStore) command(b *weir.Bill) {
	for i := range b.Charges {
		who := ownerOf(&b.Charges[i])
		switch {
		case b.Verb == algo.Block && b.BlockFor > 0:
			m.blocks[who] = m.clock.Now() + b.BlockFor.Microseconds()
		case b.Verb == algo.Block:
			delete(m.blocks, who)
		default:
			delete(m.accounts, who)
			delete(m.blocks, who)
		}
	}
}

// joint is the charges of a bill that count as one.
type joint struct {
	owner
	terms
	trial   int8
	cost    int64
	tooMuch bool // a sum beyond what a cost may be

	standing standing
	blocked  int64
	fits     bool
	debited  bool
	delay    int64
}

// join groups a bill's charges and says to which group each belongs, -1 for
// unlimited.
func join(charges []weir.Charge) (groups []*joint, of []int) {
	for i := range charges {
		c := &charges[i]
		of = append(of, -1)
		if c.Limit.IsUnlimited() {
			continue
		}
		who := ownerOf(c)
		for j, g := range groups {
			if g.owner == who && g.trial == c.Trial {
				of[i] = j
				g.cost += c.Cost
			}
		}
		if of[i] < 0 {
			of[i] = len(groups)
			groups = append(groups, &joint{owner: who, terms: termsOf(c.Limit), trial: c.Trial, cost: c.Cost})
		}
	}
	for _, g := range groups {
		g.tooMuch = g.cost > algo.MaxCost
	}
	return groups, of
}

func (m *modelStore) judge(g *joint, wait int64) {
	now := m.clock.Now()
	g.standing = g.stand(m.accounts[g.owner], now)
	g.fits = !g.tooMuch && g.standing.fits(g.cost, wait)
	if until := m.blocks[g.owner]; until > now {
		g.blocked, g.fits = until, false
	}
}

// settle keeps what a judged group leaves behind.
func (m *modelStore) settle(g *joint, debit bool) {
	if debit {
		g.debited, g.delay = true, g.standing.delay(g.cost)
		m.accounts[g.owner] = g.standing.charge(g.cost)
	} else if g.standing.stepped {
		moved := g.standing.account
		m.accounts[g.owner] = &moved
	}
}

func (m *modelStore) decide(b *weir.Bill) {
	groups, of := join(b.Charges)
	wait := b.MaxWait.Microseconds()
	admitted := func(but int) bool { // every enforced group, or all but one
		for j, g := range groups {
			if g.trial == 0 && j != but && !g.fits && g.cost != 0 {
				return false
			}
		}
		return true
	}
	for _, g := range groups {
		if g.trial == 0 {
			m.judge(g, wait)
		}
	}
	allowed := admitted(-1)
	for _, g := range groups {
		if g.trial == 0 && g.cost != 0 && b.Verb == algo.Take {
			m.settle(g, allowed)
		}
	}
	for _, g := range groups {
		if g.trial == 0 {
			continue
		}
		m.judge(g, wait)
		standsFor := -1
		if g.trial > 0 {
			standsFor = of[g.trial-1]
		}
		if g.cost != 0 && b.Verb == algo.Take {
			m.settle(g, g.fits && admitted(standsFor))
		}
	}
	for i := range b.Charges {
		b.Each[i] = weir.Decision{Allowed: true, Source: "model", Limit: weir.Unbounded, Remaining: weir.Unbounded}
		if of[i] >= 0 {
			b.Each[i] = groups[of[i]].answer(wait, b.Charges[i].Cost)
		}
	}
	b.Decision = conclude(b, allowed)
}

// answer is the decision on a charge of g.
func (g *joint) answer(wait, cost int64) weir.Decision {
	s := &g.standing
	d := weir.Decision{
		Allowed: g.fits || g.cost == 0, Source: "model", Limit: g.most,
		Remaining: s.remaining(), ResetAfter: time.Duration(s.reset()) * time.Microsecond,
	}
	if g.debited && cost > 0 {
		d.Delay = time.Duration(g.delay) * time.Microsecond
	}
	if d.Allowed {
		return d
	}
	retry := int64(algo.Never)
	if !g.tooMuch && s.fits(g.cost, wait) {
		retry = 0
	} else if !g.tooMuch {
		retry = s.retry(g.cost, wait)
	}
	d.Reason = weir.Limited
	switch {
	case g.tooMuch || g.never(g.cost):
		d.Reason = weir.TooLarge
	case g.blocked > 0:
		d.Reason = weir.Blocked
	}
	if g.blocked > 0 {
		d.Remaining = 0
		if retry != algo.Never {
			retry = max(retry, g.blocked-s.now)
		}
	}
	d.RetryAfter = time.Duration(retry) * time.Microsecond
	if retry == algo.Never {
		d.RetryAfter = weir.Never
	}
	return d
}

// conclude is the bill's decision: denied, the longest wait binds, and never is
// longest; admitted, the least remaining; the first on a tie. Trials never do,
// and unlimited does not beside another.
func conclude(b *weir.Bill, allowed bool) weir.Decision {
	binding := -1
	var delay time.Duration
	rank := func(d *weir.Decision) (int64, bool) { // larger binds
		switch {
		case allowed && d.Remaining == weir.Unbounded:
			return -1 << 62, true
		case allowed:
			return -d.Remaining, true
		case d.RetryAfter == weir.Never:
			return 1 << 62, !d.Allowed
		}
		return int64(d.RetryAfter), !d.Allowed
	}
	for i := range b.Each {
		if b.Charges[i].Trial != 0 {
			continue
		}
		delay = max(delay, b.Each[i].Delay)
		mine, may := rank(&b.Each[i])
		if !may {
			continue
		}
		if binding >= 0 {
			if best, _ := rank(&b.Each[binding]); mine <= best {
				continue
			}
		}
		binding = i
	}
	if binding < 0 {
		return weir.Decision{Allowed: true, Source: "none", Limit: weir.Unbounded, Remaining: weir.Unbounded}
	}
	d := b.Each[binding]
	d.Binding, d.Delay = uint8(binding), delay
	return d
}
