package headers_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

func waitFor(t testing.TB, o headers.Options, retry time.Duration) time.Duration {
	b, shows := bill(t, 0, decided{limit: "5/min", Decision: denied(weir.Limited, 5, 0, retry, time.Minute)})
	a := format(t, o).Answer(b, shows)
	return a.Wait
}

func TestWaitEnds(t *testing.T) {
	for _, c := range []struct {
		retry       time.Duration
		jitter      headers.Jitter
		least, most time.Duration
	}{
		{0, 0, time.Second, time.Second},
		{time.Nanosecond, 0, time.Second, 2 * time.Second}, // up to the microsecond, then the second
		{time.Microsecond, 0, time.Second, 2 * time.Second},
		{1400 * time.Millisecond, 0, 2 * time.Second, 3 * time.Second},
		{time.Second, 0, time.Second, 2 * time.Second},
		{5 * time.Second, 0, 5 * time.Second, 6 * time.Second}, // 20 % are the second
		{10 * time.Second, 0, 10 * time.Second, 12 * time.Second},
		{100 * time.Second, 0, 100 * time.Second, 120 * time.Second},
		{100 * time.Second, 50, 100 * time.Second, 150 * time.Second},
		{100 * time.Second, 12.5, 100 * time.Second, 113 * time.Second}, // 112.5, rounded up
		{time.Hour, 0.5, time.Hour, time.Hour + 18*time.Second},
		{100 * time.Second, headers.NoJitter, 100 * time.Second, 101 * time.Second},
		{weir.Never, 0, 0, 0},
		{math.MaxInt64, 100, 9223372036 * time.Second, 9223372036 * time.Second}, // saturates
	} {
		if got := waitFor(t, headers.Options{Jitter: c.jitter, Random: least}, c.retry); got != c.least {
			t.Errorf("retry %v, jitter %v: least wait %v, want %v", c.retry, c.jitter, got, c.least)
		}
		if got := waitFor(t, headers.Options{Jitter: c.jitter, Random: most}, c.retry); got != c.most {
			t.Errorf("retry %v, jitter %v: longest wait %v, want %v", c.retry, c.jitter, got, c.most)
		}
	}
}

// The waits of many who were refused together are spread evenly. 12,000 draws
// over 100 s to 120 s: each second but the first expects 600; five standard
// deviations are 120.
func TestWaitIsUniform(t *testing.T) {
	f, err := headers.New(headers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, shows := bill(t, 0, decided{limit: "5/min", Decision: denied(weir.Limited, 5, 0, 100*time.Second, time.Minute)})
	drawn := map[time.Duration]int{}
	for range 12_000 {
		a := f.Answer(b, shows)
		drawn[a.Wait]++
	}
	for s := 101; s <= 120; s++ {
		if n := drawn[time.Duration(s)*time.Second]; n < 480 || n > 720 {
			t.Errorf("%d of 12000 waits are %d s, want about 600", n, s)
		}
	}
	if len(drawn) > 21 {
		t.Errorf("waits outside of 100 s to 120 s: %v", drawn)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		d     time.Duration
		s, ms int64
	}{
		{0, 0, 0}, {1, 1, 1}, {time.Millisecond, 1, 1}, {time.Millisecond + 1, 1, 2}, {time.Second, 1, 1000},
		{time.Second + 1, 2, 1001}, {weir.Never, 0, -1}, {math.MaxInt64, 9223372037, 9223372036855},
	} {
		if s, ms := headers.Seconds(c.d), headers.Milliseconds(c.d); s != c.s || ms != c.ms {
			t.Errorf("%d ns: %d s and %d ms, want %d and %d", c.d, s, ms, c.s, c.ms)
		}
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	for _, c := range []struct {
		options headers.Options
		want    string
	}{
		{headers.Options{Jitter: 101}, "between 0% and 100%"},
		{headers.Options{Jitter: -2}, "between 0% and 100%"},
		{headers.Options{Families: headers.None | headers.Triple}, "None goes with no other"},
		{headers.Options{Families: 16}, "unknown family"},
		{headers.Options{XReset: 2}, "epoch or delta"},
		{headers.Options{Denied: &headers.Body{Status: 200}}, "status 200"},
		{headers.Options{Denied: &headers.Body{Status: 429, Content: []byte("x")}}, "content type"},
	} {
		if _, err := headers.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
	for name, want := range map[string]headers.Families{"triple": headers.Triple, "draft-11": headers.Draft11, "x-ratelimit": headers.XRateLimit} {
		if f, err := headers.FamilyNamed(name); err != nil || f != want {
			t.Errorf("%s: %v %v", name, f, err)
		}
	}
	if _, err := headers.FamilyNamed("draft-7"); err == nil {
		t.Error("draft-7 is a family")
	}
}

// TestWriteWait: who is refused for want of room waits at least as long as it takes,
// and comes back apart from the others.
func TestWriteWait(t *testing.T) {
	for least, first := range map[time.Duration]int64{
		0: 1, -1: 1, time.Nanosecond: 1, time.Second: 1, time.Second + 1: 2, 10 * time.Second: 10, math.MaxInt64: math.MaxInt64 / int64(time.Second),
	} {
		seen := map[int64]bool{}
		for range 200 {
			h := http.Header{}
			headers.WriteWait(h, least)
			s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
			if err != nil || s < first || s > first+2 {
				t.Fatalf("at least %s: %q", least, h.Get("Retry-After"))
			}
			seen[s] = true
		}
		if len(seen) != 3 {
			t.Errorf("at least %s: only %v", least, seen)
		}
	}
}
