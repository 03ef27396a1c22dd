// Package storetest runs the conformance suite of package verify under go test.
// Whoever writes a Store calls Run from a test of it.
package storetest

import (
	"os"
	"strconv"
	"testing"

	"github.com/weirhq/weir/verify"
)

// Run checks that the stores open returns answer every vector and keep every
// promise over 10,000 random histories, 500 with -short; the environment
// variable WEIR_HISTORIES asks for another number. The seed is logged: with WEIR_SEED it is used again.
func Run(t *testing.T, open verify.Open) {
	t.Helper()
	RunOptions(t, open, verify.Options{})
}

// RunOptions is Run with other options. The environment wins.
func RunOptions(t *testing.T, open verify.Open, o verify.Options) {
	t.Helper()
	if testing.Short() && o.Histories == 0 {
		o.Histories = 500
	}
	if n := fromEnv(t, "WEIR_HISTORIES"); n > 0 {
		o.Histories = int(n)
	}
	if n := fromEnv(t, "WEIR_SEED"); n > 0 {
		o.Seed = n
	}
	r, err := verify.Run(t.Context(), open, o)
	t.Logf("seed %d: %d passed, %d failed", r.Seed, r.Passed, r.Failed)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s, step %d: %s is %v, want %v", f.ID, f.Step, f.Field, f.Got, f.Want)
	}
	if more := r.Failed - len(r.Failures); more > 0 {
		t.Errorf("and %d more", more)
	}
}

func fromEnv(t *testing.T, name string) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
