package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// parts reads the parts of a key.
func parts(t testing.TB, names ...string) []identity.Part {
	t.Helper()
	var out []identity.Part
	for _, name := range names {
		p, err := identity.ParsePart(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func limit(t testing.TB, s string) weir.Limit {
	t.Helper()
	l, err := weir.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func compile(t testing.TB, o Options) *Policy {
	t.Helper()
	p, err := Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// someone returns a caller at an address, of a tenant on a plan where given.
func someone(ip, tenant, plan string) *identity.Caller {
	a := netip.MustParseAddr(ip)
	c := &identity.Caller{IP: a, Network: identity.NetworkOf(a, 32, 64), Tenant: tenant, Plan: plan}
	if tenant != "" {
		c.Key = identity.KeyKnown
	}
	return c
}

func get(path string) *identity.Call {
	return &identity.Call{Method: "GET", Path: path, Host: "api.example.com", Header: http.Header{}}
}

// charged returns the rules a request is charged under, with marks: ~ shadow,
// ? try, and the cost where it is not 1.
func charged(t testing.TB, p *Policy, call *identity.Call, caller *identity.Caller) string {
	t.Helper()
	var m Match
	if err := p.Charges(call, caller, &m); err != nil {
		return "error"
	}
	switch {
	case m.Exempt:
		return "exempt"
	case m.Denied != nil:
		return "denied by " + m.Denied.Name
	}
	var words []string
	for i, r := range m.Rules {
		w := r.Name
		if m.Try(i) {
			w += "?"
		} else if m.Charges[i].Trial != 0 {
			w += "~"
		}
		if c := m.Charges[i].Cost; c != 1 {
			w += fmt.Sprint("*", c)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestConditions(t *testing.T) {
	ip := parts(t, "ip")
	rule := func(name string, match, not Conditions) Rule {
		return Rule{Name: name, Match: match, Not: not, Key: ip, Limit: weir.PerMinute(5)}
	}
	p := compile(t, Options{Rules: []Rule{
		rule("all", Conditions{}, Conditions{}),
		rule("post", Conditions{Methods: []string{"POST"}}, Conditions{}),
		rule("get", Conditions{Methods: []string{"GET"}}, Conditions{}),
		rule("login", Conditions{Paths: []string{"/login", "/password/*"}}, Conditions{}),
		rule("api", Conditions{Paths: []string{"/api/**"}}, Conditions{Paths: []string{"/api/health"}}),
		rule("deep", Conditions{Paths: []string{"/**/export"}}, Conditions{}),
		rule("host", Conditions{Hosts: []string{"admin.example.com", "*.internal.example"}}, Conditions{}),
		rule("net", Conditions{IPs: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")}}, Conditions{}),
		rule("acme", Conditions{Tenants: []string{"acme"}}, Conditions{}),
		rule("free", Conditions{Plans: []string{"free"}}, Conditions{Tenants: []string{"acme"}, Methods: []string{"GET"}}),
		rule("debug", Conditions{Headers: []HeaderCondition{{Name: "X-Debug"}}}, Conditions{}),
		rule("app", Conditions{Headers: []HeaderCondition{{Name: "X-App", Values: []string{"ios", "web"}}}}, Conditions{}),
	}})
	nobody := someone("192.0.2.1", "", "")
	for _, c := range []struct {
		what   string
		change func(*identity.Call)
		caller *identity.Caller
		want   string
	}{
		{"nothing special", nil, nobody, "all get"},
		{"lower-case method", func(c *identity.Call) { c.Method = "post" }, nobody, "all post"},
		{"HEAD counts as GET", func(c *identity.Call) { c.Method = "HEAD" }, nobody, "all get"},
		{"OPTIONS counts as itself", func(c *identity.Call) { c.Method = "OPTIONS" }, nobody, "all"},
		{"exact path", func(c *identity.Call) { c.Path = "/login" }, nobody, "all get login"},
		{"slash at the end", func(c *identity.Call) { c.Path = "/login/" }, nobody, "all get login"},
		{"spelt otherwise", func(c *identity.Call) { c.Path = "//x/../%6Cogin" }, nobody, "all get login"},
		{"case is kept", func(c *identity.Call) { c.Path = "/LOGIN" }, nobody, "all get"},
		{"one segment", func(c *identity.Call) { c.Path = "/password/reset" }, nobody, "all get login"},
		{"no segment", func(c *identity.Call) { c.Path = "/password" }, nobody, "all get"},
		{"two segments", func(c *identity.Call) { c.Path = "/password/a/b" }, nobody, "all get"},
		{"** covers the path itself", func(c *identity.Call) { c.Path = "/api" }, nobody, "all get api"},
		{"** covers the deep", func(c *identity.Call) { c.Path = "/api/a/b/c" }, nobody, "all get api"},
		{"not ** beside", func(c *identity.Call) { c.Path = "/apix" }, nobody, "all get"},
		{"not", func(c *identity.Call) { c.Path = "/api/health" }, nobody, "all get"},
		{"** in front", func(c *identity.Call) { c.Path = "/a/b/export" }, nobody, "all get deep"},
		{"** in front of all", func(c *identity.Call) { c.Path = "/export" }, nobody, "all get deep"},
		{"both", func(c *identity.Call) { c.Path = "/api/x/export" }, nobody, "all get api deep"},
		{"host with port", func(c *identity.Call) { c.Host = "Admin.Example.com:8443" }, nobody, "all get host"},
		{"host below", func(c *identity.Call) { c.Host = "a.b.internal.example" }, nobody, "all get host"},
		{"not the host itself", func(c *identity.Call) { c.Host = "internal.example" }, nobody, "all get"},
		{"address", nil, someone("198.51.100.7", "", ""), "all get net"},
		{"IPv6 address", nil, someone("2001:db8:5::1", "", ""), "all get net"},
		{"tenant", nil, someone("192.0.2.1", "acme", "pro"), "all get acme"},
		{"plan", nil, someone("192.0.2.1", "beta", "free"), "all get free"},
		{"all of not must hold", func(c *identity.Call) { c.Method = "PUT" }, someone("192.0.2.1", "acme", "free"), "all acme free"},
		{"all of not hold", nil, someone("192.0.2.1", "acme", "free"), "all get acme"},
		{"header there", func(c *identity.Call) { c.Header = http.Header{"X-Debug": {""}} }, nobody, "all get debug"},
		{"header value", func(c *identity.Call) { c.Header = http.Header{"X-App": {"cli", "web"}} }, nobody, "all get app"},
		{"other header value", func(c *identity.Call) { c.Header = http.Header{"X-App": {"cli"}} }, nobody, "all get"},
	} {
		t.Run(c.what, func(t *testing.T) {
			call := get("/")
			if c.change != nil {
				c.change(call)
			}
			if got := charged(t, p, call, c.caller); got != c.want {
				t.Errorf("charged under %q, want %q", got, c.want)
			}
		})
	}
}

func TestLimitOrder(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "r", Key: parts(t, "ip"), Limit: limit(t, "1/s"), OnFailure: weir.Closed, Plans: map[string]weir.Limit{"pro": limit(t, "2/s")}},
		{Name: "named", Key: parts(t, "ip"), Plans: map[string]weir.Limit{"pro": limit(t, "3/s")}},
	}})
	for _, c := range []struct {
		plan, override string
		want           string
	}{
		{"", "", "1/s"},
		{"other", "", "1/s"},
		{"pro", "", "2/s 3/s"},
		{"pro", "4/s", "4/s on_store_failure=closed 3/s"},
		{"", "4/s on_store_failure=open", "4/s on_store_failure=open"},
		{"pro", "4 per second", "2/s 3/s"}, // the directory leaves such a value out; if not, the next in order
	} {
		caller := someone("192.0.2.1", "acme", c.plan)
		if c.override != "" {
			caller.Limits = map[string]string{"r": c.override}
		}
		var m Match
		if err := p.Charges(get("/"), caller, &m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, charge := range m.Charges {
			got = append(got, charge.Limit.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("plan %q, override %q: %q, want %q", c.plan, c.override, got, c.want)
		}
	}
}

func TestCosts(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "a", Key: parts(t, "ip"), Limit: weir.PerMinute(5), Cost: Cost{Paths: map[string]int64{"/api/**": 2, "/api/*/search": 7, "/api/v1/search": 5, "/api/v1/free": 0}}},
		{Name: "b", Key: parts(t, "ip"), Limit: weir.PerMinute(5), Cost: Cost{Free: true, Paths: map[string]int64{"/api/**": 3}}},
		{Name: "c", Key: parts(t, "ip"), Limit: weir.PerMinute(5), Cost: Cost{Default: 9}},
	}})
	for path, want := range map[string]string{
		"/":              "a b*0 c*9",
		"/api":           "a*2 b*3 c*9",
		"/api/v2/search": "a*7 b*3 c*9",
		"/api/v1/search": "a*5 b*3 c*9",
		"/api/v1/free":   "a*0 b*3 c*9",
	} {
		if got := charged(t, p, get(path), someone("192.0.2.1", "", "")); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	call := get("/api/v1/search")
	call.Cost = 4
	if got := charged(t, p, call, someone("192.0.2.1", "", "")); got != "a*4 b*4 c*4" {
		t.Errorf("a cost that the door states: %q", got)
	}
}

func TestMissing(t *testing.T) {
	rule := func(name string, on OnMissing, mode Mode, key ...string) Rule {
		return Rule{Name: name, Key: parts(t, key...), Limit: weir.PerMinute(5), OnMissing: on, Mode: mode}
	}
	p := compile(t, Options{Rules: []Rule{
		rule("ip", UseIP, Enforce, "header:X-Id"),
		rule("skip", Skip, Enforce, "header:X-Id"),
		rule("shadow-deny", Deny, Shadow, "header:X-Id"),
	}})
	deny := compile(t, Options{Rules: []Rule{rule("first", UseIP, Enforce, "ip"), rule("deny", Deny, Enforce, "tenant")}})
	here, there := someone("192.0.2.1", "", ""), someone("192.0.2.2", "", "")
	if got := charged(t, p, get("/"), here); got != "ip" {
		t.Errorf("missing: %q", got)
	}
	if got := charged(t, deny, get("/"), here); got != "denied by deny" {
		t.Errorf("missing under deny: %q", got)
	}
	key := func(call *identity.Call, caller *identity.Caller) string {
		var m Match
		if err := p.Charges(call, caller, &m); err != nil {
			t.Fatal(err)
		}
		return strings.Clone(m.Charges[0].Key)
	}
	with := func(values ...string) *identity.Call {
		c := get("/")
		c.Header = http.Header{"X-Id": values}
		return c
	}
	missing := key(get("/"), here)
	for what, other := range map[string]string{
		"another address":           key(get("/"), there),
		"a value like the address":  key(with("192.0.2.1"), here),
		"a value like a whole key":  key(with(missing), here),
		"an ordinary value":         key(with("x"), here),
		"a value that is a network": key(with("192.0.2.1/32"), here),
	} {
		if other == missing {
			t.Errorf("%s has the key of a missing value, %q", what, missing)
		}
	}
	for what, call := range map[string]*identity.Call{"empty": with(""), "given twice": with("a", "b")} {
		if key(call, here) != missing {
			t.Errorf("%s is not missing", what)
		}
	}
}

// TestKeyParts: what is joined stays apart, and one rule's keys are not
// another's.
func TestKeyParts(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "two", Key: parts(t, "header:X-A", "header:X-B"), Limit: weir.PerMinute(5)},
		{Name: "same", Key: parts(t, "header:X-A", "header:X-B"), Limit: weir.PerMinute(5)},
	}})
	seen := map[string]string{}
	for _, pair := range [][2]string{
		{"user@example.co", "mtest"}, {"user@example.com", "test"}, {"=1:a", "b"}, {"", "=1:ab"}, {"=", "1:a"}, {"a", "b"}, {"a=1:b", "c"}, {"a", "=1:b"},
	} {
		call := get("/")
		call.Header = http.Header{"X-A": {pair[0]}, "X-B": {pair[1]}}
		var m Match
		if err := p.Charges(call, someone("192.0.2.1", "", ""), &m); err != nil {
			t.Fatal(err)
		}
		if m.Charges[0].Space == m.Charges[1].Space {
			t.Errorf("two rules share the space %q", m.Charges[0].Space)
		}
		who := strings.Join(pair[:], "|")
		if other, ok := seen[m.Charges[0].Key]; ok {
			t.Errorf("%q and %q share a key", who, other)
		}
		seen[strings.Clone(m.Charges[0].Key)] = who
	}
}

// TestGroup: a balance lives in one slot whoever asks, and limits of one tenant
// in the same one.
func TestGroup(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "tenant", Key: parts(t, "tenant"), Limit: weir.PerMinute(5)},
		{Name: "tenant-route", Key: parts(t, "path", "tenant"), Limit: weir.PerMinute(5)},
		{Name: "ip", Key: parts(t, "ip", "path"), Limit: weir.PerMinute(5)},
		{Name: "all", Key: parts(t, "all"), Limit: weir.PerMinute(5)},
	}})
	groups := func(caller *identity.Caller) (g []string) {
		var m Match
		if err := p.Charges(get("/a:b/c"), caller, &m); err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Charges {
			g = append(g, strings.Clone(c.Group))
			if !strings.Contains(c.Key, c.Group) {
				t.Errorf("group %q does not follow from key %q", c.Group, c.Key)
			}
		}
		return g
	}
	acme, beta := groups(someone("192.0.2.1", "acme", "")), groups(someone("192.0.2.1", "beta", ""))
	if acme[0] != acme[1] || acme[0] == beta[0] {
		t.Errorf("tenants: %q and %q", acme, beta)
	}
	if acme[2] != beta[2] || acme[3] != beta[3] {
		t.Errorf("shared balances change their slot with the tenant: %q and %q", acme, beta)
	}
}

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

