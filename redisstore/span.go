package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// A bill over several slots of a cluster cannot be one atomic step. It is decided
// so that nothing is ever over-admitted:
//
//	peek at every group in parallel ─▶ a refusal: that is the answer, nothing charged
//	  └▶ charge group by group, the one with the least left first
//	       └▶ a refusal after all: give back by receipt what was charged before
//
// Between a charge and its refund others may be refused for want of it, so a bill
// like this may briefly under-admit; Caps, `policy check` and the docs say so.
// Charging the likeliest refuser first makes that rare. A shadow or try charge is
// settled after the verdict, by itself. All of it has the time of one decision;
// giving back has as much again.

// spread is one group's part of a bill: which of its balances.
type spread struct {
	group uint16
	pick  []int
}

// span decides a bill over several groups.
func (s *Store) span(ctx context.Context, b *weir.Bill) {
	within, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	parts, trials := s.spread(b)
	se := s.inParts(within, b, parts, trials)
	if se != nil && errors.Is(se.Err, errMoving) {
		parts, trials = s.byKey(b)
		se = s.inParts(within, b, parts, trials)
	}
	s.finish(ctx, se, b)
}

// keyByKey decides a bill some of whose balances have moved to another node.
func (s *Store) keyByKey(ctx context.Context, b *weir.Bill) {
	within, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	parts, trials := s.byKey(b)
	s.finish(ctx, s.inParts(within, b, parts, trials), b)
}

// finish ends a bill that was decided within a deadline of its own, beside that of
// the caller's ctx.
func (s *Store) finish(ctx context.Context, se *weir.StoreError, b *weir.Bill) {
	switch {
	case se == nil:
		b.Settle("redis")
	case se.Kind == "canceled" && ctx.Err() == nil:
		s.fail(&weir.StoreError{Kind: "timeout", Err: se.Err, Unknown: se.Unknown}, b)
	default:
		s.fail(se, b)
	}
}

// inParts decides a bill part by part.
func (s *Store) inParts(ctx context.Context, b *weir.Bill, parts, trials []spread) *weir.StoreError {
	if se := s.peekAll(ctx, b, append(append([]spread(nil), parts...), trials...)); se != nil {
		return se
	}
	refused, culprit := refusals(b)
	if refused == 0 && b.Verb == algo.Take {
		if se := s.chargeAll(ctx, b, parts); se != nil {
			return se
		}
		refused, culprit = refusals(b)
	}
	if b.Verb == algo.Take {
		s.chargeTrials(ctx, b, trials, refused, culprit)
	}
	return nil
}

// spread splits a bill's balances by group, enforced ones and trials apart.
func (s *Store) spread(b *weir.Bill) (enforced, trials []spread) {
	balances := b.Balances()
	for i := range balances {
		g := s.keys.group(balances[i].Charge)
		if balances[i].Trial != 0 {
			trials = append(trials, spread{g, []int{i}})
			continue
		}
		found := false
		for j := range enforced {
			if enforced[j].group == g {
				enforced[j].pick = append(enforced[j].pick, i)
				found = true
			}
		}
		if !found {
			enforced = append(enforced, spread{g, []int{i}})
		}
	}
	return enforced, trials
}

// refusals counts the enforced balances that do not fit and names one.
func refusals(b *weir.Bill) (refused, culprit int) {
	balances := b.Balances()
	for i := range balances {
		if bal := &balances[i]; bal.Trial == 0 && !bal.Fits && bal.Cost != 0 {
			refused++
			culprit = i
		}
	}
	return refused, culprit
}

// some asks one group about its part of the bill and fills its balances.
func (s *Store) some(ctx context.Context, verb algo.Verb, b *weir.Bill, part spread) *weir.StoreError {
	se := s.askPart(ctx, verb, b, part)
	if se != nil && se.Kind == "calendar" { // the clock there is known now
		se = s.askPart(ctx, verb, b, part)
	}
	return se
}

