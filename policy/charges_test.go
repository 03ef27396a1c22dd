package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/identity"
)

func TestExempt(t *testing.T) {
	p := compile(t, Options{
		Exempt: []Conditions{
			{Paths: []string{"/healthz"}},
			{IPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/32")}, Methods: []string{"GET"}},
			{Tenants: []string{"own"}},
		},
		Rules: []Rule{{Name: "r", Key: parts(t, "ip"), Limit: weir.PerMinute(5)}},
	})
	for _, c := range []struct {
		method, path string
		caller       *identity.Caller
		want         string
		early        bool
	}{
		{"GET", "/", someone("192.0.2.1", "", ""), "r", false},
		{"GET", "/healthz", someone("192.0.2.1", "", ""), "exempt", true},
		{"GET", "/healthz/", someone("192.0.2.1", "", ""), "exempt", true},
		{"GET", "/", someone("192.0.2.10", "", ""), "exempt", true},
		{"POST", "/", someone("192.0.2.10", "", ""), "r", false},
		{"POST", "/", someone("192.0.2.1", "own", ""), "exempt", false},
		// Exempt under one reading is not exempt.
		{"GET", "/healthz;x=/../login", someone("192.0.2.1", "", ""), "r", false},
		{"GET", "/login%2F..%2Fhealthz", someone("192.0.2.1", "", ""), "r", false},
	} {
		call := get(c.path)
		call.Method = c.method
		if got := charged(t, p, call, c.caller); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
		var m Match
		early := p.Exempt(call, &identity.Caller{IP: c.caller.IP, Network: c.caller.Network}, &m)
		if early != c.early {
			t.Errorf("%s %s: early %v, want %v", c.method, c.path, early, c.early)
		}
	}
}

func TestAmbiguousPath(t *testing.T) {
	rules := []Rule{
		{Name: "login", Match: Conditions{Paths: []string{"/login"}}, Key: parts(t, "ip", "route"), Limit: weir.PerMinute(5)},
		{Name: "other", Match: Conditions{Paths: []string{"/*"}}, Key: parts(t, "ip", "route"), Limit: weir.PerMinute(5)},
		{Name: "everything", Key: parts(t, "ip"), Limit: weir.PerMinute(5), Cost: Cost{Paths: map[string]int64{"/login": 8}}},
		{Name: "by-path", Key: parts(t, "path"), Limit: weir.PerMinute(5)},
	}
	caller := someone("192.0.2.1", "", "")
	p := compile(t, Options{Rules: rules})
	for path, want := range map[string]string{
		"/login":     "login other everything*8 by-path",
		"/x":         "other everything by-path",
		"/x%2F":      "other everything by-path by-path", // /x%2F and /x: two keys under by-path
		"/a/..;/x":   "everything by-path other by-path", // checked below as sets
		"/login;v=1": "login other everything*8 by-path by-path",
	} {
		got, wanted := strings.Fields(charged(t, p, get(path), caller)), strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %q, want %q", path, got, wanted)
		}
	}
	p = compile(t, Options{Rules: rules, RejectAmbiguous: true})
	var m Match
	err := p.Charges(get("/login;v=1"), caller, &m)
	var input *weir.InputError
	if !errors.As(err, &input) || input.Field != "path" || len(m.Charges) > 0 {
		t.Errorf("an ambiguous path is not refused: %v, %d charges", err, len(m.Charges))
	}
	if got := charged(t, p, get("/login/"), caller); got != "login other everything*8 by-path" {
		t.Errorf("a path with one reading: %q", got)
	}
}

// The route that events tell is that by which the rule matched, under whichever
// reading of the path.
func TestRouteOfASecondReading(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{{Name: "login", Match: Conditions{Paths: []string{"/login"}}, Key: parts(t, "ip"), Limit: weir.PerMinute(5)}}})
	var m Match
	if err := p.Charges(get("/login;v=1"), someone("192.0.2.1", "", ""), &m); err != nil || len(m.Charges) != 1 || m.Route(0) != "/login" {
		t.Errorf("%d charges, route %q, %v", len(m.Charges), m.Route(0), err)
	}
}

