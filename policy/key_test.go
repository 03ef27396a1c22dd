package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

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
