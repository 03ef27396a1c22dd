// Package rls is the door for Envoy and whatever else speaks its Rate Limit
// Service v3, over gRPC and as JSON. It stands in for envoyproxy/ratelimit: the
// same configuration, answers, headers and counters.
//
//	request → service.go: match → charges.go: bills → Limiter → status.go: statuses
//	                                                          → counters.go: counters
//
// That server adds every hit to its counter, and says OVER_LIMIT where the sum is
// beyond the limit. Here a denied bill changes nothing, so the limit of such a
// rule grants one unit more than the rule does (rlsconfig.Rule.Tally): a balance
// that has that unit spent is over the limit, just as a counter beyond it. What
// is refused takes what is left, in a bill after the first; with hits of one,
// which nearly all are, nothing is left by then and there is no second bill.
//
// A rule with on_store_failure: closed is OVER_LIMIT without its store, and so is
// the whole answer, whatever else is in the request: an error would be a pass to
// an Envoy as it is delivered.
package rls
