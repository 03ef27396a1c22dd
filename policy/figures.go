package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// What a balance takes. The memory store keeps 32 bytes a balance in tables that
// are never quite full: 46 bytes a balance were measured at ten million. In Redis
// 100,000 keys of the usual length, with values of 40 bytes and a time to live,
// made used_memory grow by 213 bytes each on 7.0; the states are a little
// shorter. A log adds 16 bytes for each charge that counts, and has up to as many
// that no longer do.
const (
	memorySlot = 46
	redisEntry = 200
	logEntry   = 2 * 16
)

// Figures is what a limit promises and what it takes.
type Figures struct {
	Variant
	Most        int64         // admitted in any span of Period
	Period      time.Duration // of a calendar limit the longest
	MemoryBytes int64         // a caller, at most, in memory
	RedisBytes  int64         // a caller, at most, in Redis
	Shared      bool          // one balance for everybody

	// Overshoot is the most that all regions admit beyond the limit under
	// ScopeGlobal, and once more for each partition; else 0.
	Overshoot int64
}

// Figures works out the figures of every limit but the unlimited.
func (p *Policy) Figures() []Figures {
	var out []Figures
	for _, v := range p.Variants() {
		if v.Limit.IsUnlimited() {
			continue
		}
		f := Figures{
			Variant: v, Most: v.Limit.MostInPeriod(), Period: v.Limit.Period(),
			MemoryBytes: memorySlot + logBytes(v.Limit), RedisBytes: redisEntry + logBytes(v.Limit),
			Shared: len(v.Rule.Key) == 1 && v.Rule.Key[0].String() == "all",
		}
		if v.Rule.Scope == ScopeGlobal {
			f.Overshoot = p.regions.Overshoot(v.Limit)
		}
		out = append(out, f)
	}
	return out
}

func logBytes(l weir.Limit) int64 {
	if l.Kind() != algo.SlidingLog {
		return 0
	}
	return l.Units() * logEntry
}

// String returns the figures as a line for people.
func (f Figures) String() string {
	s := fmt.Sprintf("%s: %s admits at most %d in any %s", f.name(), f.Limit, f.Most, periodOf(f.Limit))
	switch {
	case f.Overshoot > 0:
		s += fmt.Sprintf(" over all regions, at most %d beyond it until they know of each other and once more for each partition", f.Overshoot)
	case f.Rule.Scope == ScopeShare:
		s += " over all regions, never beyond it"
	}
	if f.Shared {
		return s + "; one balance for everybody"
	}
	return s + fmt.Sprintf("; a caller takes up to %s (in Redis about %s), 100,000 callers %s (%s)",
		byteText(f.MemoryBytes), byteText(f.RedisBytes), byteText(100_000*f.MemoryBytes), byteText(100_000*f.RedisBytes))
}

// periodOf spells the period of a limit as its author did.
func periodOf(l weir.Limit) string {
	_, period, _ := strings.Cut(l.String(), "/")
	period, _, _ = strings.Cut(period, " ")
	return period
}

func byteText(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}
