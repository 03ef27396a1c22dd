package replay

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"

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
	seed   maphash.Seed
	spaces map[string]*aside
}

// aside is the balances of one space that are here. Each space has a store of
// its own, in which keys need no space: those charges are the cheapest.
type aside struct {
	memory  *weir.Memory
	limiter *weir.Limiter
	parted  map[uint64]struct{} // by print
}

func newAlone(of *weir.Memory, bytes int64) *alone {
	return &alone{gate: of, bytes: bytes, seed: maphash.MakeSeed(), spaces: map[string]*aside{}}
}

func (a *alone) close() (err error) {
	for _, s := range a.spaces {
		err = errors.Join(err, s.limiter.Close())
	}
	return err
}

// part copies a balance here.
func (a *alone) part(c *weir.Charge, print uint64) (*aside, error) {
	s := a.spaces[c.Space]
	if s == nil {
		s = &aside{memory: a.gate.Fork(weir.MemoryOptions{MaxBytes: a.bytes}), parted: map[uint64]struct{}{}}
		var err error
		if s.limiter, err = weir.New(weir.Options{Store: s.memory}); err != nil {
			return nil, err
		}
		a.spaces[strings.Clone(c.Space)] = s
	}
	a.gate.Copy(c, s.memory, "")
	s.parted[print] = struct{}{}
	return s, nil
}

// judge puts what each rule alone would have said in the place of what the bill
// says of its charges. The bill's own decision stays.
func (a *alone) judge(ctx context.Context, v *gate.Verdict) error {
	if v.Bill.Allowed && len(a.spaces) == 0 {
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
	for i := range v.Bill.Charges {
		c, d := &v.Bill.Charges[i], &v.Bill.Each[i]
		if c.Peek || c.Limit.IsUnlimited() {
			continue
		}
		here := a.spaces[c.Space]
		if v.Bill.Allowed && here == nil {
			continue
		}
		print := a.print(c)
		parted := false
		if here != nil {
			_, parted = here.parted[print]
		}
		if !parted {
			// A try is charged although its live limit refuses.
			charged := refused == 0 || refused == 1 && c.Trial > 0 && int(c.Trial)-1 == culprit
			if !d.Allowed || charged {
				continue
			}
			var err error
			if here, err = a.part(c, print); err != nil {
				return err
			}
		}
		var err error
		if *d, err = here.limiter.AllowN(ctx, c.Key, c.Cost, c.Limit); err != nil {
			return err
		}
	}
	return nil
}

// print tells balances of one space apart: the limits of two plans are two.
func (a *alone) print(c *weir.Charge) uint64 {
	return maphash.String(a.seed, c.Key) ^ uint64(c.Limit.Period())*0x9E3779B97F4A7C15 ^ uint64(c.Limit.Kind())
}
