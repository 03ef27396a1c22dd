package policy

import (
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

	// Overrides are the limits that a store holds for single tenants, or nil.
	Overrides Overrides
}

// Overrides gives the limit of one tenant under one rule where it differs from
// the policy's. It answers from memory and is safe for concurrent use.
type Overrides interface {
	Limit(tenant, rule string) (weir.Limit, bool)
}

// Policy is a compiled list of rules. It is immutable and safe for concurrent
// use.
type Policy struct{}

// Compile checks the rules and prepares them for matching. The error is a list
// of *RuleError, every fault that was found.
func Compile(o Options) (*Policy, error) { return &Policy{}, nil }

// Rules returns the rules in order. They must not be changed.
func (p *Policy) Rules() []*Rule { return nil }

// Charges fills m with what the request is charged. The error is an
// *weir.InputError for a path that is refused; nothing must then be charged.
func (p *Policy) Charges(call *identity.Call, caller *identity.Caller, m *Match) error { return nil }

// Balances returns the charges that name the balances of rule for a caller with
// the given key parts, such as {"ip": "192.0.2.1"}: one for each algorithm and
// period the rule may use. It is for resets and blocks.
func (p *Policy) Balances(rule string, parts map[string]string) ([]weir.Charge, error) {
	return nil, nil
}
