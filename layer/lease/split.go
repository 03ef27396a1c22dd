package lease

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// split is a bill of several balances of which some are on loan here. A policy's bills
// mostly are: one limit on the caller, and others on what all callers share, which are
// the hot ones. Their units are taken out of the purse first, so that nobody else has
// them; then the store is asked for the rest, as a bill of its own, and says yes or no
// for all of it:
//
//	caller  ─────────────────▶ store ─ admits ─▶ admitted: the units are spent
//	tenant  ─▶ purse ─▶ held        └─ refuses, fails ─▶ the units go back
//	everyone ─▶ purse ─▶ held
//
// So the bill is all or nothing as before, and costs the store one balance. Units that
// are held count as spent, and their loan is not given back before they are settled. They
// are spent when they are held, within the loan's time; the answer comes a trip to the
// store later.
//
// The rejected order, the store first and the purse then, would have to refund the
// store's part where the purse turns out to be empty.
type split struct {
	whole *weir.Bill
	part  weir.Bill // the balances that the store is asked for
	pick  []int     // which these are
	holds []hold
	purse *purse
	list  [1]*weir.Bill // part, as a store is handed it
}

// hold is units that are out of a purse for one balance of a bill.
type hold struct {
	balance int    // its index
	place   uint64 // of the slice in the purse
	print   print  // of the account
	loan    *loan
	running algo.View // for the receipt
}

// Ask is Apply for bills that Answer did not answer.
func (l *Leases) Ask(ctx context.Context, bills []*weir.Bill) {
	if len(bills) == 1 {
		l.askOne(ctx, bills)
	} else {
		l.askAll(ctx, bills)
	}
	for _, b := range bills {
		l.heard(b)
	}
}

func (l *Leases) askOne(ctx context.Context, bills []*weir.Bill) {
	s := l.split(bills[0])
	if s == nil {
		l.store.Apply(ctx, bills)
		return
	}
	if len(s.pick) > 0 {
		l.store.Apply(ctx, s.list[:])
	}
	l.join(s)
}

func (l *Leases) askAll(ctx context.Context, bills []*weir.Bill) {
	var splits []*split
	left := bills
	for i, b := range bills {
		s := l.split(b)
		if s == nil {
			continue
		}
		if splits == nil {
			left = slices.Clone(bills)
		}
		splits = append(splits, s)
		if left[i] = s.list[0]; len(s.pick) == 0 {
			left[i] = nil
		}
	}
	if splits != nil {
		left = slices.DeleteFunc(left, func(b *weir.Bill) bool { return b == nil })
	}
	if len(left) > 0 {
		l.store.Apply(ctx, left)
	}
	for _, s := range splits {
		l.join(s)
	}
}

// split holds units for those balances of b that have some on loan here, or returns nil
// if none has. A bill that cannot pass is the store's whole, and so is a balance that a try
// stands for, since both are judged in one step.
func (l *Leases) split(b *weir.Bill) *split {
	balances := b.Balances()
	if b.Verb != algo.Take || len(balances) < 2 || b.MaxWait != 0 {
		return nil
	}
	for i := range balances {
		if balances[i].Never {
			return nil
		}
	}
	now := l.now()
	purse := l.held.Get().(*purse)
	defer l.held.Put(purse)
	purse.mu.Lock()
	defer purse.mu.Unlock()
	var s *split
	for i := range balances {
		bal := &balances[i]
		// Where several charges share the cost, each of them has a receipt.
		if !lends(bal) || bal.Cost != bal.Charge.Cost || tried(balances, i) {
			continue
		}
		key := maphash.String(l.seed, bal.Charge.Key)
		place := l.place(bal, key)
		o := &purse.slices[place]
		if !o.has(bal, now) && !l.fill(o, bal, key, now) {
			continue
		}
		if s == nil {
			s = l.splits.Get().(*split)
			s.whole, s.purse, s.pick, s.holds = b, purse, s.pick[:0], s.holds[:0]
		}
		h := hold{balance: i, place: place, print: o.print, loan: o.loan}
		h.running = o.spend(bal, now)
		h.loan.holds.Add(1)
		purse.spent += bal.Cost
		s.holds = append(s.holds, h)
	}
	if s == nil {
		return nil
	}
	for i, next := 0, s.holds; i < len(balances); i++ {
		if len(next) > 0 && next[0].balance == i {
			next = next[1:]
		} else {
			s.pick = append(s.pick, i)
		}
	}
	if len(s.pick) > 0 {
		s.part.Part(b, s.pick)
		s.list[0] = &s.part
	}
	return s
}

// tried reports whether a try stands for balance i.
func tried(balances []weir.Balance, i int) bool {
	return slices.ContainsFunc(balances, func(bal weir.Balance) bool { return int(bal.Trial) == i+1 })
}

// join settles a bill whose part was decided.
func (l *Leases) join(s *split) {
	b, from := s.whole, source
	balances := b.Balances()
	admitted := true
	if len(s.pick) > 0 {
		admitted = s.part.Err == nil && s.part.Allowed
		from = s.part.Each[0].Source
		s.part.Join(b, s.pick)
	}
	if !admitted {
		for i := range s.holds {
			l.release(s.purse, &s.holds[i], &balances[s.holds[i].balance])
		}
	}
	if b.Err == nil {
		b.Settle(from)
	}
	for i := range s.holds {
		h := &s.holds[i]
		if bal := &balances[h.balance]; admitted {
			date(&bal.Charge.Receipt, bal.Quota.Kind, &h.running)
		}
		h.loan.holds.Add(-1)
		*h = hold{}
	}
	s.whole, s.purse = nil, nil
	l.splits.Put(s)
}

// release puts the units of h back, which were bal's: into the slice that they came from,
// or, if that is another loan's by now, into their loan.
func (l *Leases) release(p *purse, h *hold, bal *weir.Balance) {
	bal.Debited = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent -= bal.Cost
	if o := &p.slices[h.place]; o.account != nil && o.loan == h.loan {
		o.left += bal.Cost
		o.running = unspent(&bal.Quota, o.running, bal.Cost)
		return
	}
	s := &l.shards[h.print.b%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	h.loan.left += bal.Cost
	h.loan.running = unspent(&bal.Quota, h.loan.running, bal.Cost)
}
