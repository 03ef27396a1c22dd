package weir

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/algo"
)

// ParseLimit reads a limit string: N/PERIOD, then options in any order, each at
// most once, separated by single spaces.
//
//	100/s    5/min    1000/day    100/30s    1/500ms    20/s burst=200
//	5/min algorithm=sliding_window name=login on_store_failure=closed
//	100/month algorithm=fixed_window tz=Europe/Paris
//	0/s    unlimited
//
// PERIOD is [n]unit: ms s sec second m min minute h hour d day w week, also in
// the plural, lower case; m is minute; month and year need tz=. Algorithms are
// token_bucket (or gcra), sliding_window, sliding_log, fixed_window and
// leaky_bucket.
//
// Accepted is what every algorithm keeps exactly: N and burst up to 10^9, 1 ms
// to 366 days, a bucket that refills within 10 years, sliding_log up to 5,000.
// The error is an *InputError that shows the right spelling of a near miss.
func ParseLimit(s string) (Limit, error) {
	l, problem := parseLimit(s)
	if problem == "" {
		return l, nil
	}
	if fixed := nearLimit(s); fixed != "" {
		problem += fmt.Sprintf("; did you mean %q?", fixed)
	}
	return Limit{}, &InputError{Field: "limit", Problem: fmt.Sprintf("%q: %s", clip(s), problem)}
}

func parseLimit(s string) (l Limit, problem string) {
	if s == "" {
		return l, "is empty; write one such as 100/min, or unlimited"
	}
	rate, options, more := strings.Cut(s, " ")
	l = Limit{burst: noBurst}
	var per period
	if rate == "unlimited" {
		l.unlimited = true
	} else if per, problem = l.parseRate(rate); problem != "" {
		return l, problem
	}
	var seen [5]bool
	for more {
		var w string
		w, options, more = strings.Cut(options, " ")
		if problem = l.parseOption(w, &seen); problem != "" {
			return l, problem
		}
	}
	if l.unlimited && (seen[0] || seen[1]) {
		return l, unlimitedAlone
	}
	if problem = l.place(per); problem != "" {
		return l, problem
	}
	return l.checked(), l.problem()
}

// period is a parsed PERIOD.
type period struct {
	n    int64
	unit unit
}

// parseRate reads N/PERIOD.
func (l *Limit) parseRate(s string) (period, string) {
	count, rest, ok := strings.Cut(s, "/")
	if !ok {
		return period{}, "a limit is N/PERIOD, such as 100/min, or unlimited"
	}
	n, problem := whole(count)
	if problem != "" {
		return period{}, "the number before / " + problem
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	p := period{n: 1}
	if digits > 0 {
		if p.n, problem = whole(rest[:digits]); problem != "" {
			return p, "the number after / " + problem
		}
	}
	if p.unit, ok = units[rest[digits:]]; !ok {
		return p, fmt.Sprintf("unknown unit %q; use ms s min h day week (month and year with tz=)", clip(rest[digits:]))
	}
	if p.n == 0 {
		return p, "the shortest period is 1ms"
	}
	l.n = n
	return p, ""
}

// whole reads a number of at most 18 digits, so that it cannot overflow; the
// bounds are Check's.
func whole(s string) (int64, string) {
	if s == "" {
		return 0, "is missing"
	}
	if strings.Trim(s, "0123456789") != "" {
		return 0, "must be whole and not negative"
	}
	if len(strings.TrimLeft(s, "0")) > 18 {
		return 0, "is too large"
	}
	n, _ := strconv.ParseInt(s, 10, 64)
	return n, ""
}

// longestName bounds the name in a limit that comes as text: it stands in the key of
// each balance and in header lines, and is not to be longer than a key may be.
const longestName = 256

func (l *Limit) parseOption(w string, seen *[5]bool) string {
	key, value, ok := strings.Cut(w, "=")
	once := func(i int) bool { was := seen[i]; seen[i] = true; return was }
	switch {
	case w == "":
		return "options are separated by one space"
	case !ok:
		return fmt.Sprintf("%q is not an option; options are algorithm= burst= name= on_store_failure= tz=", clip(w))
	case value == "":
		return key + "= has no value"
	}
	switch key {
	case "algorithm":
		if once(0) {
			return key + "= is given twice"
		}
		k, ok := kindNamed(value)
		if !ok {
			return fmt.Sprintf("unknown algorithm %q; use token_bucket sliding_window sliding_log fixed_window leaky_bucket", clip(value))
		}
		l.kind = k
	case "burst":
		if once(1) {
			return key + "= is given twice"
		}
		n, problem := whole(value)
		if problem != "" {
			return "burst= " + problem
		}
		l.burst = n
	case "name":
		if once(2) {
			return key + "= is given twice"
		}
		if len(value) > longestName {
			return fmt.Sprintf("name= is longer than %d bytes", longestName)
		}
		l.name = value
	case "on_store_failure":
		if once(3) {
			return key + "= is given twice"
		}
		if l.failure, ok = failureNamed(value); !ok {
			return fmt.Sprintf("unknown on_store_failure %q; use local share open closed", clip(value))
		}
	case "tz":
		if once(4) {
			return key + "= is given twice"
		}
		z, err := zoneNamed(value)
		if err != nil {
			return fmt.Sprintf("unknown time zone %q; use an IANA name such as Europe/Paris or UTC", clip(value))
		}
		l.zone = z
	default:
		return fmt.Sprintf("unknown option %q; options are algorithm= burst= name= on_store_failure= tz=", clip(key))
	}
	return ""
}

// place turns the parsed period into the limit's, now that tz= is known.
func (l *Limit) place(p period) string {
	switch {
	case l.unlimited:
		if l.zone != nil {
			return "unlimited takes no tz="
		}
		return ""
	case l.zone != nil:
		if !p.unit.calendar() || p.n != 1 {
			return "tz= goes with a period of one day, week, month or year"
		}
		l.unit = p.unit
		l.period = p.unit.longest()
		return ""
	case p.unit >= month:
		return p.unit.String() + " needs tz= and algorithm=fixed_window, since months and years are not equally long; without tz use days"
	case p.n > algo.MaxPeriod/p.unit.longest():
		return "the longest period is 366 days; use a shorter period with fewer units"
	}
	l.period = p.n * p.unit.longest()
	return ""
}

func kindNamed(s string) (algo.Kind, bool) {
	if s == "gcra" {
		return algo.TokenBucket, true
	}
	for _, k := range algo.Kinds {
		if k.String() == s {
			return k, true
		}
	}
	return 0, false
}

// clip bounds caller-chosen text in an error.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// periodString spells a period in its largest whole unit.
func periodString(us int64) string {
	for _, u := range []unit{week, day, hour, minute, second, millisecond} {
		if n := u.longest(); us%n == 0 {
			if us == n {
				return u.String()
			}
			return strconv.FormatInt(us/n, 10) + u.String()
		}
	}
	return (time.Duration(us) * time.Microsecond).String()
}
