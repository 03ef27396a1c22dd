package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

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
