package gate

import (
	"context"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Explanation is what Decide would answer and why, in the words of the admin
// endpoint.
type Explanation struct {
	Caller  CallerText `json:"caller"`
	Matched []Matched  `json:"matched"`
	Skipped []Skipped  `json:"skipped"`
	Exempt  bool       `json:"exempt,omitempty"`
	Allowed bool       `json:"allowed"`
	Reason  string     `json:"reason"`
}

// CallerText is the caller as it was made out; what is unknown is empty.
type CallerText struct {
	IP     string `json:"ip"`
	Tenant string `json:"tenant"`
	Plan   string `json:"plan"`
	User   string `json:"user"`
	APIKey string `json:"api_key"` // what is known of it, never the key
}

// Matched is a charge that the request makes.
type Matched struct {
	Rule         string `json:"rule"`
	Key          string `json:"key"`
	Cost         int64  `json:"cost"`
	Limit        string `json:"limit"`
	Remaining    *int64 `json:"remaining"` // null if unlimited
	Allowed      bool   `json:"allowed"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Shadow       bool   `json:"shadow,omitempty"` // does not decide
	Try          bool   `json:"try,omitempty"`    // stands for the rule's try
}

// Skipped is a rule that does not apply, and why.
type Skipped struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Explain says what Decide would answer and why, and charges nothing.
func (g *Gate) Explain(ctx context.Context, call *identity.Call) (*Explanation, error) {
	peek := *call
	peek.Peek = true
	v := &Verdict{Door: "explain"}
	v.match.Explain = true
	if err := g.Decide(ctx, &peek, v); err != nil {
		return nil, err
	}
	e := &Explanation{
		Caller: CallerText{Tenant: v.Caller.Tenant, Plan: v.Caller.Plan, User: v.Caller.User, APIKey: v.Caller.Key.String()},
		Exempt: v.Exempt, Allowed: v.Bill.Allowed, Reason: v.Bill.Reason.String(),
		Matched: []Matched{}, Skipped: []Skipped{},
	}
	if v.Caller.IP.IsValid() {
		e.Caller.IP = v.Caller.IP.String()
	}
	for i, r := range v.Rules {
		e.Matched = append(e.Matched, v.explain(i, r))
	}
	for _, s := range v.match.Skipped {
		e.Skipped = append(e.Skipped, Skipped{s.Rule.Name, s.Why})
	}
	if v.Rule != nil {
		e.Skipped = append(e.Skipped, Skipped{v.Rule.Name, "refuses: a key part is missing (on_missing: deny)"})
	}
	return e, nil
}

func (v *Verdict) explain(i int, r *policy.Rule) Matched {
	c, d := &v.Bill.Charges[i], &v.Bill.Each[i]
	m := Matched{
		Rule: r.Name, Key: KeyText(r, c.Key), Cost: c.Cost, Limit: c.Limit.String(),
		Allowed: d.Allowed, RetryAfterMS: -1, Shadow: c.Trial != 0, Try: v.match.Try(i),
	}
	if d.RetryAfter != weir.Never {
		m.RetryAfterMS = int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	if d.Remaining != weir.Unbounded {
		remaining := d.Remaining
		m.Remaining = &remaining
	}
	return m
}

// KeyText returns the key of a charge of r for people, such as
// "ip=192.0.2.1/32 route=/login". It is no longer unambiguous.
func KeyText(r *policy.Rule, key string) string {
	values, ok := identity.ReadKey(key)
	if !ok || len(values) != len(r.Key) {
		return key
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = r.Key[i].String() + "=" + v.Value
		switch {
		case v.StandIn && v.Value == "":
			words[i] = r.Key[i].String() + "=(missing)"
		case v.StandIn:
			words[i] = r.Key[i].String() + "=(missing, ip " + v.Value + ")"
		case v.Hashed:
			words[i] = r.Key[i].String() + "=(sha256 " + v.Value + ")"
		}
	}
	return strings.Join(words, " ")
}

// Reset forgets the balances of a rule for the given key parts (all of them, a
// part without a value as identity.NoValue), such as
// {"ip": "192.0.2.1"}; those of every plan and of the rule's try with it. The
// error is an *weir.InputError that names what is wrong, or the store's.
func (g *Gate) Reset(ctx context.Context, rule string, parts map[string]string) error {
	return g.each(ctx, rule, parts, func(c weir.Charge) error { return g.limiter.Reset(ctx, c) })
}

// Block refuses everything on those balances for d, at most 366 days; 0 lifts a
// block. A rule that is unlimited for everybody has no balance that could refuse, and
// is an *weir.InputError.
func (g *Gate) Block(ctx context.Context, rule string, parts map[string]string, d time.Duration) error {
	refuses := false
	err := g.each(ctx, rule, parts, func(c weir.Charge) error {
		refuses = refuses || !policy.OfTry(c)
		return g.limiter.Block(ctx, d, c)
	})
	if err == nil && d > 0 && !refuses {
		err = &weir.InputError{Field: "rule", Problem: "has no limit but unlimited, so there is no balance to block"}
	}
	return err
}

// each does something to every balance that the parts may name. A tenant's own limit
// may be of another period than the rule's, and so another balance; where nothing was
// decided under it here it has to be looked up.
func (g *Gate) each(ctx context.Context, rule string, parts map[string]string, do func(weir.Charge) error) error {
	now := g.current.Load()
	own, err := now.resolver.OwnLimits(ctx, rule, parts["tenant"])
	if err != nil {
		return err
	}
	charges, err := now.policy.Balances(rule, parts, now.resolver.NetworkOf, own...)
	if err != nil {
		return err
	}
	for _, c := range charges {
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}
