package gate

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Verdict is one decided request. It may be reused (see Get and Put) and
// belongs to one goroutine at a time. What it points to is valid until then.
type Verdict struct {
	// Set by the door before Decide.
	Door   string // names the door for observers
	NoWait bool   // the door cannot hold a request: leaky buckets admit at no delay only

	// Written by Decide. Bill.Decision is the answer, also where no charge was
	// made; Bill.Charges are parallel to Rules.
	Bill   weir.Bill
	Rules  []*policy.Rule
	Caller identity.Caller
	Exempt bool         // an exempt entry matched
	Rule   *policy.Rule // that refused for a missing key part; nil for a disabled API key
}

// Shown reports whether charge i may be shown in response headers.
func (v *Verdict) Shown(i int) bool { return false }

// Forbidden reports whether the request was refused without a bill (403):
// Bill.Reason is then Missing or Blocked.
func (v *Verdict) Forbidden() bool { return false }

// Get returns an empty Verdict from a pool.
func Get() *Verdict { return new(Verdict) }

// Put gives v back to the pool. Nothing that it holds may be used afterwards.
func Put(v *Verdict) {}
