package replay

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/accesslog"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// policyOf compiles the text of a policy file.
func policyOf(t *testing.T, text string) *policyfile.File {
	t.Helper()
	f, err := policyfile.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// at is a line of a log, so many seconds after midnight.
func at(second int, client, request string) string {
	when := time.Date(2026, 3, 2, 0, 0, second, 0, time.UTC)
	return fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" 200 1 \"-\" \"agent/%s\" \"203.0.113.5\"\n", client, when.Format("02/Jan/2006:15:04:05 -0700"), request, client)
}

func replayText(t *testing.T, policy, log string) *Report {
	t.Helper()
	f := policyOf(t, policy)
	who, err := identity.NewResolver(f.Identity())
	if err != nil {
		t.Fatal(err)
	}
	wants := WantsOf(f.Policy, len(f.ClientIP.TrustedProxies) > 0)
	run, err := New(f.Policy, who, Options{Wants: wants, Clients: true})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	files, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(log), Wants: wants})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := run.Read(t.Context(), files, nil); err != nil {
		t.Fatal(err)
	}
	return run.Report(files.Summary())
}

// TestReport: the JSON is that of the contract, to the letter.
func TestReport(t *testing.T) {
	log := ""
	for i := range 8 {
		log += at(i, "192.0.2.1", "GET /")
	}
	log += at(3, "name.example", "POST /login") + at(9, "name.example", "POST /login") + "not a line\n\n"
	r := replayText(t, `limits:
  - {name: caller, key: [ip], limit: 5/min}
  - {name: login, match: {methods: [POST]}, key: [ip, route], limit: 1/min, mode: shadow}
`, log)
	const want = `{"requests":10,"skipped_lines":2,"allowed":7,"denied":3,"from":"2026-03-02T00:00:00Z","to":"2026-03-02T00:00:09Z","rules":[` +
		`{"rule":"caller","matched":10,"denied":3,"callers":2,"callers_denied":1,"top":[{"key":"ip=192.0.2.1","denied":3}]},` +
		`{"rule":"login","matched":2,"denied":1,"callers":1,"callers_denied":1,"top":[{"key":"ip=name.example route=/**","denied":1}]}]}`
	if got := asJSON(t, r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if empty := asJSON(t, replayText(t, "limits: []", "")); empty != `{"requests":0,"skipped_lines":0,"allowed":0,"denied":0,"from":null,"to":null,"rules":[]}` {
		t.Errorf("nothing: %s", empty)
	}
}

// TestAlone: what one rule refuses leaves no room under another, as if the other
// were alone; and the policy as a whole refuses what the bill refuses.
func TestAlone(t *testing.T) {
	log := ""
	for i := range 20 {
		log += at(i, "192.0.2.1", "GET /") + at(i, "192.0.2.2", "GET /")
	}
	for _, limit := range []string{
		"8/h", "8/h algorithm=fixed_window", "8/h algorithm=sliding_window", "8/h algorithm=sliding_log", "8/h algorithm=leaky_bucket burst=7",
	} {
		wide := fmt.Sprintf("  - {name: wide, key: [ip], limit: %s, try: 10/h}\n", limit)
		r := replayText(t, "limits:\n  - {name: tight, key: [all], limit: 6/h}\n"+wide, log)
		by := map[string]Rule{}
		for _, rule := range r.Rules {
			by[rule.Rule] = rule
		}
		// Of 40 requests all together may make 6, and each of the two 8, or by the try 10.
		if r.Denied != 34 || by["tight"].Denied != 34 || by["wide"].Denied != 24 || by["wide (try)"].Denied != 20 {
			t.Errorf("%s: %s", limit, asJSON(t, r))
		}
		if alone := replayText(t, "limits:\n"+wide, log); alone.Rules[0].Denied != 24 || alone.Denied != 24 || alone.Rules[1].Denied != 20 {
			t.Errorf("%s alone: %s", limit, asJSON(t, alone))
		}
	}
}

// TestClientIP: a log's forwarding header is believed from trusted peers alone,
// and rules can count by what a log has of a request.
func TestClientIP(t *testing.T) {
	log := at(0, "192.0.2.1", "GET /a?u=1") + at(1, "192.0.2.2", "GET /b") + at(2, "name.example", "GET /c")
	for _, c := range []struct {
		policy  string
		callers int64
	}{
		{"limits: [{name: a, key: [ip], limit: 5/s}]", 3},
		{"client_ip: {trusted_proxies: [192.0.2.0/24]}\nlimits: [{name: a, key: [ip], limit: 5/s}]", 2},
		{"limits: [{name: a, key: [\"header:User-Agent\"], limit: 5/s}]", 3},
		{"limits: [{name: a, key: [\"query:u\"], on_missing: skip, limit: 5/s}]", 1},
		{"limits: [{name: a, key: [path], limit: 5/s}]", 3},
		{"limits: [{name: a, key: [all], limit: 5/s}]", 1},
	} {
		if r := replayText(t, c.policy, log); r.Rules[0].Callers != c.callers {
			t.Errorf("%s: %d callers", c.policy, r.Rules[0].Callers)
		}
	}
	if notes := Unseen(policyOf(t, `api_keys: {header: X-API-Key, keys: {k-acme-1: {tenant: acme}}}
limits:
  - {name: t, key: [api_key], limit: 5/s}
  - {name: h, match: {headers: {X-Client: [ios]}}, key: [ip], limit: 5/s}
  - {name: ok, key: [ip, route, "header:User-Agent"], limit: 5/s}
`).Policy); len(notes) != 2 {
		t.Errorf("%q", notes)
	}
}

// TestMissingAndBad: a rule that refuses for want of a key part, and paths that
// the policy takes for bad requests.
func TestMissingAndBad(t *testing.T) {
	r := replayText(t, "ambiguous_path: reject\nlimits: [{name: a, key: [\"header:X-Id\"], on_missing: deny, limit: 5/s}]",
		at(0, "192.0.2.1", "GET /a")+at(1, "192.0.2.1", "GET /a;x/b"))
	if r.Denied != 2 || r.Refused != 1 || r.Rules[0].Denied != 1 || r.Rules[0].CallersDenied != 1 {
		t.Errorf("%s", asJSON(t, r))
	}
}

// TestCompare: who is refused anew, and who no more.
func TestCompare(t *testing.T) {
	var runs [2]*Run
	for i, text := range []string{"5/min", "3/min"} {
		run, err := New(policyOf(t, "limits: [{name: a, key: [ip], limit: "+text+"}]").Policy, nil, Options{Clients: true})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		runs[i] = run
	}
	for i, n := range []int{2, 4, 7} {
		for range n {
			r := &accesslog.Record{At: int64(i) * 1e9, IP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Client: "x", Path: "/"}
			for _, run := range runs {
				if err := run.Take(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	const want = `{"requests":13,"skipped_lines":0,"old":{"denied":2,"callers_denied":1},"new":{"denied":5,"callers_denied":2},` +
		`"newly_refused":[{"key":"192.0.2.1","denied":1}],"newly_admitted":[]}`
	if got := asJSON(t, Compare(runs[0], runs[1])); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := Compare(runs[1], runs[0]); len(d.NewlyAdmitted) != 1 || len(d.NewlyRefused) != 0 {
		t.Errorf("%+v", d)
	}
}

// TestCompareBadPaths: who is refused for a path that can be read in two ways is
// refused, and is told.
func TestCompareBadPaths(t *testing.T) {
	var runs [2]*Run
	for i, text := range []string{"charge", "reject"} {
		run, err := New(policyOf(t, "ambiguous_path: "+text+"\nlimits: [{name: a, key: [ip], limit: 5/s}]").Policy, nil, Options{Clients: true})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		if err := run.Take(t.Context(), &accesslog.Record{IP: netip.MustParseAddr("192.0.2.1"), Client: "192.0.2.1", Path: "/a;x/b"}); err != nil {
			t.Fatal(err)
		}
		runs[i] = run
	}
	if d := Compare(runs[0], runs[1]); len(d.NewlyRefused) != 1 || d.NewlyRefused[0] != (Caller{"192.0.2.1", 1}) || d.New.CallersDenied != 1 {
		t.Errorf("%+v", d)
	}
}

// TestPlay: rows of traffic on their own clock.
func TestPlay(t *testing.T) {
	f := policyOf(t, "limits: [{name: a, key: [ip], limit: 100/min algorithm=fixed_window}]")
	who, err := identity.NewResolver(f.Identity())
	if err != nil {
		t.Fatal(err)
	}
	call := identity.Call{Peer: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/"}
	got, err := Play(t.Context(), f.Policy, who, []Row{
		{Call: call, Count: 101, After: 59 * time.Second}, {Call: call, Count: 101, After: 2 * time.Second}, {Call: call, Count: 2, Every: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{Admitted: 100, Refused: 1, First: 59 * time.Second, RefusedBy: []string{"a"}},
		{Admitted: 100, Refused: 1, First: 61 * time.Second, RefusedBy: []string{"a"}},
		{Admitted: 1, Refused: 1, First: 61 * time.Second, RefusedBy: []string{"a"}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestHTML: the page is well formed, needs nothing from elsewhere, and what
// stands in a log stays text.
func TestHTML(t *testing.T) {
	log := ""
	for i := range 400 {
		log += at(i*7, "<script>alert(1)</script>", "GET /")
	}
	r := replayText(t, "limits: [{name: a, key: [ip], limit: 2/min}]", log)
	var page strings.Builder
	if err := r.WriteHTML(&page, "weir.yaml"); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if strings.Contains(text, "<script") || strings.Contains(text, "http:") || strings.Contains(text, "https:") || strings.Contains(text, "src=") {
		t.Error("the page runs or loads something")
	}
	if strings.Count(text, "<svg") != 2 || strings.Count(text, `class="d"`) < 10 || !strings.Contains(text, "&lt;script&gt;") {
		t.Errorf("charts or callers are missing:\n%s", text)
	}
	for part := range strings.SplitSeq(text, "<svg") {
		drawing, _, ok := strings.Cut(part, "</svg>")
		if !ok {
			continue
		}
		d := xml.NewDecoder(strings.NewReader("<svg" + drawing + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, drawing)
			}
		}
	}
	if file := os.Getenv("WEIR_PAGE"); file != "" { // to be looked at
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoReadings: a path that can be read in two ways is one request, refused
// once, and the texts of those that are refused after it stay their own.
func TestTwoReadings(t *testing.T) {
	log := ""
	for i := range 3 {
		log += at(i, "192.0.2.1", "GET /a%2Fb") + at(i, "192.0.2.2", "GET /c")
	}
	r := replayText(t, "limits: [{name: a, key: [ip, path], limit: 1/h}]", log)
	want := `[{"key":"ip=192.0.2.1 path=/a%2Fb","denied":2},{"key":"ip=192.0.2.2 path=/c","denied":2}]`
	if got := asJSON(t, r.Rules[0].Top); r.Denied != 4 || r.Rules[0].Matched != 6 || r.Rules[0].Denied != 4 || got != want {
		t.Errorf("%s, %+v", got, r.Rules[0])
	}
}