func (s *Store) askPart(ctx context.Context, verb algo.Verb, b *weir.Bill, part spread) *weir.StoreError {
	l := s.line(part.group)
	r := new(request)
	weight := r.add(verb, b, part.pick, &s.keys, l.expected)
	if se := l.ask(ctx, r, weight); se != nil {
		return se
	}
	switch status := r.word(0, 0); status {
	case "":
	case moving:
		return failMoving()
	default:
		return replyError(status)
	}
	r.fill(0, 0, b, part.pick)
	return nil
}

func (s *Store) peekAll(ctx context.Context, b *weir.Bill, parts []spread) *weir.StoreError {
	errs := make([]*weir.StoreError, len(parts))
	var asking sync.WaitGroup
	for i := range parts {
		asking.Go(func() { errs[i] = s.some(ctx, algo.Peek, b, parts[i]) })
	}
	asking.Wait()
	for _, se := range errs {
		if se != nil {
			se := *se
			se.Unknown = false // a peek charges nothing
			return &se
		}
	}
	return nil
}

// chargeAll charges group by group, and gives everything back if one refuses.
func (s *Store) chargeAll(ctx context.Context, b *weir.Bill, parts []spread) *weir.StoreError {
	balances := b.Balances()
	least := func(p spread) (left int64) {
		left = 1 << 62
		for _, i := range p.pick {
			bal := &balances[i]
			left = min(left, bal.Quota.Report(&bal.View, bal.Cost, 0, true).Remaining-bal.Cost)
		}
		return left
	}
	for i := range parts { // few: a selection sort says it plainly
		for j := i + 1; j < len(parts); j++ {
			if least(parts[j]) < least(parts[i]) {
				parts[i], parts[j] = parts[j], parts[i]
			}
		}
	}
	before := append([]weir.Balance(nil), balances...)
	for n, part := range parts {
		se := s.some(ctx, algo.Take, b, part)
		refused, _ := refusals(b)
		if se == nil && refused == 0 {
			continue
		}
		// The caller may be gone; what was charged must go back all the same.
		back := s.receipts(b, parts[:n], before)
		if se == nil || errors.Is(se.Err, errMoving) {
			if failed := s.giveBack(context.WithoutCancel(ctx), back); failed != nil {
				return failed
			}
			return se
		}
		if len(back) == 0 {
			return se
		}
		// The time may be up. Until it has gone back it stays charged.
		s.later(func() { _ = s.giveBack(context.Background(), back) }) // told as unknown already
		return &weir.StoreError{Kind: se.Kind, Err: se.Err, Unreachable: se.Unreachable, Unknown: true}
	}
	return nil
}

// receipts returns what has to be refunded for what parts of the bill have
// charged, and restores their views to those of the peek.
func (s *Store) receipts(b *weir.Bill, parts []spread, before []weir.Balance) (back []weir.Charge) {
	balances := b.Balances()
	for _, part := range parts {
		for _, i := range part.pick {
			bal := &balances[i]
			if !bal.Debited {
				continue
			}
			c := *bal.Charge // whose texts may be gone after the call
			c.Key, c.Space, c.Group = strings.Clone(c.Key), strings.Clone(c.Space), strings.Clone(c.Group)
			c.Cost, c.Receipt = 0, bal.Receipt(bal.Cost)
			back = append(back, c)
			bal.View, bal.Fits, bal.Debited, bal.Delay = before[i].View, before[i].Fits, false, 0
		}
	}
	return back
}

func (s *Store) giveBack(ctx context.Context, back []weir.Charge) *weir.StoreError {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	var errs error
	for i := range back {
		errs = errors.Join(errs, s.refund(ctx, &back[i]))
	}
	if errs == nil {
		return nil
	}
	se := *storeError(errs)
	se.Unknown = true // it stays charged
	return &se
}

// chargeTrials settles the trials of a decided bill. A trial that fails decides
// nothing, so its error is no one's.
func (s *Store) chargeTrials(ctx context.Context, b *weir.Bill, trials []spread, refused, culprit int) {
	balances := b.Balances()
	for _, part := range trials {
		bal := &balances[part.pick[0]]
		if bal.Fits && bal.Cost > 0 && (refused == 0 || refused == 1 && int(bal.Trial)-1 == culprit) {
			if se := s.some(ctx, algo.Take, b, part); se != nil && se.Unknown {
				s.unknown.Add(1)
			}
		}
	}
}
