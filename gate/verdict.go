package gate

import (
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Verdict is one decided request. It may be reused (see Get and Put) and
// belongs to one goroutine at a time. What it points to is valid until it is
// used for another request or put back.
type Verdict struct {
	// Set by the door before Decide.
	Door   string // names the door, for observers
	NoWait bool   // the door cannot hold a request: leaky buckets admit at no delay only
	// MaxDelay is how long the door can hold a request: leaky buckets admit at no
	// longer delay. 0 sets no bound.
	MaxDelay time.Duration
	// Sketch is what Gate.Sketch said of the request, or nil. One of another
	// policy than that in force is passed over.
	Sketch *policy.Sketch
	// All goes on past a rule that refuses the request for want of a key part: then
	// Gate.Claim adds the claims of the others too, for Gate.PeekClaims.
	All bool

	// Written by Decide. Bill.Decision is the answer, also where nothing was
	// charged; Bill.Each and Bill.Charges are parallel to Rules, and Bill.Note
	// is the Verdict, for observers.
	Bill   weir.Bill
	Rules  []*policy.Rule
	Caller identity.Caller
	Exempt bool         // an exempt entry matched
	Rule   *policy.Rule // that refused for want of a key part

	match  policy.Match
	claims policy.Claims // of Decide
	bills  [1]*weir.Bill
}

// Missing returns, with All, the rules that refused for want of a key part; Rule is
// the first. It is valid as what Verdict points to.
func (v *Verdict) Missing() []*policy.Rule { return v.match.Missing }

// Shown reports whether charge i may be shown in response headers.
func (v *Verdict) Shown(i int) bool { return v.match.Shown(i) }

// Forbidden reports whether the request was refused without a bill (403): the
// API key is disabled (Bill.Reason is Blocked), or Rule wants a key part that is
// missing (Missing).
func (v *Verdict) Forbidden() bool {
	return !v.Bill.Allowed && len(v.Rules) == 0 && (v.Bill.Reason == weir.Blocked || v.Bill.Reason == weir.Missing)
}

// DoorName returns Door. Observers that find a Verdict in Bill.Note need no more
// than this and RuleName, so they need not import this package.
func (v *Verdict) DoorName() string { return v.Door }

// RuleName returns the name of the rule of charge i, or for i = -1 of the rule
// that refused the request, which may be none.
func (v *Verdict) RuleName(i int) string {
	switch {
	case i >= 0 && i < len(v.Rules):
		return v.Rules[i].Name
	case i == -1 && v.Rule != nil:
		return v.Rule.Name
	}
	return ""
}

// RuleNumber returns the place of Rules[i] among the policy's rules.
func (v *Verdict) RuleNumber(i int) int { return v.match.Number(i) }

// TenantName returns the caller's tenant, or nothing.
func (v *Verdict) TenantName() string { return v.Caller.Tenant }

// PlanName returns the caller's plan, or nothing.
func (v *Verdict) PlanName() string { return v.Caller.Plan }

// RouteName returns the pattern by which the rule of charge i matched, or
// nothing. It is found when it is asked for.
func (v *Verdict) RouteName(i int) string { return v.match.Route(i) }

// IsTry reports whether charge i is its rule's try, which stands behind the live
// charge.
func (v *Verdict) IsTry(i int) bool { return v.match.Try(i) }

// Trial is how a rule's try answered beside its live limit, for the four counts
// of a report.
type Trial struct {
	Rule               *policy.Rule
	Admitted, Proposed bool // what the live limit and the try say of the request
}

// Trials yields how each try of the bill answered. Each charge is judged by
// itself: whether another rule refused the request does not matter.
func (v *Verdict) Trials(yield func(Trial) bool) {
	for i := range v.Rules {
		if !v.match.Try(i) {
			continue
		}
		if !yield(Trial{v.Rules[i], v.Bill.Each[i-1].Allowed, v.Bill.Each[i].Allowed}) {
			return
		}
	}
}

var verdicts = sync.Pool{New: func() any { return new(Verdict) }}

// Get returns an empty Verdict from a pool.
func Get() *Verdict { return verdicts.Get().(*Verdict) }

// Put gives v back to the pool. Nothing that it holds may be used afterwards.
func Put(v *Verdict) {
	v.reset()
	v.Door, v.NoWait, v.MaxDelay, v.Sketch, v.All = "", false, 0, nil, false
	v.Bill.NoReceipts = false
	verdicts.Put(v)
}

// reset forgets the last request, its keys and its caller, and keeps the room.
func (v *Verdict) reset() {
	clear(v.Bill.Charges)
	v.Bill.Charges, v.Bill.Each = v.Bill.Charges[:0], v.Bill.Each[:0]
	v.Bill.Decision, v.Bill.Err, v.Bill.Note, v.Bill.ID = weir.Decision{}, nil, nil, [16]byte{}
	v.Bill.MaxWait, v.Bill.Verb = 0, 0
	v.claims.Clear()
	v.Rules, v.Exempt, v.Rule = nil, false, nil
	v.Caller = identity.Caller{}
}

// settle writes an answer that took no bill.
func (v *Verdict) settle(allowed bool, reason weir.Reason) {
	d := weir.Decision{Allowed: allowed, Reason: reason, Source: "none", Limit: weir.Unbounded, Remaining: weir.Unbounded}
	if !allowed {
		d.Limit, d.Remaining, d.RetryAfter = 0, 0, weir.Never
	}
	v.Bill.Decision = d
}
