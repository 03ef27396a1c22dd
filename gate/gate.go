// Package gate is the way every request goes: who is it, which limits apply, do
// they admit it. Doors call it; it knows no protocol.
package gate

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Gate decides requests. It is safe for concurrent use.
type Gate struct{}

// New returns a Gate. A nil p has no rules and admits everything.
func New(l *weir.Limiter, r *identity.Resolver, p *policy.Policy) *Gate { return &Gate{} }

// Swap puts a policy and the resolver that goes with it in force. A decision is
// made by the old pair or by the new, never by parts of both; balances stay.
func (g *Gate) Swap(r *identity.Resolver, p *policy.Policy) {}

// Policy returns the policy in force.
func (g *Gate) Policy() *policy.Policy { return nil }

// Decide decides the request and writes the answer into v. The error is bad
// input (*weir.InputError: nothing was charged), a dead context, or
// weir.ErrClosed; a store failure is an answer.
func (g *Gate) Decide(ctx context.Context, call *identity.Call, v *Verdict) error { return nil }

// Explain says what Decide would answer and why, and charges nothing.
func (g *Gate) Explain(ctx context.Context, call *identity.Call) (*Explanation, error) {
	return nil, nil
}

// Reset forgets the balances of a rule for the given key parts.
func (g *Gate) Reset(ctx context.Context, rule string, parts map[string]string) error { return nil }

// Block refuses everything on those balances for d; 0 lifts a block.
func (g *Gate) Block(ctx context.Context, rule string, parts map[string]string, d time.Duration) error {
	return nil
}

// SetModes replaces the switches that put rules into another mode for a while.
func (g *Gate) SetModes(switches []ModeSwitch) {}

// ModeSwitch puts a rule, or with Rule "" every rule, into Mode until Until.
type ModeSwitch struct {
	Rule  string
	Mode  policy.Mode
	Until time.Time
}
