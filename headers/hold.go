package headers

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Hold returns for how long an upstream's answer asks its client to send no
// more: 0 for not at all. now is when the answer arrived.
//
// On a refusal (status 400 and up) Retry-After says it, in seconds or as a date,
// and wins over all else. Otherwise a quota with nothing left does, until it has
// something again: RateLimit as of draft-08 and later, RateLimit as of draft-07,
// RateLimit-Remaining and -Reset, X-RateLimit-Remaining and -Reset (a number
// of seconds, or, from 10^9 on, an instant, from 10^12 on in milliseconds). Quota fields of an answer from a
// cache (Age above 0) are old and not believed. A field that is malformed is
// ignored; what is believed is a hint by another party, so the caller bounds it.
func Hold(status int, h http.Header, now time.Time) time.Duration {
	if status >= 400 {
		if d, ok := retryAfter(h.Get("Retry-After"), now); ok {
			return d
		}
	}
	if age, ok := wholeSeconds(h.Get("Age")); ok && age > 0 {
		return 0
	}
	if lines := h["Ratelimit"]; len(lines) > 0 {
		if n, ok := spentFor(lines); ok {
			return seconds(n)
		}
	}
	if d, ok := spentTriple(h, "Ratelimit-Remaining", "Ratelimit-Reset", now); ok {
		return d
	}
	d, _ := spentTriple(h, "X-Ratelimit-Remaining", "X-Ratelimit-Reset", now)
	return d
}

// retryAfter reads Retry-After: 1*DIGIT, or an HTTP date.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if n, ok := wholeSeconds(s); ok {
		return seconds(n), true
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(0, t.Sub(now)), true
}

// spentFor returns the longest t of the quotas that have nothing left, and reports
// whether the field could be read.
func spentFor(lines []string) (longest int64, ok bool) {
	if list, err := ParseList(lines); err == nil {
		for i := range list {
			if r, ok := list[i].Integer("r"); ok && r == 0 {
				t, _ := list[i].Integer("t")
				longest = max(longest, t)
			}
		}
		return longest, true
	}
	dict, err := ParseDictionary(lines)
	if err != nil {
		return 0, false
	}
	m := Member{Params: dict}
	if r, ok := m.Integer("remaining"); ok && r == 0 {
		longest, _ = m.Integer("reset")
	}
	return longest, true
}

// epochFrom is where a reset must be an instant: as a delay it were 31 years. From
// millisFrom on it must be one in milliseconds: in seconds that were the year 33658.
const (
	epochFrom  = 1_000_000_000
	millisFrom = 1_000_000_000_000
)

func spentTriple(h http.Header, remaining, reset string, now time.Time) (time.Duration, bool) {
	left, ok := wholeSeconds(h.Get(remaining))
	if !ok {
		return 0, false
	}
	if left > 0 {
		return 0, true
	}
	n, ok := wholeSeconds(h.Get(reset))
	switch {
	case !ok:
		return 0, false
	case n >= millisFrom:
		return max(0, time.UnixMilli(n).Sub(now)), true
	case n >= epochFrom:
		return max(0, time.Unix(n, 0).Sub(now)), true
	}
	return seconds(n), true
}

// wholeSeconds reads 1*DIGIT; more than 15 digits are as good as for ever.
func wholeSeconds(s string) (int64, bool) {
	s = strings.Trim(s, " \t")
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > maxInteger {
		n = maxInteger
	}
	return n, true
}

// seconds returns n seconds, or the longest Duration there is.
func seconds(n int64) time.Duration {
	if n > longestWait {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}
