package suggest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/accesslog"
	"github.com/weirhq/weir/sim/replay"
)

// traffic is requests of callers of very different eagerness over a day.
func traffic() (records []accesslog.Record) {
	r := rand.New(rand.NewPCG(5, 6))
	callers := rand.NewZipf(r, 1.3, 8, 1500)
	at := int64(1_772_409_600_000_000) // a midnight
	for range 40_000 {
		at += int64(r.ExpFloat64() * 2e6)
		c := callers.Uint64()
		records = append(records, accesslog.Record{
			At: at, IP: netip.AddrFrom4([4]byte{10, 0, byte(c >> 8), byte(c)}), Client: "x", Method: "GET",
			Path: []string{"/", "/search", fmt.Sprintf("/users/%d", 1000+r.IntN(500)), "/a/b/c/d"}[r.IntN(4)],
		})
	}
	return records
}

// TestReplayFindsTheSame: what is said of a limit is what a replay of that limit
// finds, for every period and target, of all requests and of routes without *.
func TestReplayFindsTheSame(t *testing.T) {
	records := traffic()
	study := NewStudy()
	for i := range records {
		study.Add(&records[i])
	}
	compared := 0
	for _, u := range study.Report().Routes {
		if u.Route != "/**" && strings.Contains(u.Route, "*") {
			continue
		}
		var limits []Limit
		text := "limits:\n"
		for _, p := range u.Periods {
			for _, l := range p.Limits {
				limits = append(limits, l)
				text += fmt.Sprintf("  - {name: r%d, match: {paths: [%q]}, key: [ip], limit: %s}\n", len(limits), u.Route, l.Limit)
			}
		}
		for i, rule := range replayed(t, text, records).Rules {
			if rule.Denied != limits[i].Refused || rule.CallersDenied != int64(limits[i].Callers) || rule.Callers != int64(u.Callers) {
				t.Errorf("%s %s: said %d requests of %d callers, a replay finds %d of %d",
					u.Route, limits[i].Limit, limits[i].Refused, limits[i].Callers, rule.Denied, rule.CallersDenied)
			}
			if share := map[string]int{"0.1 %": 1000, "1 %": 100, "5 %": 20}[limits[i].Target]; limits[i].Callers > u.Callers/share {
				t.Errorf("%s %s touches %d of %d callers", u.Route, limits[i].Limit, limits[i].Callers, u.Callers)
			}
			compared++
		}
	}
	if compared < 30 {
		t.Errorf("%d limits compared", compared)
	}
}

func replayed(t *testing.T, text string, records []accesslog.Record) *replay.Report {
	t.Helper()
	f, err := policyfile.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	run, err := replay.New(f.Policy, nil, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for i := range records {
		if err := run.Take(t.Context(), &records[i]); err != nil {
			t.Fatal(err)
		}
	}
	return run.Report(accesslog.Summary{})
}

// TestPolicy: what is written loads without a finding, also of nothing and of
// paths that nobody would choose.
func TestPolicy(t *testing.T) {
	few := NewStudy()
	for i := range 200 {
		few.Add(&accesslog.Record{At: int64(i) * 1e6, Client: fmt.Sprint("name", i%50), Path: "/caf\u00e9/\"x\"/\x00: #{"})
	}
	many := NewStudy()
	records := traffic()
	for i := range records {
		many.Add(&records[i])
	}
	for name, s := range map[string]*Study{"nothing": NewStudy(), "few": few, "many": many} {
		text := s.Report().Policy()
		f, err := policyfile.Parse("policy.yaml", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if findings := f.Check(); len(findings) > 0 {
			t.Errorf("%s: %v\n%s", name, findings, text)
		}
	}
	if !strings.Contains(string(many.Report().Policy()), `match: {paths: ["/search"]}`) {
		t.Errorf("no rule for the busy route:\n%s", many.Report().Policy())
	}
}

// TestRoute: paths that belong together.
func TestRoute(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/login": "/login", "/login/": "/login", "/users/42/posts": "/users/*/posts", "/a/b/c": "/a/b/c", "/a/b/c/d": "/a/b/c/**",
		"/f/9f86d081884c7d65": "/f/*", "/static/app.css": "/static/app.css", "/x%20y/z": "/*/z", "/a/../b": "/b",
		"/v1/orders": "/v1/orders", "": "/", "/2026/03/02": "/*/*/*",
	} {
		if got := Route(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
}
