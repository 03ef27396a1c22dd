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

// TestARouteOfManyThingsIsApartFromItsWords: /users/* is what the study counted under
// it, and a word beside it such as /users/me, which has its own numbers, is not
// limited by them.
func TestARouteOfManyThingsIsApartFromItsWords(t *testing.T) {
	for word, thing := range map[string]string{"/users/me": "/users/%d", "/a/b/c": "/a/b/c/%d"} {
		var records []accesslog.Record
		at := int64(1_772_409_600_000_000)
		for range 10 { // minutes
			for c := range 30 {
				for i := range 25 {
					r := accesslog.Record{At: at + int64(c*25+i), IP: netip.AddrFrom4([4]byte{10, 0, 0, byte(c)}), Path: word}
					if i >= 20 {
						r.Path = fmt.Sprintf(thing, 1000+c)
					}
					records = append(records, r)
				}
			}
			at += 60e6
		}
		study := NewStudy()
		for i := range records {
			study.Add(&records[i])
		}
		report := study.Report()
		policy := report.Policy()
		found := 0
		for _, rule := range replayed(t, string(policy), records).Rules {
			for _, u := range report.Routes {
				if ruleName(u.Route) == rule.Rule {
					found++
					if l := u.Periods[1].Limits[1]; rule.Matched != u.Requests || rule.Denied != l.Refused {
						t.Errorf("%s: said %d of %d requests, a replay finds %d of %d\n%s", rule.Rule, l.Refused, u.Requests, rule.Denied, rule.Matched, policy)
					}
				}
			}
		}
		if found != 2 {
			t.Errorf("%d routes are limited:\n%s", found, policy)
		}
	}
}

// TestARouteThatComesLateIsTold: whoever looks for holes asks for hundreds of paths
// that nobody else does, and comes early.
func TestARouteThatComesLateIsTold(t *testing.T) {
	study := NewStudy()
	ip := netip.MustParseAddr("192.0.2.1")
	word := func(n int) (s string) {
		for range 5 {
			s, n = s+string(rune('a'+n%26)), n/26
		}
		return s
	}
	for i := range 2000 {
		study.Add(&accesslog.Record{At: int64(i), IP: ip, Path: "/" + word(i)})
	}
	for i := range 5000 {
		study.Add(&accesslog.Record{At: int64(2000 + i), IP: ip, Path: "/login"})
	}
	if routes := study.Report().Routes; routes[1].Route != "/login" || routes[1].Requests != 5000 {
		t.Errorf("%s: %d", routes[1].Route, routes[1].Requests)
	}
	study = NewStudy()
	for i := range maxRoutes + 7 {
		study.Add(&accesslog.Record{At: int64(i), IP: ip, Path: "/" + word(i)})
	}
	if policy := string(study.Report().Policy()); study.Crowded != 7 || !strings.Contains(policy, "7 requests") {
		t.Errorf("%d without room:\n%.400s", study.Crowded, policy)
	}
}
