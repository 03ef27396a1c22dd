package admin

import (
	"testing"
	"time"
)

// TestLength: a block for less than a store's clock tells apart would lift the one that
// is there.
func TestLength(t *testing.T) {
	for s, want := range map[string]time.Duration{"0s": 0, "1ms": time.Millisecond, "15m": 15 * time.Minute, "500ns": -1, "1us": -1, "-1s": -1, "25h": -1, "1d": -1} {
		got, err := length(s, longestMode)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %v, not %v", s, got, want)
		}
	}
}
