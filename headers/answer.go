package headers

import (
	"iter"
	"net/http"
	"time"

	"github.com/weirhq/weir"
)

// Show says how a charge of a bill appears to clients.
type Show struct {
	Name   string // "" for the limit's own name, and `default` where that is empty
	Hidden bool   // leave it out of every field and body
}

// mostMembers bounds the draft-11 fields: a bill may hold 32 charges, and
// clients and proxies bound the length of header lines.
const mostMembers = 4

// Answer is what a client sees of a decided bill. It is a value; the bill may be
// reused once it is made.
type Answer struct {
	// Status is what a door answers with, and may be changed by one that cannot
	// say it so: 200 if the bill was admitted; 429 (or that of Options.Denied) if
	// a quota refused it; 503 if a closed limit has no store; 403 if waiting
	// would not help, since the caller is switched off or has no key.
	Status int
	// Wait is the one jittered wait of a denied bill, in whole seconds: that of
	// Retry-After, of t and of gRPC pushback. 0 means none: the bill was
	// admitted, or no wait will do.
	Wait time.Duration

	meant    int // Status as it was made
	reason   weir.Reason
	id       string   // of the refusal
	denied   *Body    // in place of problem+json, or nil
	violated []string // names of the limits that refused and may be shown

	fields [11]field // the most there can be
	count  int
}

type field struct {
	name  *fieldName
	value string
}

// fieldName is a field's name as standards spell it and as http.Header keys it.
type fieldName struct{ spelled, key string }

func named(s string) *fieldName { return &fieldName{s, http.CanonicalHeaderKey(s)} }

var (
	tripleNames  = [3]*fieldName{named("RateLimit-Limit"), named("RateLimit-Remaining"), named("RateLimit-Reset")}
	xNames       = [3]*fieldName{named("X-RateLimit-Limit"), named("X-RateLimit-Remaining"), named("X-RateLimit-Reset")}
	policyName   = named("RateLimit-Policy")
	quotaName    = named("RateLimit")
	retryName    = named("Retry-After")
	cacheControl = named("Cache-Control")
	decisionName = named("Weir-Decision")
)

// Answer returns the answer to a bill that was decided. Charge i appears as
// shows[i] says; charges beyond shows appear under their limit's name. Trial
// charges and unlimited ones never appear.
func (f *Format) Answer(b *weir.Bill, shows []Show) Answer {
	meant := status(b)
	a := Answer{Status: meant, meant: meant, reason: b.Reason, id: b.IDText()}
	if !b.Allowed {
		if a.Status != http.StatusForbidden {
			a.Wait = f.wait(b.RetryAfter)
		}
		if a.Status == http.StatusTooManyRequests && f.denied != nil {
			a.denied, a.Status = f.denied, f.denied.Status
		}
	}
	w := writer{bill: b, shows: shows, answer: &a}
	w.write(f)
	return a
}

// status maps a bill to an HTTP status. A block that ends is a quota of nothing
// for a while, hence 429; one that never ends is a caller switched off.
func status(b *weir.Bill) int {
	switch {
	case b.Allowed:
		return http.StatusOK
	case b.Reason == weir.FailedClosed:
		return http.StatusServiceUnavailable
	case b.Reason == weir.Missing, b.Reason == weir.Blocked && b.RetryAfter == weir.Never:
		return http.StatusForbidden
	}
	return http.StatusTooManyRequests
}

// Meant returns what Status says whatever the door or Options.Denied made of it:
// 200, 429, 503 or 403.
func (a *Answer) Meant() int { return a.meant }

// Write sets the fields. Nothing else in h changes.
func (a *Answer) Write(h http.Header) {
	if a.count == 0 {
		return
	}
	values := make([]string, a.count) // one allocation for all fields
	for i := range values {
		values[i] = a.fields[i].value
		h[a.fields[i].name.key] = values[i : i+1 : i+1]
	}
}

// Fields yields the fields, names as the standards spell them. It is for doors
// whose headers are no http.Header.
func (a *Answer) Fields() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i := range a.fields[:a.count] {
			if !yield(a.fields[i].name.spelled, a.fields[i].value) {
				return
			}
		}
	}
}
