// Package gate is the way every request goes: who is it, which limits apply, do
// they admit it. Doors call it; it knows no protocol.
//
//	Call → Locate → exempt? → Identify → disabled? → Charges → Limiter → Verdict
//
// The order is from cheap to dear: an exempt address costs no look-up of its API
// key, and a refused one no trip to the store.
package gate

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Gate decides requests. It is safe for concurrent use.
type Gate struct {
	limiter  *weir.Limiter
	observer weir.Observer
	current  atomic.Pointer[inForce]
	switches atomic.Pointer[[]ModeSwitch]
	trial    atomic.Bool
}

// inForce is what one decision is made by. Policy and resolver come from one
// file, so they are swapped as one, and a decision loads the pointer once.
type inForce struct {
	resolver *identity.Resolver
	policy   *policy.Policy
}

// New returns a Gate. A nil r believes nobody, a nil p has no rules and admits
// everything. The Limiter is not closed by the Gate.
func New(l *weir.Limiter, r *identity.Resolver, p *policy.Policy) *Gate {
	g := &Gate{limiter: l}
	g.Swap(r, p)
	return g
}

// Swap puts a policy and the resolver that goes with it in force. A decision is
// made by the old pair or by the new, never by parts of both; balances stay.
func (g *Gate) Swap(r *identity.Resolver, p *policy.Policy) {
	if r == nil {
		r, _ = identity.NewResolver(identity.Config{}) // the zero value is right
	}
	if p == nil {
		p = new(policy.Policy)
	}
	g.current.Store(&inForce{r, p})
}

// SetObserver sets who hears of requests that are refused without a bill; the
// Limiter's own observer hears of the bills. It is called before the first
// Decide.
func (g *Gate) SetObserver(o weir.Observer) { g.observer = o }

// SetTrial says whether the policy is only tried: then nothing refuses a request but
// rules that are enforced. A disabled key, a path with several readings and too many
// limits do not.
func (g *Gate) SetTrial(on bool) { g.trial.Store(on) }

// Policy returns the policy in force.
func (g *Gate) Policy() *policy.Policy { return g.current.Load().policy }

// Resolver returns the resolver in force.
func (g *Gate) Resolver() *identity.Resolver { return g.current.Load().resolver }

// Decide decides the request and writes the answer into v. The error is bad
// input (*weir.InputError: nothing was charged), a dead context, or
// weir.ErrClosed; a store failure is an answer.
func (g *Gate) Decide(ctx context.Context, call *identity.Call, v *Verdict) error {
	if open, err := g.Claim(ctx, call, v, &v.claims); !open || err != nil {
		return err
	}
	return g.charge(ctx, v, &v.claims, 0, v.claims.Len())
}

// Claim is the first half of Decide, which asks no store: who is it, and which
// limits apply. open says that the request hangs on the claims that were added
// to c; else v holds the answer. It is for who decides many requests and has
// another goroutine for the second half, DecideClaims.
func (g *Gate) Claim(ctx context.Context, call *identity.Call, v *Verdict, c *policy.Claims) (open bool, err error) {
	v.reset()
	v.Bill.Note = v
	if call.Peek {
		v.Bill.Verb = algo.Peek // also of a refusal without a bill, which observers hear of
	}
	v.match.Sketch, v.match.All = v.Sketch, v.All
	now := g.current.Load()
	v.Caller = now.resolver.Locate(call)
	if now.policy.Exempt(call, &v.Caller, &v.match) {
		v.Exempt = true
		v.settle(true, weir.OK)
		return false, ctx.Err()
	}
	if err := now.resolver.Identify(ctx, call, &v.Caller); err != nil {
		return false, err
	}
	v.match.Trial = g.trial.Load()
	if v.Caller.Disabled() && !v.match.Trial {
		return false, g.refuse(ctx, v, weir.Blocked, nil)
	}
	v.match.Modes = g.modes()
	first := c.Len()
	if err := now.policy.Claim(call, &v.Caller, &v.match, c); err != nil {
		return false, err
	}
	if v.match.Denied != nil {
		return false, g.refuse(ctx, v, weir.Missing, v.match.Denied)
	}
	v.Exempt = v.match.Exempt
	if c.Len() == first {
		v.settle(true, weir.OK)
		return false, ctx.Err()
	}
	return true, nil
}

// DecideClaims is the second half of Decide: it takes what the claims of one
// request come to, which are those from first up to end. v may be another than
// Claim's; it then knows neither caller nor routes, and the request is no peek.
func (g *Gate) DecideClaims(ctx context.Context, v *Verdict, c *policy.Claims, first, end int) error {
	v.reset()
	v.Bill.Note = v
	return g.charge(ctx, v, c, first, end)
}

// PeekClaims is DecideClaims without charging anything: what each rule would have
// said of a request that another refused. See Verdict.All.
func (g *Gate) PeekClaims(ctx context.Context, v *Verdict, c *policy.Claims, first, end int) error {
	v.reset()
	v.Bill.Note, v.Bill.Verb = v, algo.Peek
	return g.charge(ctx, v, c, first, end)
}

func (g *Gate) charge(ctx context.Context, v *Verdict, c *policy.Claims, first, end int) error {
	v.match.Charge(c, first, end)
	v.Bill.Charges, v.Rules = v.match.Charges, v.match.Rules
	v.boundWaits()
	v.bills[0] = &v.Bill
	return g.limiter.Decide(ctx, v.bills[:]...)
}

// Sketch returns what the policy in force says of all requests with the call's
// method, host and path, or nil; see policy.Sketch. It is for who decides many
// requests that are alike, and sets Verdict.Sketch.
func (g *Gate) Sketch(call *identity.Call) *policy.Sketch {
	return g.Policy().Sketch(call.Method, call.Host, call.Path)
}

// refuse answers without a bill.
func (g *Gate) refuse(ctx context.Context, v *Verdict, why weir.Reason, rule *policy.Rule) error {
	v.Rule = rule
	v.settle(false, why)
	v.Bill.GiveID()
	if g.observer != nil {
		g.observer.Observe(ctx, weir.Event{Bill: &v.Bill})
	}
	return ctx.Err()
}

// ModeSwitch puts a rule, or with Rule "" every rule not named by another
// switch, into Mode until Until.
type ModeSwitch struct {
	Rule  string
	Mode  policy.Mode
	Until time.Time
}

// SetModes replaces the switches. They end by themselves at their time, whether
// or not anybody sets them again.
func (g *Gate) SetModes(switches []ModeSwitch) {
	if len(switches) == 0 {
		g.switches.Store(nil)
		return
	}
	list := append([]ModeSwitch(nil), switches...)
	g.switches.Store(&list)
}

// Switches returns the switches that have not ended.
func (g *Gate) Switches() (list []ModeSwitch) {
	now := time.Now()
	if p := g.switches.Load(); p != nil {
		for _, s := range *p {
			if now.Before(s.Until) {
				list = append(list, s)
			}
		}
	}
	return list
}

// modes returns the switches that have not ended. There are none but in an
// emergency, so the map is made anew each time rather than kept up to date.
func (g *Gate) modes() policy.Modes {
	list := g.switches.Load()
	if list == nil {
		return nil
	}
	now := time.Now()
	var modes policy.Modes
	for _, s := range *list {
		if now.Before(s.Until) {
			if modes == nil {
				modes = policy.Modes{}
			}
			modes[s.Rule] = s.Mode
		}
	}
	return modes
}
