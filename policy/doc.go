// Package policy says which limits apply to a request. A Policy is a list of
// rules compiled once; it turns a Call and its Caller into the charges of one
// bill, every rule that matches being one charge.
//
//	Rule (as written) → Compile → Policy ─ Charges(Call, Caller) → Match
//
// It knows no file format (package policyfile does), no protocol and no store,
// and takes no decision.
package policy
