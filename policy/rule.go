package policy

import (
	"net/netip"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// Rule is one rule as its author means it. Compile checks it; after that it
// must not be changed. The zero values are the defaults of the policy file.
type Rule struct {
	Name  string     // unique; the rule's balances belong to it
	Match Conditions // all must hold; none hold for every request
	Not   Conditions // if all that are given hold, the rule does not match
	Key   []identity.Part

	// Limit is for callers whose plan Plans does not name. The zero Limit means
	// that there is none: such callers are skipped.
	Limit weir.Limit
	Plans map[string]weir.Limit
	Try   weir.Limit // counted beside the live limit, never decides; zero for none

	// OnFailure is what limits from Caller.Limits answer without a store, unless
	// they say themselves. Limit, Plans and Try carry their own.
	OnFailure weir.Failure

	Cost      Cost
	OnMissing OnMissing
	Expose    Expose
	Mode      Mode
	Scope     Scope
}

// Conditions are what a request is matched by. An empty list does not restrict;
// within a list one match is enough, and every list that is given must match.
type Conditions struct {
	Methods []string // upper case; GET covers HEAD
	Paths   []string // patterns: * is one non-empty segment, ** any number of segments
	Hosts   []string // lower case, no port; *.example.com is every name below it
	IPs     []netip.Prefix
	Tenants []string
	Plans   []string
	Headers []HeaderCondition
}

// HeaderCondition holds if one value of the header is one of Values, or, with no
// Values, if the header is there.
type HeaderCondition struct {
	Name   string // canonical form
	Values []string
}

// Cost is what a request costs under a rule. The most specific path wins.
type Cost struct {
	Default int64 // units; 0 stands for 1 unless Free
	Free    bool  // the default is 0: only Paths cost something
	Paths   map[string]int64
}

// OnMissing says what to do when a key part is missing from the request.
type OnMissing uint8

// What a rule does when a key part is missing.
const (
	UseIP OnMissing = iota // take the address instead, as a kind of its own
	Skip                   // the rule does not apply
	Deny                   // refuse the request, reason missing
)

// Expose says whether the rule's limit may be shown to callers.
type Expose uint8

// Whether a limit shows in response headers.
const (
	ExposeDefault Expose = iota // shown, but for rules keyed by all and rules that do not decide
	ExposeYes
	ExposeNo
)

// Exposed reports whether the rule's limit may be shown to callers: it decides,
// and is not kept back.
func (r *Rule) Exposed() bool {
	switch {
	case r.Mode != Enforce || r.Expose == ExposeNo:
		return false
	case r.Expose == ExposeYes:
		return true
	}
	return len(r.Key) != 1 || r.Key[0].String() != "all"
}

// Mode says whether the rule decides.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Shadow       // judged and counted after the verdict, never decides
)

// String returns the mode's word in the policy file.
func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// ModeNamed returns the mode of a word.
func ModeNamed(word string) (m Mode, ok bool) {
	return map[string]Mode{"enforce": Enforce, "shadow": Shadow}[word], word == "enforce" || word == "shadow"
}
