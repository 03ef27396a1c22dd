package replay

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// writeSynthetic writes a combined log of at least size bytes: callers of very
// different eagerness, a few hundred paths, about 40 requests a second, lines a
// little out of order.
func writeSynthetic(to io.Writer, size int64) (lines int, err error) {
	w := bufio.NewWriterSize(to, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	callers := rand.NewZipf(r, 1.2, 20, 20_000)
	paths := rand.NewZipf(r, 1.3, 10, 400)
	kinds := []string{"/api/orders/%d", "/api/search?q=%d", "/static/app.%d.js", "/product/%d/", "/login?n=%d", "/images/pic%d.png"}
	agents := []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148", "curl/8.10.1",
	}
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for written := int64(0); written < size; lines++ {
		c, p := callers.Uint64(), paths.Uint64()
		at := start.Add(time.Duration(lines)*25*time.Millisecond + time.Duration(r.IntN(3000))*time.Millisecond)
		method := "GET"
		if p%6 == 4 {
			method = "POST"
		}
		n, err := fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"%s %s HTTP/1.1\" 200 %d \"https://shop.example/\" \"%s\"\n",
			c>>16, c>>8&255, c&255, at.Format("02/Jan/2006:15:04:05 -0700"), method, fmt.Sprintf(kinds[p%6], p), 500+p*17, agents[c%3])
		if err != nil {
			return lines, err
		}
		written += int64(n)
	}
	return lines, w.Flush()
}

// syntheticLog returns a synthetic log of the size.
func syntheticLog(t testing.TB, size int64) (name string, lines int) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err = writeSynthetic(f, size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name, lines
}

// tenRules is a policy of the size that people have.
func tenRules(t testing.TB) *policy.Policy {
	t.Helper()
	limit := func(s string) weir.Limit {
		l, err := weir.ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	key := func(names ...string) (parts []identity.Part) {
		for _, n := range names {
			p, err := identity.ParsePart(n)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p)
		}
		return parts
	}
	paths := func(p ...string) policy.Conditions { return policy.Conditions{Paths: p} }
	p, err := policy.Compile(policy.Options{
		Exempt: []policy.Conditions{paths("/healthz")},
		Rules: []policy.Rule{
			{Name: "caller", Key: key("ip"), Limit: limit("600/min burst=100")},
			{Name: "caller-hour", Key: key("ip"), Limit: limit("5000/h algorithm=fixed_window")},
			{Name: "login", Match: policy.Conditions{Methods: []string{"POST"}, Paths: []string{"/login", "/password/*"}}, Key: key("ip", "route"), Limit: limit("5/min algorithm=sliding_window")},
			{Name: "search", Match: paths("/search/**", "/api/search"), Key: key("ip"), Limit: limit("30/min")},
			{Name: "static", Match: paths("/static/**", "/images/**"), Key: key("ip"), Limit: limit("50/s burst=200")},
			{Name: "product", Match: paths("/product/**"), Key: key("ip", "route"), Limit: limit("60/min")},
			{Name: "api", Match: paths("/api/**"), Key: key("ip"), Limit: limit("10/s")},
			{Name: "writes", Match: policy.Conditions{Methods: []string{"POST", "PUT", "DELETE"}}, Key: key("ip"), Limit: limit("60/min")},
			{Name: "robots", Match: paths("/robots.txt", "/favicon.ico"), Key: key("ip"), Limit: limit("10/min")},
			{Name: "everyone", Key: key("all"), Limit: limit("5000/s")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readLog replays logs under a policy.
func readLog(t testing.TB, p *policy.Policy, o accesslog.Options, names ...string) *Report {
	t.Helper()
	run, err := New(p, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := accesslog.Open(names, o)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := run.Read(t.Context(), files, nil); err != nil {
		t.Fatal(err)
	}
	report := run.Report(files.Summary())
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	return report
}

func BenchmarkRead(b *testing.B) {
	name, lines := syntheticLog(b, 64<<20)
	p := tenRules(b)
	for b.Loop() {
		readLog(b, p, accesslog.Options{}, name)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lines*b.N), "ns/line")
}
