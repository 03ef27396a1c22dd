package verify

import (
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// equalsModel: the store answers as the model does, in every field, whatever
// comes: bills of several keys, spaces and names, duplicates, peeks, trials,
// waits, limits that change, unlimited ones, resets, blocks, and a clock that
// steps back.
func equalsModel(h *history) {
	store := &modelStore{clock: h.clock, accounts: map[owner]*account{}, blocks: map[owner]int64{}}
	model, err := weir.New(weir.Options{Store: store})
	if err != nil {
		h.err = err
		return
	}
	s := h.scene()
	for range 12 {
		l := pick(h, s.limits...)
		h.pass(l)
		if h.IntN(5) == 0 {
			h.stepBack(store)
		}
		if h.IntN(8) == 0 && zoneOf(s.limits[0]) == "" {
			if changed := h.withUnits(s.limits[0]); changed.Check() == nil {
				s.limits[0] = changed
			}
		}
		if h.IntN(12) == 0 {
			h.commandBoth(model, l.Charge(h.key("a", pick(h, s.keys...))))
		}
		charges := h.embellish(h.bill(s))
		if conflict(charges) {
			continue
		}
		ask := weir.Bill{Charges: charges}
		if h.IntN(8) == 0 {
			ask.Verb = algo.Peek
		}
		if h.IntN(6) == 0 {
			ask.MaxWait = pick(h, time.Microsecond, time.Duration(h.Int64N(int64(l.Period()))), l.Period(), 10*time.Second)
			ask.MaxWait = ask.MaxWait.Truncate(time.Microsecond)
		}
		asked := ask
		asked.Charges = append([]weir.Charge(nil), charges...)
		want := h.decideBy(model, &ask)
		if c := asked.Charges[0]; len(charges) == 1 && c.Cost > 0 && c.Space == "" && c.Trial == 0 && ask.Verb == algo.Take && ask.MaxWait == 0 && h.IntN(2) == 0 {
			h.same("AllowN "+c.Limit.String(), want.Decision, h.allow(c))
		} else {
			h.sameBills(want, h.decide(&asked))
		}
		s.note(h, want)
		if h.over() {
			return
		}
	}
	h.do(model.Close())
}

// allow charges by AllowN, for which a store may have a way of its own.
func (h *history) allow(c weir.Charge) (d weir.Decision) {
	if !h.over() {
		h.step++
		d, h.err = h.limiter.AllowN(h.ctx, c.Key, c.Cost, c.Limit)
	}
	return d
}

// embellish adds to a bill what bills may hold.
func (h *history) embellish(charges []weir.Charge) []weir.Charge {
	if h.IntN(6) == 0 { // the same balance twice
		charges = append(charges, charges[h.IntN(len(charges))])
		charges[len(charges)-1].Cost = pick[int64](h, 1, 2, 3, algo.MaxCost)
	}
	if h.IntN(8) == 0 {
		charges = append(charges, weir.Unlimited().Charge(h.key("a", "free")))
	}
	if h.IntN(8) == 0 {
		charges = append(charges, weir.PerSecond(0).Using(pick(h, algo.Kinds[:]...)).Named("none").Charge(h.key("a", "none")))
	}
	for i := range charges {
		c := &charges[i]
		switch h.IntN(10) {
		case 0:
			c.Cost, c.Peek = 0, true
		case 1:
			c.Space = "rule"
		case 2:
			c.Trial = -1
		case 3:
			if i > 0 && charges[0].Trial == 0 {
				c.Trial = 1
			}
		}
	}
	return charges
}

// commandBoth resets or blocks a balance in the store and in the model.
func (h *history) commandBoth(model *weir.Limiter, c weir.Charge) {
	if h.over() {
		return
	}
	if h.IntN(2) == 0 && h.caps.Can(algo.Reset) {
		h.do(model.Reset(h.ctx, c))
		h.do(h.limiter.Reset(h.ctx, c))
	} else if h.caps.Can(algo.Block) {
		d := time.Duration(h.Int64N(int64(2*time.Second))) / 1000 * 1000 * time.Duration(h.IntN(4))
		h.do(model.Block(h.ctx, d, c))
		h.do(h.limiter.Block(h.ctx, d, c))
	}
}

// stepBack steps the clock back, unless that would bring back to life what has
// expired: a store may have dropped it, and need not have.
func (h *history) stepBack(m *modelStore) {
	to := h.now - pick(h, 1, h.Int64N(1_000_000), maxAhead-1, maxAhead, maxAhead+1, h.Int64N(60_000_000), h.Int64N(7_200_000_000))
	if !m.revives(h.now, to) {
		h.at(to)
	}
}

// revives reports whether something that has expired would be alive again.
func (m *modelStore) revives(now, to int64) bool {
	for _, a := range m.accounts {
		is, was := a.terms.stand(a, now), a.terms.stand(a, to)
		if is.fresh && !was.fresh {
			return true
		}
	}
	for _, until := range m.blocks {
		if until > to {
			return true
		}
	}
	return false
}
