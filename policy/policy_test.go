package policy

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// parts reads the parts of a key.

// someone returns a caller at an address, of a tenant on a plan where given.

// charged returns the rules a request is charged under, with marks: ~ shadow,

// ? try, and the cost where it is not 1.

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

// TestKeyParts: what is joined stays apart, and one rule's keys are not

// another's.

// TestGroup: a balance lives in one slot whoever asks, and limits of one tenant

// in the same one.

// TestBillsAreAccepted: what a policy charges is a bill that a Limiter takes.
