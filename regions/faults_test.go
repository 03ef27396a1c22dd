package regions

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestFaultsAreToldOncePerPeer: letters of two peers and of several instances go
// well and wrong in turn; each change of state is one line, of the peer that it is.
func TestFaultsAreToldOncePerPeer(t *testing.T) {
	var lines []string
	now := time.Duration(1)
	f := &faults{
		tell: func(what string, err error) { lines = append(lines, fmt.Sprint(what, " ", err)) },
		now:  func() time.Duration { return now }, calm: 10 * time.Second, known: map[string]*fault{},
	}
	expect := func(when string, want ...string) {
		t.Helper()
		f.settle()
		if !slices.Equal(lines, want) {
			t.Errorf("%s: %q, want %q", when, lines, want)
		}
		lines = nil
	}
	bad := errors.New("bad")
	f.met("us", nil)
	expect("all is well")
	for range 100 { // from one peer only wrong ones, from another both
		f.met("us", bad)
		f.met("us", nil)
		f.met("asia", nil)
		f.met("africa", bad)
		now += 100 * time.Millisecond
	}
	expect("in turn", "us bad", "africa bad")
	f.met("us", nil)
	now += 9 * time.Second
	expect("not for long")
	now += time.Second
	expect("well for long", "us <nil>")
	now += time.Hour
	expect("nothing was heard of the other")
	f.met("africa", nil)
	expect("well at last", "africa <nil>")
	f.met("us", bad)
	expect("again", "us bad")
}

// TestAFaultWithoutAGoodSign is over when it was not met for a while, and told of again
// when it comes again.
func TestAFaultWithoutAGoodSign(t *testing.T) {
	var lines []string
	now := time.Duration(1)
	f := &faults{
		tell: func(what string, err error) { lines = append(lines, fmt.Sprint(what, " ", err)) },
		now:  func() time.Duration { return now }, calm: 10 * time.Second, known: map[string]*fault{},
	}
	for range 2 {
		for range 100 {
			f.came("stranger", errStranger)
			now += 9 * time.Second
			f.settle()
		}
		now += time.Second
		f.settle()
	}
	begin, end := fmt.Sprint("stranger ", errStranger), "stranger <nil>"
	if want := []string{begin, end, begin, end}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
