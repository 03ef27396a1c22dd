package policy

import (
	"github.com/weirhq/weir"
)

// Match is what a policy says of one request. It is filled by Policy.Charges,
// may be reused, and belongs to one goroutine at a time. Keys point into its
// buffer: they are valid until it is filled again.
type Match struct {
	Charges []weir.Charge
	Rules   []*Rule // Rules[i] is the rule of Charges[i]

	Exempt bool        // an exempt entry matched: admit, charge nothing
	Denied weir.Reason // Missing: Rule wants a key part that is missing; OK if not denied
	Rule   *Rule       // that denied

	// Explain, set by the caller, asks for Skipped.
	Explain bool
	Skipped []Skipped
}

// Skipped is a rule that did not apply, and why.
type Skipped struct {
	Rule *Rule
	Why  string
}

// Shown reports whether charge i may be shown in response headers.
func (m *Match) Shown(i int) bool { return false }
