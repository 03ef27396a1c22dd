package sim

import (
	"fmt"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// ParseLimit reads a limit that is to be shown under every algorithm. It is
// weir.ParseLimit, but that a burst which equals the amount is kept apart from
// none: that is the same for a token bucket and not for a leaky one.
func ParseLimit(text string) (weir.Limit, error) {
	limit, err := weir.ParseLimit(text)
	if err != nil || limit.Kind() != algo.TokenBucket {
		return limit, err
	}
	if leaky, err := weir.ParseLimit(text + " algorithm=leaky_bucket"); err == nil {
		return leaky, nil
	}
	return limit, nil // it names its algorithm, or is no bucket's
}

// As returns the limit under another algorithm. A burst stays with the two
// buckets and is left out of those that have none. The error is an
// *weir.InputError.
func As(limit weir.Limit, kind algo.Kind) (weir.Limit, error) {
	if err := limit.Check(); err != nil {
		return limit, err
	}
	switch {
	case limit.IsUnlimited():
		return limit, &weir.InputError{Field: "limit", Problem: "unlimited has nothing to show; use one such as 100/min"}
	case limit.Quota().Calendar != nil:
		return limit, &weir.InputError{Field: "limit", Problem: "has calendar periods (tz=), which are fixed_window's alone; use a plain one such as 1000/day"}
	}
	l := weir.Per(limit.Units(), limit.Period()).Using(kind)
	if burst, given := burstOf(limit); given && kind.Bucket() {
		l = l.Burst(burst)
	}
	if err := l.Check(); err != nil {
		return l, fmt.Errorf("under %s: %w", kind, err)
	}
	return l, nil
}

// burstOf returns the limit's burst, if it is not its algorithm's own.
func burstOf(limit weir.Limit) (burst int64, given bool) {
	switch limit.Kind() {
	case algo.TokenBucket:
		return limit.Most(), limit.Most() != limit.Units()
	case algo.LeakyBucket:
		return limit.Most() - 1, limit.Most() > 1
	}
	return 0, false
}

// Spell spells what of limit counts here: its amount, its period and the burst
// of the buckets.
func Spell(limit weir.Limit) string {
	s := weir.Per(limit.Units(), limit.Period()).String()
	if burst, given := burstOf(limit); given {
		s += fmt.Sprintf(" burst=%d", burst)
	}
	return s
}
