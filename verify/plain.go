package verify

import (
	"context"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// plainStore keeps the states of package algo in a map: the steps without the
// packing, locking and lifetimes of a real store. Where it and the model agree
// and a store differs, the fault is in the store.
type plainStore struct {
	clock  *Clock
	states map[owner]*state
	blocks map[owner]int64
}

type state struct {
	bucket algo.Bucket
	window algo.Window
	log    algo.Log
}

// Plain returns an empty store over the bare steps of package algo. It is for
// one goroutine and cannot refund.
func Plain(clock *Clock) (weir.Store, error) {
	return &plainStore{clock: clock, states: map[owner]*state{}, blocks: map[owner]int64{}}, nil
}

func (p *plainStore) Caps() weir.Caps {
	return weir.Caps{Source: "algo", AcrossKeys: true, Verbs: []algo.Verb{algo.Take, algo.Peek, algo.Reset, algo.Block}}
}

func (p *plainStore) Close() error { return nil }

func (p *plainStore) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		if b.Verb > algo.Peek {
			p.command(b)
			continue
		}
		p.decide(b)
		b.Settle("algo")
	}
}

func (p *plainStore) command(b *weir.Bill) {
	for i := range b.Charges {
		who := ownerOf(&b.Charges[i])
		if b.Verb == algo.Block && b.BlockFor > 0 {
			p.blocks[who] = p.clock.Now() + b.BlockFor.Microseconds()
			continue
		}
		if delete(p.blocks, who); b.Verb == algo.Reset {
			delete(p.states, who)
		}
	}
}

func (p *plainStore) decide(b *weir.Bill) {
	wait := b.MaxWait.Microseconds()
	balances := b.Balances()
	refused := 0
	culprit := -1
	for i := range balances {
		bal := &balances[i]
		if bal.Trial != 0 {
			continue
		}
		if p.judge(bal, wait); !bal.Fits && bal.Cost != 0 {
			refused++
			culprit = i
		}
	}
	for i := range balances {
		if bal := &balances[i]; bal.Trial == 0 && b.Verb == algo.Take {
			p.settle(bal, refused == 0)
		}
	}
	for i := range balances {
		bal := &balances[i]
		if bal.Trial == 0 {
			continue
		}
		p.judge(bal, wait)
		if b.Verb == algo.Take {
			others := refused == 0 || refused == 1 && int(bal.Trial)-1 == culprit
			p.settle(bal, others && bal.Fits)
		}
	}
}

func (p *plainStore) state(bal *weir.Balance) *state {
	if s := p.states[ownerOf(bal.Charge)]; s != nil {
		return s
	}
	return new(state)
}

func (p *plainStore) judge(bal *weir.Balance, wait int64) {
	s, q, now := p.state(bal), &bal.Quota, p.clock.Now()
	switch {
	case q.Kind.Bucket():
		bal.View = q.AdvanceBucket(&s.bucket, now)
		bal.Fits = !bal.Never && q.FitsBucket(&bal.View, &bal.Debit, wait)
	case q.Kind.Window():
		bal.View = q.AdvanceWindow(&s.window, now)
		bal.Fits = !bal.Never && q.FitsWindow(&bal.View, bal.Cost)
	default:
		bal.View = q.AdvanceLog(&s.log, now, max(bal.Cost, 0))
		bal.Fits = !bal.Never && q.FitsLog(&bal.View, bal.Cost)
	}
	if until := p.blocks[ownerOf(bal.Charge)]; until > now {
		bal.Fits, bal.Blocked = false, until
	}
}

// settle debits a judged balance, or keeps the new stored time after a step.
func (p *plainStore) settle(bal *weir.Balance, debit bool) {
	if bal.Cost == 0 {
		return
	}
	s, q, v := p.state(bal), &bal.Quota, &bal.View
	switch {
	case debit && q.Kind.Bucket():
		bal.Delay = q.Delay(v, &bal.Debit)
		s.bucket = q.ChargeBucket(v, &bal.Debit)
	case debit && q.Kind.Window():
		s.window = q.ChargeWindow(v, bal.Cost)
	case debit:
		q.ChargeLog(&s.log, v, bal.Cost)
	case !v.Stepped:
		return
	case q.Kind.Bucket():
		s.bucket = algo.StepBucket(s.bucket, v.Now)
	case q.Kind.Window():
		s.window = v.Window()
	default:
		algo.StepLog(&s.log, v.Now)
	}
	bal.Debited = debit
	p.states[ownerOf(bal.Charge)] = s
}
