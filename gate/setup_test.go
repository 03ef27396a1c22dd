package gate

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// clock is a store's clock that stands still until it is moved.
type clock struct{ now int64 }

func (c *clock) pass(d time.Duration) { c.now += int64(d / time.Microsecond) }

func limiter(t testing.TB, c *clock) *weir.Limiter {
	t.Helper()
	c.now = 1_800_000_000_000_000
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return c.now }})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func limit(t testing.TB, s string) weir.Limit {
	t.Helper()
	l, err := weir.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func key(t testing.TB, names ...string) []identity.Part {
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

func compiled(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(policy.Options{Rules: rules, Exempt: []policy.Conditions{{Paths: []string{"/healthz"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resolver(t testing.TB, plan string) *identity.Resolver {
	t.Helper()
	r, err := identity.NewResolver(identity.Config{
		APIKeys: identity.APIKeys{Header: "X-Api-Key", Keys: map[string]identity.KeyRecord{
			"k-acme": {Tenant: "acme"}, "k-beta": {Tenant: "beta"}, "k-old": {Tenant: "acme", Disabled: true},
		}},
		Tenants: map[string]identity.TenantRecord{"acme": {Plan: plan}, "beta": {Plan: plan}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(method, path, ip, apiKey string) *identity.Call {
	c := &identity.Call{Method: method, Path: path, Peer: netip.MustParseAddr(ip), Header: http.Header{}}
	if apiKey != "" {
		c.Header = http.Header{"X-Api-Key": {apiKey}}
	}
	return c
}

func decide(t testing.TB, g *Gate, c *identity.Call) *Verdict {
	t.Helper()
	v := Get()
	if err := g.Decide(context.Background(), c, v); err != nil {
		t.Fatal(err)
	}
	return v
}

type counting struct{ events int }

func (c *counting) Observe(_ context.Context, e weir.Event) {
	if v, ok := e.Bill.Note.(interface{ RuleName(int) string }); ok && v.RuleName(-1) != "?" {
		c.events++
	}
}
