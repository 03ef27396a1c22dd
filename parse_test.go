package weir

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

func TestParseLimit(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		in     string
		units  int64
		period time.Duration
		most   int64
		kind   algo.Kind
		out    string // String, if it is another spelling
	}{
		{"100/s", 100, time.Second, 100, algo.TokenBucket, ""},
		{"5/min", 5, time.Minute, 5, algo.TokenBucket, ""},
		{"5/m", 5, time.Minute, 5, algo.TokenBucket, "5/min"},
		{"1000/day", 1000, day, 1000, algo.TokenBucket, ""},
		{"100/30s", 100, 30 * time.Second, 100, algo.TokenBucket, ""},
		{"1/500ms", 1, 500 * time.Millisecond, 1, algo.TokenBucket, ""},
		{"3/333ms", 3, 333 * time.Millisecond, 3, algo.TokenBucket, ""},
		{"60/60s", 60, time.Minute, 60, algo.TokenBucket, "60/min"},
		{"1/ms", 1, time.Millisecond, 1, algo.TokenBucket, ""},
		{"7/14d", 7, 14 * day, 7, algo.TokenBucket, "7/2week"},
		{"20/s burst=200", 20, time.Second, 200, algo.TokenBucket, ""},
		{"20/s burst=20", 20, time.Second, 20, algo.TokenBucket, "20/s"},
		{"20/s algorithm=gcra", 20, time.Second, 20, algo.TokenBucket, "20/s"},
		{"20/s algorithm=token_bucket burst=5", 20, time.Second, 5, algo.TokenBucket, "20/s burst=5"},
		{"5/min algorithm=sliding_window name=login", 5, time.Minute, 5, algo.SlidingWindow, ""},
		{"5/min name=login algorithm=sliding_log", 5, time.Minute, 5, algo.SlidingLog, "5/min algorithm=sliding_log name=login"},
		{"5/min algorithm=leaky_bucket", 5, time.Minute, 1, algo.LeakyBucket, ""},
		{"5/min algorithm=leaky_bucket burst=0", 5, time.Minute, 1, algo.LeakyBucket, "5/min algorithm=leaky_bucket"},
		{"5/min burst=9 algorithm=leaky_bucket", 5, time.Minute, 10, algo.LeakyBucket, ""},
		{"5/min on_store_failure=closed", 5, time.Minute, 5, algo.TokenBucket, ""},
		{"5/day algorithm=fixed_window tz=Europe/Paris", 5, day, 5, algo.FixedWindow, ""},
		{"5/month tz=UTC algorithm=fixed_window", 5, 31 * day, 5, algo.FixedWindow, "5/month algorithm=fixed_window tz=UTC"},
		{"5/year algorithm=fixed_window tz=Asia/Tokyo", 5, 366 * day, 5, algo.FixedWindow, ""},
		{"0/s", 0, time.Second, 0, algo.TokenBucket, ""},
		{"0/s algorithm=leaky_bucket", 0, time.Second, 0, algo.LeakyBucket, ""},
		{"0/day algorithm=sliding_log", 0, day, 0, algo.SlidingLog, ""},
		// The bounds, inside.
		{"1000000000/day", 1e9, day, 1e9, algo.TokenBucket, ""},
		{"999999937/366d", 999999937, 366 * day, 999999937, algo.TokenBucket, "999999937/366day"},
		{"1000000000/ms burst=1000000000", 1e9, time.Millisecond, 1e9, algo.TokenBucket, "1000000000/ms"},
		{"1000000000/s burst=1000000000 algorithm=leaky_bucket", 1e9, time.Second, 1e9 + 1, algo.LeakyBucket, ""},
		{"5000/s algorithm=sliding_log", 5000, time.Second, 5000, algo.SlidingLog, ""},
		{"1/366d burst=10", 1, 366 * day, 10, algo.TokenBucket, "1/366day burst=10"},
		{"1/day burst=3660", 1, day, 3660, algo.TokenBucket, ""},
		{"1/8784h", 1, 366 * day, 1, algo.TokenBucket, "1/366day"},
	} {
		l, err := ParseLimit(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if l.Units() != c.units || l.Period() != c.period || l.Most() != c.most || l.Kind() != c.kind || l.Check() != nil {
			t.Errorf("%s: %d per %s, most %d, %s, %v", c.in, l.Units(), l.Period(), l.Most(), l.Kind(), l.Check())
		}
		want := c.out
		if want == "" {
			want = c.in
		}
		if l.String() != want {
			t.Errorf("%s is spelled %s, want %s", c.in, l, want)
		}
		if again, err := ParseLimit(l.String()); err != nil || again != l {
			t.Errorf("%s: %s reads back as %v, %v", c.in, l, again, err)
		}
	}
}

