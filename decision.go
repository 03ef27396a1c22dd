package weir

import (
	"time"

	"github.com/weirhq/weir/algo"
)

// Decision is the answer to a bill, or to one charge of it. Times are whole
// microseconds and count from the store's clock when it decided.
type Decision struct {
	Allowed bool
	Reason  Reason
	Binding uint8  // index of the charge that decided the bill
	Source  string // who decided: memory redis deny_cache lease local none

	// Limit is what could be admitted at one instant from idle, and Remaining
	// how many whole units one more charge could take now, after this decision.
	// Both are Unbounded for an unlimited charge.
	Limit, Remaining int64

	RetryAfter time.Duration // 0 when admitted; exact when denied; Never when it can never fit
	ResetAfter time.Duration // until the balance is as if never used
	Delay      time.Duration // how long an admitted charge must wait before it acts
}

// Never is the RetryAfter of what can never fit.
const Never time.Duration = algo.Never

// Unbounded is the Limit and Remaining of an unlimited charge.
const Unbounded = -1

// Reason says why a decision is as it is.
type Reason uint8

// The reasons, as every door spells them.
const (
	OK           Reason = iota // admitted
	Limited                    // denied: does not fit now
	TooLarge                   // denied: can never fit
	Blocked                    // denied: the key is blocked
	Missing                    // denied: the rule needs a key part the request lacks
	FailedOpen                 // admitted unchecked: no store, and the limit is open
	FailedClosed               // denied: no store, and the limit is closed
)

var reasonNames = [...]string{"ok", "limited", "too_large", "blocked", "missing", "failed_open", "failed_closed"}

// String returns the reason's word.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Failure is a limit's answer for when its store cannot decide.
type Failure uint8

// The answers. In a bill Closed beats Local and Share, and those beat Open.
const (
	Local  Failure = iota // each instance applies the whole limit in its own memory
	Share                 // each instance applies the limit divided by the live instances
	Open                  // admit while the store cannot be reached; a slow or full store answers as Local
	Closed                // deny
)

var failureNames = [...]string{"local", "share", "open", "closed"}

// String returns the word that on_store_failure= takes.
func (f Failure) String() string {
	if int(f) < len(failureNames) {
		return failureNames[f]
	}
	return "unknown"
}

func failureNamed(s string) (Failure, bool) {
	for i, name := range failureNames {
		if name == s {
			return Failure(i), true
		}
	}
	return 0, false
}
