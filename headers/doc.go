// Package headers turns a decided bill into what a client sees of it: response
// header fields, the wait, the status and a problem+json body. Every door that
// speaks to clients uses it, and it is the only place that rounds times to whole
// seconds or milliseconds and the only place that jitters them.
//
//	format, err := headers.New(headers.Options{})   // once
//	answer := format.Answer(bill, nil)              // per decided bill
//	answer.Write(w.Header())                        // admitted or denied
//	if !bill.Allowed {
//	        answer.Refuse(w, r)                     // status, fields and body
//	}
//
// Units: every time in a field is in whole seconds, rounded up, and counts from
// the answer, but for X-RateLimit-Reset, which by default is an instant in
// seconds since the Unix epoch. Quotas and what remains of them are in the units
// that charges cost.
//
// The other direction, what an upstream's answer asks of its client, is read by
// Hold, ParseList and ParseDictionary; Holds remembers it by destination.
package headers
