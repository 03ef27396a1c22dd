//go:build !race

package weir

import (
	"context"
	"testing"

	"github.com/weirhq/weir/algo"
)

// TestNoAllocations: a decision in memory allocates nothing. The race detector
// makes pools forget, so this is not for it.
func TestNoAllocations(t *testing.T) {
	ctx := context.Background()
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one, hour, log := PerSecond(1_000_000), Per(1_000_000, 3600e9), Per(3, 1e9).Using(algo.SlidingLog)
	bill := func(n int) *Bill {
		b := &Bill{}
		for i := range n {
			b.Charges = append(b.Charges, one.Charge(string(rune('a'+i))))
		}
		return b
	}
	three, five := bill(3), bill(5)
	var batch []*Bill
	for range 16 {
		b := bill(1)
		b.NoReceipts = true
		batch = append(batch, b)
	}
	var fail error
	note := func(err error) {
		if err != nil {
			fail = err
		}
	}
	for name, decide := range map[string]func(){
		"Allow":                  func() { _, err := l.Allow(ctx, "k", one); note(err) },
		"Allow, denied":          func() { _, err := l.Allow(ctx, "none", PerMinute(0)); note(err) },
		"Allow, sliding log":     func() { _, err := l.Allow(ctx, "log", log); note(err) },
		"Allow, a plan per call": func() { _, err := l.Allow(ctx, "plan", PerSecond(1000).Burst(2000).Named("p")); note(err) },
		"Allow, three limits":    func() { _, err := l.Allow(ctx, "k", one, hour, one.Using(algo.SlidingWindow)); note(err) },
		"Take, two keys":         func() { _, err := l.Take(ctx, one.Charge("a"), hour.Charge("b")); note(err) },
		"Peek":                   func() { _, err := l.Peek(ctx, one.Charge("a")); note(err) },
		"a kept bill of 3":       func() { note(l.Decide(ctx, three)) },
		"a kept bill of 5":       func() { note(l.Decide(ctx, five)) },
		"brief bills":            func() { note(l.Decide(ctx, batch...)) },
		"two kept bills":         func() { note(l.Decide(ctx, three, five)) },
	} {
		decide() // grows what is kept
		if n := testing.AllocsPerRun(1000, decide); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if fail != nil {
		t.Error(fail)
	}
}

// TestParseLimitAllocations: reading a limit string allocates nothing.
func TestParseLimitAllocations(t *testing.T) {
	for _, s := range []string{"100/min", "20/s burst=200", "5/min algorithm=sliding_window name=login", "5/day algorithm=fixed_window tz=Europe/Paris"} {
		if n := testing.AllocsPerRun(200, func() {
			if _, err := ParseLimit(s); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", s, n)
		}
	}
}