// TestParseUnits reads every unit in every spelling.
func TestParseUnits(t *testing.T) {
	for length, spellings := range map[time.Duration]string{
		time.Millisecond: "ms", time.Second: "s sec secs second seconds", time.Minute: "m min mins minute minutes",
		time.Hour: "h hour hours", 24 * time.Hour: "d day days", 7 * 24 * time.Hour: "w week weeks",
	} {
		for _, unit := range strings.Fields(spellings) {
			for n, text := range map[time.Duration]string{1: "1/" + unit, 7: "1/7" + unit} {
				if l, err := ParseLimit(text); err != nil || l != Per(1, n*length) {
					t.Errorf("%s is %v, %v", text, l, err)
				}
			}
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	const units = "; use ms s min h day week (month and year with tz=)"
	const shape = "a limit is N/PERIOD, such as 100/min, or unlimited"
	const whole = "the number before / must be whole and not negative"
	const kinds = "; use token_bucket sliding_window sliding_log fixed_window leaky_bucket"
	for in, want := range map[string]string{
		// Near misses, with the right spelling.
		"10r/s":                   whole + `; did you mean "10/s"?`,
		"10req/s":                 whole + `; did you mean "10/s"?`,
		"100 per minute":          shape + `; did you mean "100/minute"?`,
		"100 requests per minute": shape + `; did you mean "100/minute"?`,
		"10_per_minute":           shape + `; did you mean "10/minute"?`,
		"10rps":                   shape + `; did you mean "10/s"?`,
		"10rpm burst=3":           shape + `; did you mean "10/min burst=3"?`,
		"5/Min":                   `unknown unit "Min"` + units + `; did you mean "5/min"?`,
		"5/Min name=Login":        `unknown unit "Min"` + units + `; did you mean "5/min name=Login"?`,
		"5/Day algorithm=fixed_window tz=Europe/Paris name=A": `unknown unit "Day"` + units + `; did you mean "5/day algorithm=fixed_window tz=Europe/Paris name=A"?`,
		"100/minute.":                    `unknown unit "minute."` + units + `; did you mean "100/minute"?`,
		"100/hr":                         `unknown unit "hr"` + units + `; did you mean "100/h"?`,
		"100/24hrs":                      `unknown unit "hrs"` + units + `; did you mean "100/24h"?`,
		"5/min ":                         `options are separated by one space; did you mean "5/min"?`,
		"5/min  burst=3":                 `options are separated by one space; did you mean "5/min burst=3"?`,
		"10/s\tburst=3":                  `unknown unit "s\tburst=3"` + units + `; did you mean "10/s burst=3"?`,
		"10/s, burst=5":                  `unknown unit "s,"` + units + `; did you mean "10/s burst=5"?`,
		"10/s,burst=5":                   `unknown unit "s,burst=5"` + units + `; did you mean "10/s burst=5"?`,
		"10/s burst = 5":                 `"burst" is not an option; options are algorithm= burst= name= on_store_failure= tz=; did you mean "10/s burst=5"?`,
		"10 / s":                         shape + `; did you mean "10/s"?`,
		"10/30 s":                        `unknown unit ""` + units + `; did you mean "10/30s"?`,
		"Unlimited":                      shape + `; did you mean "unlimited"?`,
		"5/min algorithm=sliding-window": `unknown algorithm "sliding-window"` + kinds + `; did you mean "5/min algorithm=sliding_window"?`,
		"5/min algorithm=GCRA":           `unknown algorithm "GCRA"` + kinds + `; did you mean "5/min algorithm=gcra"?`,
		"1,000/s":                        whole + `; did you mean "1000/s"?`,
		"1,000,000/day":                  whole + `; did you mean "1000000/day"?`,
		"1_000/s":                        whole + `; did you mean "1000/s"?`,
		"10 000/min":                     shape + `; did you mean "10000/min"?`,
		"2k/min":                         whole + `; did you mean "2000/min"?`,
		"5.5/s":                          whole + `; did you mean "11/2s"?`,
		"1.5/s":                          whole + `; did you mean "3/2s"?`,
		"0.5/min burst=2":                whole + `; did you mean "1/2min burst=2"?`,
		"2.0/s":                          whole + `; did you mean "2/s"?`,
		"2.5/10s":                        whole + `; did you mean "1/4s"?`,
		"1/0.5s":                         `unknown unit ".5s"` + units + `; did you mean "1/500ms"?`,
		"1/1m30s":                        `unknown unit "m30s"` + units + `; did you mean "1/90s"?`,
		"5 req/min":                      shape + `; did you mean "5/min"?`,
		"5 requests / minute":            shape + `; did you mean "5/minute"?`,
		"5/ min":                         `unknown unit ""` + units + `; did you mean "5/min"?`,
		"5 /min":                         shape + `; did you mean "5/min"?`,
		"5/per min":                      `unknown unit "per"` + units + `; did you mean "5/min"?`,
		"10 a minute":                    shape + `; did you mean "10/minute"?`,
		"10 per 30 seconds":              shape + `; did you mean "10/30seconds"?`,
		"10 calls every hour":            shape + `; did you mean "10/hour"?`,
		"10 qps":                         shape + `; did you mean "10/s"?`,
		"10/second(s)":                   `unknown unit "second(s)"` + units + `; did you mean "10/seconds"?`,
		"10/s burst 5":                   `"burst" is not an option; options are algorithm= burst= name= on_store_failure= tz=; did you mean "10/s burst=5"?`,
		"10/s burst:5":                   `"burst:5" is not an option; options are algorithm= burst= name= on_store_failure= tz=; did you mean "10/s burst=5"?`,
		// Where a guess could mean something else, there is none.
		"1e3/s":    whole,
		"-1/s":     whole,
		"+1/s":     whole,
		"ten/s":    whole,
		"１0/s":     whole,
		"1/500us":  `unknown unit "us"` + units,
		"1/s2":     `unknown unit "s2"` + units,
		"10/s/s":   `unknown unit "s/s"` + units,
		"10/":      `unknown unit ""` + units,
		"":         "is empty; write one such as 100/min, or unlimited",
		"10":       shape,
		"/s":       "the number before / is missing",
		"1/0s":     "the shortest period is 1ms",
		"0/0week":  "the shortest period is 1ms",
		"1/0.3ms":  `unknown unit ".3ms"` + units,
		"10/s x=1": `unknown option "x"; options are algorithm= burst= name= on_store_failure= tz=`,
		// Options.
		"10/s burst=":                           "burst= has no value",
		"10/s burst=-1":                         "burst= must be whole and not negative",
		"10/s burst=2 burst=3":                  "burst= is given twice",
		"10/s name=a name=b":                    "name= is given twice",
		"10/s name=" + strings.Repeat("n", 257): "name= is longer than 256 bytes",
		"10/s on_store_failure=fail":            `unknown on_store_failure "fail"; use local share open closed`,
		"10/s algorithm=bucket":                 `unknown algorithm "bucket"` + kinds,
		"10/s burst=1 algorithm=fixed_window":   "fixed_window has no burst; burst= goes with token_bucket and leaky_bucket",
		"unlimited burst=1":                     "unlimited takes no burst and no algorithm",
		"unlimited algorithm=fixed_window":      "unlimited takes no burst and no algorithm",
		"unlimited algorithm=gcra":              "unlimited takes no burst and no algorithm",
		"unlimited algorithm=token_bucket":      "unlimited takes no burst and no algorithm",
		"unlimited tz=UTC":                      "unlimited takes no tz=",
		"0/s burst=1":                           "a limit of 0 holds nothing and takes no burst",
		"5/month":                               "month needs tz= and algorithm=fixed_window, since months and years are not equally long; without tz use days",
		"5/month tz=UTC":                        "tz= goes with algorithm=fixed_window alone",
		"5/2day tz=UTC algorithm=fixed_window":  "tz= goes with a period of one day, week, month or year",
		"5/h tz=UTC algorithm=fixed_window":     "tz= goes with a period of one day, week, month or year",
		"5/day tz=Local algorithm=fixed_window": `unknown time zone "Local"; use an IANA name such as Europe/Paris or UTC`,
		"5/day tz=Mars algorithm=fixed_window":  `unknown time zone "Mars"; use an IANA name such as Europe/Paris or UTC`,
		// The bounds, just beyond.
		"10/s burst=0":            "the burst must be at least 1",
		"1000000001/s":            "at most 1000000000 units per period; use a shorter period",
		"99999999999999999999/s":  "the number before / is too large",
		"1/99999999999999999999s": "the number after / is too large",
		"1/367d":                  "the longest period is 366 days; use a shorter period with fewer units",
		"1/8785h":                 "the longest period is 366 days; use a shorter period with fewer units",
		"1/53w":                   "the longest period is 366 days; use a shorter period with fewer units",
		"1/s burst=1000000001":    "the burst is at most 1000000000",
		"1000000000/s burst=1000000001 algorithm=leaky_bucket": "the burst is at most 1000000000",
		"5001/s algorithm=sliding_log":                         "a sliding_log keeps every charge and holds at most 5000 units; use sliding_window",
		"1/366d burst=11":                                      "a bucket must refill within 10 years; use a smaller burst or a higher rate",
		"1/day burst=3661":                                     "a bucket must refill within 10 years; use a smaller burst or a higher rate",
		"1/day burst=3660 algorithm=leaky_bucket":              "a bucket must refill within 10 years; use a smaller burst or a higher rate",
	} {
		l, err := ParseLimit(in)
		var input *InputError
		if !errors.As(err, &input) || l != (Limit{}) {
			t.Errorf("%q is %v, %v", in, l, err)
			continue
		}
		if _, problem, _ := strings.Cut(input.Problem, `": `); problem != want || input.Field != "limit" {
			t.Errorf("%q:\n got %s: %s\nwant limit: %s", in, input.Field, problem, want)
		}
	}
}

// TestParseLimitBoundsWhatItQuotes keeps a caller's text from filling a log.
func TestParseLimitBoundsWhatItQuotes(t *testing.T) {
	for _, s := range []string{strings.Repeat("x", 1<<20), "1/" + strings.Repeat("é", 1<<16), "1/s " + strings.Repeat("a", 1<<16) + "=1", strings.Repeat("1", 1<<20) + "/s"} {
		if _, err := ParseLimit(s); err == nil || len(err.Error()) > 500 {
			t.Errorf("%.10s…: an error of %d bytes", s, len(err.Error()))
		}
	}
}

// FuzzParseLimit: what is read is spelled so that it reads back the same and is
// within the bounds; what is refused is an *InputError; a spelling it suggests
// is right.
func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{
		"100/s", "5/min algorithm=sliding_window name=login", "20/s burst=200", "100/month algorithm=fixed_window tz=Europe/Paris",
		"0/s", "unlimited", "5/Min", "10r/s", "100 per minute", "1000000001/s", "1/s burst=0", "gcra(2000/1s,B=20)", "0/60s", "25000/day",
		"5/250ms algorithm=sliding_window", "1/86400s burst=1", "9223372036854775808/s", "1/9223372036854775807ms", "１/s", "1/s name=\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err == nil {
			if l.Check() != nil {
				t.Fatalf("%q was read and does not check: %v", s, l.Check())
			}
			if again, err := ParseLimit(l.String()); err != nil || again != l {
				t.Fatalf("%q is spelled %q, which reads as %v, %v", s, l, again, err)
			}
			return
		}
		var input *InputError
		if !errors.As(err, &input) {
			t.Fatalf("%q: %v", s, err)
		}
		if near := nearLimit(s); near != "" {
			if _, err := ParseLimit(near); err != nil {
				t.Fatalf("%q suggests %q: %v", s, near, err)
			}
		}
	})
}