// TestBillsAreAccepted: what a policy charges is a bill that a Limiter takes.
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
	for i := range maxCharges + 1 {
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

func TestBalances(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{{
		Name: "r", Key: parts(t, "ip", "path"), Limit: limit(t, "1/s"), Try: limit(t, "4/s"),
		Plans: map[string]weir.Limit{"a": limit(t, "2/s burst=9"), "b": limit(t, "3/min"), "c": weir.Unlimited()},
	}}})
	network := func(a netip.Addr) netip.Prefix { return identity.NetworkOf(a, 32, 64) }
	charges, err := p.Balances("r", map[string]string{"ip": "192.0.2.1", "path": "/x/"}, network)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range charges {
		got = append(got, c.Space+" "+c.Limit.String())
	}
	want := []string{"rule/r/ip,path 1/s", "rule/r/ip,path 3/min", "try/r/ip,path 4/s"}
	if !slices.Equal(got, want) {
		t.Errorf("balances %q, want %q", got, want)
	}
	var m Match
	if err := p.Charges(get("/x"), someone("192.0.2.1", "", ""), &m); err != nil {
		t.Fatal(err)
	}
	if m.Charges[0].Key != charges[0].Key || m.Charges[0].Group != charges[0].Group || m.Charges[0].Space != charges[0].Space {
		t.Errorf("a reset of %+v would not reach %+v", charges[0], m.Charges[0])
	}
	for _, wrong := range []map[string]string{{"path": "/"}, {"ip": "x", "path": "/"}, {"ip": "192.0.2.1", "path": "/", "tenant": "a"}} {
		if _, err := p.Balances("r", wrong, network); err == nil {
			t.Errorf("parts %v are accepted", wrong)
		}
	}
	if _, err := p.Balances("s", nil, network); err == nil {
		t.Error("a rule that is not there is accepted")
	}
}
