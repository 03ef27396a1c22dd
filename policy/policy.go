package policy

import (
	"sync"
	"sync/atomic"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// Options is everything a Policy is compiled from.
type Options struct {
	Rules  []Rule
	Exempt []Conditions // tried first; a request that matches one is not charged

	// RejectAmbiguous refuses a request whose path can be read in two ways
	// instead of charging it under every reading.
	RejectAmbiguous bool

	// Regions is what limits with a scope are shared between.
	Regions Regions
}

// Policy is a compiled list of rules. It is immutable and safe for concurrent
// use.
type Policy struct {
	rules  []rule
	byName map[string]int
	index  *index // of the rules' Match

	exempts     []Conditions
	early       []conditions // exempt entries that need no look-up of the caller
	late        []conditions // and those that do
	earlyIndex  *index
	lateIndex   *index
	rejectTwice bool // Options.RejectAmbiguous
	regions     Regions

	overrides     sync.Map // text of a Caller.Limits entry → *override
	overrideCount atomic.Int64
}

// Rules returns the rules in order. They must not be changed.
func (p *Policy) Rules() []*Rule {
	list := make([]*Rule, len(p.rules))
	for i := range p.rules {
		list[i] = &p.rules[i].Rule
	}
	return list
}

// Exemptions returns the exempt entries. They must not be changed.
func (p *Policy) Exemptions() []Conditions { return p.exempts }

// override is a parsed entry of Caller.Limits.
type override struct {
	limit   weir.Limit
	sound   bool
	failure bool // it says what to answer without a store
}

// maxOverrides bounds the parsed overrides that are kept. There are as many as
// there are different limits in the directory, which its owner chooses; beyond
// the bound they are parsed each time.
const maxOverrides = 10_000

// limit returns what r grants the caller. The order is: the tenant's own limit,
// the limit of the caller's plan, the rule's limit. None at all is nil. What is
// not the rule's own stands in c.
func (p *Policy) limit(r *rule, caller *identity.Caller, c *Claims) *weir.Limit {
	if len(caller.Limits) > 0 {
		if text, ok := caller.Limits[r.Name]; ok {
			if o := p.override(text); o.sound {
				if !o.failure {
					return c.keep(o.limit.OnFailure(r.OnFailure))
				}
				return &o.limit
			}
		}
	}
	if caller.Plan != "" && len(r.Plans) > 0 {
		if l, ok := r.Plans[caller.Plan]; ok {
			return c.keep(l)
		}
	}
	if !r.limited {
		return nil
	}
	return &r.Limit
}

func (p *Policy) override(text string) *override {
	if o, ok := p.overrides.Load(text); ok {
		return o.(*override)
	}
	o := parseOverride(text)
	if p.overrideCount.Load() < maxOverrides {
		if _, loaded := p.overrides.LoadOrStore(text, o); !loaded {
			p.overrideCount.Add(1)
		}
	}
	return o
}
