package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Row is a row of equal requests.
type Row struct {
	Call  identity.Call
	Count int
	After time.Duration // before the first, since the row before
	Every time.Duration // from one to the next
}

// Outcome is what came of a row.
type Outcome struct {
	Admitted  int
	Refused   int
	First     time.Duration // of the first refusal, since the scenario began
	RefusedBy []string      // the rules that refused something, in the order of the policy
}

// scenarioStart is when a scenario begins: a Monday at midnight, in UTC, and the
// beginning of a period of every length that limits usually have.
var scenarioStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Play runs rows one after the other through a policy, from empty balances. The
// error is ctx's, or names a request that the policy takes for a bad one.
func Play(ctx context.Context, p *policy.Policy, r *identity.Resolver, rows []Row) (outcomes []Outcome, err error) {
	now := scenarioStart
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return now.UnixMicro() }})})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	g := gate.New(l, r, p)
	v := &gate.Verdict{Door: "test"}
	for _, row := range rows {
		var o Outcome
		now = now.Add(row.After)
		for i := range row.Count {
			if i > 0 {
				now = now.Add(row.Every)
			}
			if err := g.Decide(ctx, &row.Call, v); err != nil {
				return outcomes, err
			}
			if v.Bill.Allowed {
				o.Admitted++
				continue
			}
			if o.Refused++; o.Refused == 1 {
				o.First = now.Sub(scenarioStart)
			}
			o.addRefusers(v)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// addRefusers notes the rules that would have refused the request by themselves.
func (o *Outcome) addRefusers(v *gate.Verdict) {
	add := func(name string) {
		if name != "" && !slices.Contains(o.RefusedBy, name) {
			o.RefusedBy = append(o.RefusedBy, name)
		}
	}
	add(v.RuleName(-1))
	for i := range v.Rules {
		if !v.Bill.Each[i].Allowed && v.Bill.Charges[i].Trial == 0 {
			add(v.RuleName(i))
		}
	}
}
