package replay

import (
	"context"
	"errors"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
)

// A rule's refusals are those of the rule alone, and the gate does not say quite
// that: a bill that one rule refuses is charged under no other either, and
// leaves them more room than they would have had without that rule.
//
// As long as this has not happened to a balance, it stands as if its rule were
// alone. When it does, the balance is copied to a store beside the gate's, where
// it is charged what the rule alone would have charged, from then on:
//
//	bill refused, this charge would fit ─ copy the balance ─┐
//	every later charge on it ──────────────────────────────→ decided there as well
//
// So what this costs depends on who is refused, and not on how long the log is.
type alone struct {
	gate   *weir.Memory // the store of the gate
	bytes  int64
	asides []*aside // by seat; nil where nothing has parted
	parted seats    // which balances have, by key
	any    bool
}

// aside is the balances of one seat that are here. Each seat has a store of its
// own, in which keys need no space: those charges are the cheapest.
type aside struct {
	memory  *weir.Memory
	limiter *weir.Limiter
	parted  map[uint64]struct{} // by balance
}

func newAlone(of *weir.Memory, bytes int64, rules int) *alone {
	return &alone{gate: of, bytes: bytes, asides: make([]*aside, 2*rules), parted: seats{}}
}

func (a *alone) close() (err error) {
	for _, s := range a.asides {
		if s != nil {
			err = errors.Join(err, s.limiter.Close())
		}
	}
	return err
}

// part copies a balance here.
func (a *alone) part(c *weir.Charge, seat int, hash uint64) (*aside, error) {
	s := a.asides[seat]
	if s == nil {
		s = &aside{memory: a.gate.Fork(weir.MemoryOptions{MaxBytes: a.bytes, OneLock: true}), parted: map[uint64]struct{}{}}
		var err error
		if s.limiter, err = weir.New(weir.Options{Store: s.memory}); err != nil {
			return nil, err
		}
		a.asides[seat] = s
	}
	a.gate.Copy(c, s.memory, "")
	s.parted[balance(c, hash)] = struct{}{}
	a.parted.add(seat, hash)
	a.any = true
	return s, nil
}

// judge puts what each rule alone would have said in the place of what the bill
// says of its charges. The bill's own decision stays. hashes are those of the
// charges' keys.
func (a *alone) judge(ctx context.Context, v *gate.Verdict, hashes []uint64) error {
	if v.Bill.Allowed && !a.any {
		return nil
	}
	refused, culprit := 0, -1
	if !v.Bill.Allowed {
		for i := range v.Bill.Charges {
			if v.Bill.Charges[i].Trial == 0 && !v.Bill.Each[i].Allowed {
				refused, culprit = refused+1, i
			}
		}
	}
	var known lookup
	for i := range v.Bill.Charges {
		seat := seatOf(v, i)
		parted := a.parted.has(&known, seat, hashes[i])
		if !parted && v.Bill.Allowed {
			continue
		}
		c, d := &v.Bill.Charges[i], &v.Bill.Each[i]
		if c.Peek || c.Limit.IsUnlimited() {
			continue
		}
		here := a.asides[seat]
		if parted { // the limits of two plans are two balances on one key
			_, parted = here.parted[balance(c, hashes[i])]
		}
		if !parted {
			// A try is charged although its live limit refuses.
			charged := refused == 0 || refused == 1 && c.Trial > 0 && int(c.Trial)-1 == culprit
			if !d.Allowed || charged {
				continue
			}
			var err error
			if here, err = a.part(c, seat, hashes[i]); err != nil {
				return err
			}
			known = lookup{}
		}
		var err error
		if *d, err = here.limiter.AllowN(ctx, c.Key, c.Cost, c.Limit); err != nil {
			return err
		}
	}
	return nil
}

// balance tells balances of one seat apart.
func balance(c *weir.Charge, hash uint64) uint64 {
	return hash ^ uint64(c.Limit.Period())*0x9E3779B97F4A7C15 ^ uint64(c.Limit.Kind())
}
