package headers

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestHolds(t *testing.T) {
	var h Holds
	now := time.Unix(1700000000, 0)
	left := func(to string, want time.Duration) {
		t.Helper()
		if got := h.Left(to, now); got != want {
			t.Errorf("%s: %v is left, want %v", to, got, want)
		}
	}
	left("a", 0)
	h.Add("a", now, 10*time.Second)
	h.Add("a", now, 5*time.Second) // a shorter quiet ends no longer one
	h.Add("b", now, -time.Second)
	left("a", 10*time.Second)
	left("b", 0)
	now = now.Add(10 * time.Second)
	left("a", 0)
	h.Add("a", now, 1_764_460_807*time.Second) // an instant where a wait was asked for
	left("a", 24*time.Hour)
}

// TestHoldsAreBounded: many destinations do not fill memory, what is over goes
// first, and then what ends first.
func TestHoldsAreBounded(t *testing.T) {
	var h Holds
	now := time.Unix(1700000000, 0)
	for n := range 5 * mostHolds {
		h.Add(fmt.Sprint(n), now, time.Duration(10+n)*time.Second)
	}
	if len(h.until) != mostHolds || h.Left(fmt.Sprint(5*mostHolds-1), now) == 0 || h.Left("0", now) != 0 {
		t.Errorf("%d destinations are remembered", len(h.until))
	}
	now = now.Add(24 * time.Hour)
	h.Add("a", now, time.Second)
	if len(h.until) != 1 {
		t.Errorf("%d destinations are remembered although the quiet of all but one is over", len(h.until))
	}
}

// TestResetInMilliseconds: some servers count the instant of a reset in milliseconds.
// Read as seconds that were in thirty thousand years.
func TestResetInMilliseconds(t *testing.T) {
	now := time.UnixMilli(1_764_460_800_000)
	for reset, want := range map[string]time.Duration{
		"1764460807":     7 * time.Second,
		"1764460807500":  7500 * time.Millisecond,
		"1764460799999":  0,
		"7":              7 * time.Second,
		"99999999999999": time.UnixMilli(99999999999999).Sub(now),
	} {
		h := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {reset}}
		if got := Hold(http.StatusOK, h, now); got != want {
			t.Errorf("%s: %v, not %v", reset, got, want)
		}
	}
}