func TestModesAndTries(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "live", Key: parts(t, "ip"), Limit: limit(t, "5/s"), Try: limit(t, "4/s"), Plans: map[string]weir.Limit{"big": weir.Unlimited()}},
		{Name: "shadow", Key: parts(t, "ip"), Limit: limit(t, "5/s"), Try: limit(t, "4/s"), Mode: Shadow},
		{Name: "all", Key: parts(t, "all"), Limit: limit(t, "5/s")},
		{Name: "shown", Key: parts(t, "all"), Limit: limit(t, "5/s"), Expose: ExposeYes},
		{Name: "hidden", Key: parts(t, "ip"), Limit: limit(t, "5/s"), Expose: ExposeNo},
	}})
	trials := func(modes Modes, plan string) (trials []int8, shown []bool) {
		m := Match{Modes: modes}
		if err := p.Charges(get("/"), someone("192.0.2.1", "a", plan), &m); err != nil {
			t.Fatal(err)
		}
		for i, c := range m.Charges {
			trials = append(trials, c.Trial)
			shown = append(shown, m.Shown(i))
			if m.Try(i) && c.Space == m.Charges[i-1].Space {
				t.Errorf("a try shares its live limit's space %q", c.Space)
			}
		}
		return trials, shown
	}
	for _, c := range []struct {
		what   string
		modes  Modes
		plan   string
		trials []int8
	}{
		{"as written", nil, "", []int8{0, 1, -1, -1, 0, 0, 0}},
		{"a try beside no limit", nil, "big", []int8{0, -1, -1, -1, 0, 0, 0}},
		{"all shadow", Modes{"": Shadow}, "", []int8{-1, -1, -1, -1, -1, -1, -1}},
		{"one shadow", Modes{"live": Shadow}, "", []int8{-1, -1, -1, -1, 0, 0, 0}},
		{"one enforced", Modes{"": Shadow, "shadow": Enforce}, "", []int8{-1, -1, 0, 3, -1, -1, -1}},
	} {
		if got, _ := trials(c.modes, c.plan); !slices.Equal(got, c.trials) {
			t.Errorf("%s: trials %v, want %v", c.what, got, c.trials)
		}
	}
	if _, shown := trials(nil, ""); !slices.Equal(shown, []bool{true, false, false, false, false, true, false}) {
		t.Errorf("shown %v", shown)
	}
	if _, shown := trials(Modes{"": Shadow}, ""); slices.Contains(shown, true) {
		t.Errorf("a limit that does not decide is shown: %v", shown)
	}
}

func TestBillsAreAccepted(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "a", Key: parts(t, "ip"), Limit: limit(t, "5/s"), Try: limit(t, "5/s"), Cost: Cost{Free: true}},
		{Name: "b", Key: parts(t, "path"), Limit: limit(t, "5/s"), Try: limit(t, "9/s")},
		{Name: "c", Key: parts(t, "ip"), Limit: weir.Unlimited(), Try: limit(t, "9/s")},
	}})
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, path := range []string{"/", "/a;b", "/a%2Fb//../c"} {
		var m Match
		if err := p.Charges(get(path), someone("192.0.2.1", "", ""), &m); err != nil {
			t.Fatal(err)
		}
		if d, err := l.Take(context.Background(), m.Charges...); err != nil || !d.Allowed {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
}

func TestTooManyCharges(t *testing.T) {
	var rules []Rule
	for i := range algo.MaxCharges + 1 {
		rules = append(rules, Rule{Name: fmt.Sprint("r", i), Match: Conditions{Paths: []string{fmt.Sprintf("/%d", i), "/every"}}, Key: parts(t, "ip"), Limit: weir.PerMinute(5)})
	}
	p := compile(t, Options{Rules: rules})
	if got := charged(t, p, get("/1"), someone("192.0.2.1", "", "")); got != "r1" {
		t.Errorf("charged under %q", got)
	}
	if got := charged(t, p, get("/every"), someone("192.0.2.1", "", "")); got != "error" {
		t.Errorf("33 charges: %q", got)
	}
	for i := range rules {
		rules[i].Match = Conditions{}
	}
	if _, err := Compile(Options{Rules: rules}); err == nil || !strings.Contains(err.Error(), "limits[32]") {
		t.Errorf("33 rules for every request: %v", err)
	}
}
