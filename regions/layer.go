package regions

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
)

// Layer is a weir.Store in front of a region's own. It notes what is debited
// from limits that regions share, and cuts limits that are held in shares. It
// stands next to the store, behind the deny cache; leases do not go with it.
type Layer struct {
	weir.Store
	consumed func(*weir.Charge, *algo.Quota, *algo.View, int64) redisstore.Consumption
	exchange *Exchange
	scopes   atomic.Pointer[map[string]policy.Sharing]
	end      func() error // of who carries the exchange's letters, or nil
}

// Front returns store with a layer in front that tells e what is debited. Closing
// it closes the store and not the exchange.
func Front(store weir.Store, e *Exchange) *Layer {
	l := &Layer{Store: store, consumed: e.books.Consumed, exchange: e}
	l.Share(nil)
	return l
}

// Front is as the function, with s's exchange, but that closing the layer closes s
// before the store: a Limiter closes its store after it has paid what it owes there,
// and the other regions hear of that too.
func (s *Service) Front(store weir.Store) *Layer {
	l := Front(store, s.Exchange)
	l.end = s.Close
	return l
}

// Close implements weir.Store.
func (l *Layer) Close() error {
	if l.end == nil {
		return l.Store.Close()
	}
	return errors.Join(l.end(), l.Store.Close())
}

// Share says which spaces of balances belong to limits that regions share. It may
// be called while the layer is used.
func (l *Layer) Share(scopes map[string]policy.Sharing) {
	l.scopes.Store(&scopes)
	l.exchange.shares.spaces(scopes)
}

// Apply implements weir.Store.
func (l *Layer) Apply(ctx context.Context, bills []*weir.Bill) {
	scopes := *l.scopes.Load()
	if len(scopes) == 0 {
		l.Store.Apply(ctx, bills)
		return
	}
	var whole []uncut
	for _, b := range bills {
		switch b.Verb {
		case algo.Take, algo.Peek:
			l.cut(scopes, b)
		case algo.Refund, algo.Repay:
			whole = l.cutCharges(scopes, b, whole)
		}
	}
	l.Store.Apply(ctx, bills)
	for _, one := range whole {
		one.charge.Limit = one.limit
	}
	for _, b := range bills {
		switch {
		case b.Err == nil:
			l.note(scopes, b)
		case b.Verb <= algo.Peek:
			l.cutAway(scopes, b)
		}
	}
}

// cut puts this region's share in place of a limit that is held in shares.
func (l *Layer) cut(scopes map[string]policy.Sharing, b *weir.Bill) {
	shares := l.exchange.shares
	balances := b.Balances()
	for i := range balances {
		bal := &balances[i]
		if scopes[bal.Charge.Space].Scope != policy.ScopeShare {
			continue
		}
		if b.Verb == algo.Take {
			shares.asked(bal.Charge.Space, bal.Cost)
		}
		bal.Again = shares.again(bal.Quota, bal.Cost)
		cutTo(bal, shares.of(bal.Charge.Space))
	}
}

// cutAway cuts a bill that the store did not decide, for the answers that are given
// without it, to the shares that were last known: the store that is away keeps the
// record, too.
func (l *Layer) cutAway(scopes map[string]policy.Sharing, b *weir.Bill) {
	balances := b.Balances()
	for i := range balances {
		if bal := &balances[i]; scopes[bal.Charge.Space].Scope == policy.ScopeShare {
			bal.Quota = bal.Charge.Limit.Quota()
			cutTo(bal, l.exchange.shares.last(bal.Charge.Space))
		}
	}
}

func cutTo(bal *weir.Balance, s share) {
	bal.Quota = s.part(bal.Quota)
	bal.Measure()
}

// uncut is a charge whose limit is cut while the store is asked, and that limit.
type uncut struct {
	charge *weir.Charge
	limit  weir.Limit
}

// cutCharges cuts the limits of charges that give back or are owed: a store takes
// those from the charge, and nothing comes back under another limit than was charged.
// The share is the one last known: it was charged under that, and while a store comes
// back no record has been read for long.
func (l *Layer) cutCharges(scopes map[string]policy.Sharing, b *weir.Bill, all []uncut) []uncut {
	for i := range b.Charges {
		c := &b.Charges[i]
		if scopes[c.Space].Scope != policy.ScopeShare || c.Limit.IsUnlimited() {
			continue
		}
		if q := l.exchange.shares.last(c.Space).part(c.Limit.Quota()); q.N > 0 {
			all = append(all, uncut{c, c.Limit})
			c.Limit = c.Limit.Cut(&q)
		}
	}
	return all
}

// note tells the exchange what a bill debited or gave back.
func (l *Layer) note(scopes map[string]policy.Sharing, b *weir.Bill) {
	switch b.Verb {
	case algo.Take:
		balances := b.Balances()
		for i := range balances {
			bal := &balances[i]
			if bal.Debited && bal.Cost > 0 && scopes[bal.Charge.Space].Scope == policy.ScopeGlobal {
				l.exchange.Add(l.consumed(bal.Charge, &bal.Quota, &bal.View, bal.Cost))
			}
		}
	case algo.Refund, algo.Repay:
		for i := range b.Charges {
			c := &b.Charges[i]
			if scopes[c.Space].Scope != policy.ScopeGlobal || c.Limit.IsUnlimited() {
				continue
			}
			q := c.Limit.Quota()
			view, units := algo.View{Start: c.Receipt.Due}, -c.Receipt.Refunded
			if b.Verb == algo.Repay {
				view, units = periodNow(&q), c.Cost
			} else if q.Calendar != nil {
				_, view.End = q.Calendar.Around(view.Start)
			}
			if units != 0 {
				l.exchange.Add(l.consumed(c, &q, &view, units))
			}
		}
	}
}

// periodNow returns the period that a window is in by this process's clock, which
// is the region's as nearly as a debt is.
func periodNow(q *algo.Quota) (v algo.View) {
	now := time.Now().UnixMicro()
	if v.Start = now - now%q.Period; q.Calendar != nil {
		v.Start, v.End = q.Calendar.Around(now)
	}
	return v
}
