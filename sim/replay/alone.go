package replay

import (
	"context"
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
	gate    *weir.Memory // the store of the gate
	memory  *weir.Memory
	limiter *weir.Limiter
	seed    maphash.Seed
	parted  map[string]map[uint64]struct{} // balances that are here: by space, then print
}

func newAlone(of *weir.Memory, bytes int64) (*alone, error) {
	a := &alone{gate: of, memory: of.Fork(weir.MemoryOptions{MaxBytes: bytes}), seed: maphash.MakeSeed(), parted: map[string]map[uint64]struct{}{}}
	var err error
	a.limiter, err = weir.New(weir.Options{Store: a.memory})
	return a, err
}

// judge puts what each rule alone would have said in the place of what the bill
// says of its charges. The bill's own decision stays.
func (a *alone) judge(ctx context.Context, v *gate.Verdict) error {
	if v.Bill.Allowed && len(a.parted) == 0 {
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
		c, d := v.Bill.Charges[i], &v.Bill.Each[i]
		if c.Peek || c.Limit.IsUnlimited() {
			continue
		}
		parted := a.parted[c.Space]
		if v.Bill.Allowed && len(parted) == 0 {
			continue
		}
		print := a.print(&c)
		if _, here := parted[print]; !here {
			// A try is charged although its live limit refuses.
			charged := refused == 0 || refused == 1 && c.Trial > 0 && int(c.Trial)-1 == culprit
			if !d.Allowed || charged {
				continue
			}
			a.gate.Copy(&c, a.memory)
			if parted == nil {
				parted = map[uint64]struct{}{}
				a.parted[strings.Clone(c.Space)] = parted
			}
			parted[print] = struct{}{}
		}
		c.Trial = 0
		var err error
		if *d, err = a.limiter.Take(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// print tells balances of one space apart: the limits of two plans are two.
func (a *alone) print(c *weir.Charge) uint64 {
	return maphash.String(a.seed, c.Key) ^ uint64(c.Limit.Period())*0x9E3779B97F4A7C15 ^ uint64(c.Limit.Kind())
}
