// Package verify is the conformance suite of stores as a value: it runs without
// the testing package, so that `weir verify` can run it against a live store.
//
// A store passes if it answers every vector exactly (Vectors), and keeps the
// promises that the contract makes for any traffic (see promises.go). Package
// storetest adapts the suite to go test.
package verify
