package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
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

// TestOneBill: a refusal by any limit debits none of them.
func TestOneBill(t *testing.T) {
	var now clock
	p := compiled(t,
		policy.Rule{Name: "login", Match: policy.Conditions{Methods: []string{"POST"}, Paths: []string{"/login", "/password/*"}}, Key: key(t, "ip", "route"), Limit: limit(t, "5/min")},
		policy.Rule{Name: "per-tenant", Key: key(t, "tenant"), Limit: limit(t, "100/min"), OnMissing: policy.Skip},
		policy.Rule{Name: "everyone", Key: key(t, "all"), Limit: limit(t, "110/min")},
	)
	g := New(limiter(t, &now), resolver(t, ""), p)
	left := func(rule string, c *identity.Call) int64 {
		c.Peek = true
		v := decide(t, g, c)
		for i, r := range v.Rules {
			if r.Name == rule {
				return v.Bill.Each[i].Remaining
			}
		}
		t.Fatalf("%s does not apply", rule)
		return 0
	}
	login := func(ip, key string) *Verdict { return decide(t, g, call("POST", "/login", ip, key)) }
	want := func(what string, login, tenant, all int64) {
		t.Helper()
		a := left("login", call("POST", "/login", "192.0.2.1", "k-acme"))
		b := left("per-tenant", call("POST", "/login", "192.0.2.1", "k-acme"))
		c := left("everyone", call("GET", "/", "192.0.2.9", ""))
		if a != login || b != tenant || c != all {
			t.Fatalf("%s: login %d, tenant %d, everyone %d; want %d %d %d", what, a, b, c, login, tenant, all)
		}
	}
	want("at first", 5, 100, 110)
	for range 5 {
		if v := login("192.0.2.1", "k-acme"); !v.Bill.Allowed {
			t.Fatalf("refused: %+v", v.Bill.Decision)
		}
	}
	want("after five", 0, 95, 105)
	if v := login("192.0.2.1", "k-acme"); v.Bill.Allowed || v.Rules[v.Bill.Binding].Name != "login" || v.Bill.RetryAfter != 12*time.Second {
		t.Fatalf("the sixth: %+v", v.Bill.Decision)
	}
	want("after a refusal by login", 0, 95, 105)
	// Another route of the same rule has its own balance.
	if v := decide(t, g, call("POST", "/password/reset", "192.0.2.1", "k-acme")); !v.Bill.Allowed {
		t.Fatalf("another route: %+v", v.Bill.Decision)
	}
	want("after another route", 0, 94, 104)
	for range 94 {
		if v := decide(t, g, call("GET", "/", "192.0.2.7", "k-acme")); !v.Bill.Allowed {
			t.Fatalf("refused: %+v", v.Bill.Decision)
		}
	}
	want("tenant spent", 0, 0, 10)
	if v := login("192.0.2.2", "k-acme"); v.Bill.Allowed || v.Rules[v.Bill.Binding].Name != "per-tenant" {
		t.Fatalf("tenant spent: %+v", v.Bill.Decision)
	}
	if n := left("login", call("POST", "/login", "192.0.2.2", "k-acme")); n != 5 {
		t.Fatalf("a refusal by the tenant's limit debited login: %d left", n)
	}
	for range 10 {
		decide(t, g, call("GET", "/", "192.0.2.8", ""))
	}
	want("everyone spent", 0, 0, 0)
	if v := login("192.0.2.3", "k-beta"); v.Bill.Allowed || v.Rules[v.Bill.Binding].Name != "everyone" {
		t.Fatalf("everyone spent: %+v", v.Bill.Decision)
	}
	if n := left("per-tenant", call("GET", "/", "192.0.2.3", "k-beta")); n != 100 {
		t.Fatalf("a refusal by everyone's limit debited beta: %d left", n)
	}
}

func TestAnswersWithoutABill(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), resolver(t, ""), compiled(t,
		policy.Rule{Name: "keyed", Match: policy.Conditions{Paths: []string{"/api/**"}}, Key: key(t, "tenant"), Limit: limit(t, "5/min"), OnMissing: policy.Deny},
	))
	seen := &counting{}
	g.Observe(seen)
	for _, c := range []struct {
		what      string
		call      *identity.Call
		allowed   bool
		reason    weir.Reason
		exempt    bool
		forbidden bool
		rule      string
	}{
		{"no rule", call("GET", "/", "192.0.2.1", ""), true, weir.OK, false, false, ""},
		{"exempt", call("GET", "/healthz", "192.0.2.1", "k-old"), true, weir.OK, true, false, ""},
		{"missing", call("GET", "/api/x", "192.0.2.1", ""), false, weir.Missing, false, true, "keyed"},
		{"unknown key is missing", call("GET", "/api/x", "192.0.2.1", "k-none"), false, weir.Missing, false, true, "keyed"},
		{"disabled", call("GET", "/", "192.0.2.1", "k-old"), false, weir.Blocked, false, true, ""},
		{"charged", call("GET", "/api/x", "192.0.2.1", "k-acme"), true, weir.OK, false, false, ""},
	} {
		v := decide(t, g, c.call)
		if v.Bill.Allowed != c.allowed || v.Bill.Reason != c.reason || v.Exempt != c.exempt || v.Forbidden() != c.forbidden || v.RuleName(-1) != c.rule {
			t.Errorf("%s: %+v, exempt %v, forbidden %v, rule %q", c.what, v.Bill.Decision, v.Exempt, v.Forbidden(), v.RuleName(-1))
		}
		if !c.allowed && v.Bill.RetryAfter != weir.Never {
			t.Errorf("%s: retry after %v, though waiting does not help", c.what, v.Bill.RetryAfter)
		}
		Put(v)
	}
	if seen.events != 3 {
		t.Errorf("%d refusals were observed, want 3", seen.events)
	}
	if v := decide(t, New(limiter(t, &now), nil, nil), call("GET", "/", "192.0.2.1", "")); !v.Bill.Allowed {
		t.Errorf("a gate without rules: %+v", v.Bill.Decision)
	}
}

type counting struct{ events int }

func (c *counting) Observe(_ context.Context, e weir.Event) {
	if v, ok := e.Bill.Note.(interface{ RuleName(int) string }); ok && v.RuleName(-1) != "?" {
		c.events++
	}
}

func TestErrors(t *testing.T) {
	var now clock
	l := limiter(t, &now)
	g := New(l, nil, compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, "1/min")}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v := Get()
	for _, path := range []string{"/", "/healthz"} {
		if err := g.Decide(ctx, call("GET", path, "192.0.2.1", ""), v); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a dead context: %v", path, err)
		}
	}
	bad := call("GET", "/", "192.0.2.1", "")
	bad.Cost = -1
	var input *weir.InputError
	if err := g.Decide(context.Background(), bad, v); !errors.As(err, &input) || v.Bill.Allowed {
		t.Errorf("negative cost: %v, allowed %v", err, v.Bill.Allowed)
	}
	if v := decide(t, g, call("GET", "/", "192.0.2.1", "")); !v.Bill.Allowed {
		t.Errorf("something was charged for bad input: %+v", v.Bill.Decision)
	}
}

// TestTries counts how a try answers beside its live limit: all four cells.
func TestTries(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), nil, compiled(t,
		policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, "4/min algorithm=fixed_window"), Try: limit(t, "2/s")},
	))
	var counts [2][2]int
	for i := range 9 {
		v := decide(t, g, call("GET", "/", "192.0.2.1", ""))
		if v.Bill.Allowed != (i < 4) {
			t.Errorf("request %d: a try decided: %+v", i, v.Bill.Decision)
		}
		for trial := range v.Trials {
			a, b := 0, 0
			if !trial.Admitted {
				a = 1
			}
			if !trial.Proposed {
				b = 1
			}
			counts[a][b]++
		}
		// 3 at once (the third only the try refuses), then one each half second,
		// at the end two at once.
		if i >= 2 && i < 7 {
			now.pass(500 * time.Millisecond)
		}
	}
	if want := [2][2]int{{3, 1}, {4, 1}}; counts != want {
		t.Errorf("both admit, only the try refuses; only the live limit refuses, both: %v, want %v", counts, want)
	}
}

func TestShadow(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), nil, compiled(t,
		policy.Rule{Name: "live", Key: key(t, "ip"), Limit: limit(t, "100/min")},
		policy.Rule{Name: "shadow", Key: key(t, "ip"), Limit: limit(t, "1/min"), Mode: policy.Shadow},
	))
	for i := range 3 {
		v := decide(t, g, call("GET", "/", "192.0.2.1", ""))
		if !v.Bill.Allowed || v.Bill.Limit != 100 || v.Bill.Each[1].Allowed != (i == 0) || v.Shown(1) || !v.Shown(0) {
			t.Errorf("request %d: %+v, shadow %+v", i, v.Bill.Decision, v.Bill.Each[1])
		}
	}
	// A switch puts it in force, and ends by itself.
	g.SetModes([]ModeSwitch{{Rule: "shadow", Mode: policy.Enforce, Until: time.Now().Add(time.Hour)}})
	if v := decide(t, g, call("GET", "/", "192.0.2.1", "")); v.Bill.Allowed {
		t.Error("a switch to enforce does nothing")
	}
	g.SetModes([]ModeSwitch{{Mode: policy.Shadow, Until: time.Now().Add(time.Hour)}})
	if v := decide(t, g, call("GET", "/", "192.0.2.1", "")); !v.Bill.Allowed || v.Shown(0) {
		t.Error("a switch of everything to shadow does nothing")
	}
	g.SetModes([]ModeSwitch{{Rule: "shadow", Mode: policy.Enforce, Until: time.Now().Add(-time.Second)}})
	if v := decide(t, g, call("GET", "/", "192.0.2.1", "")); !v.Bill.Allowed {
		t.Error("a switch whose time is over is in force")
	}
}

// TestNoWait: a door that cannot hold a request admits from a leaky bucket only
// what need not wait, on the balance that other doors use.
func TestNoWait(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), nil, compiled(t,
		policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, "1/s algorithm=leaky_bucket burst=5")},
	))
	ask := func(noWait bool) weir.Decision {
		v := &Verdict{NoWait: noWait}
		if err := g.Decide(context.Background(), call("GET", "/", "192.0.2.1", ""), v); err != nil {
			t.Fatal(err)
		}
		return v.Bill.Decision
	}
	if d := ask(true); !d.Allowed || d.Delay != 0 {
		t.Errorf("the first: %+v", d)
	}
	if d := ask(true); d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("the second has to wait: %+v", d)
	}
	if d := ask(false); !d.Allowed || d.Delay != time.Second {
		t.Errorf("at a door that can wait: %+v", d)
	}
	if d := ask(true); d.Allowed || d.RetryAfter != 2*time.Second {
		t.Errorf("behind it: %+v", d)
	}
}

func TestExplain(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), resolver(t, "free"), compiled(t,
		policy.Rule{Name: "login", Match: policy.Conditions{Methods: []string{"POST"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
		policy.Rule{Name: "pro", Key: key(t, "tenant"), Plans: map[string]weir.Limit{"pro": limit(t, "5/min")}},
		policy.Rule{Name: "tenant", Key: key(t, "tenant", "header:X-Id"), Limit: limit(t, "1/min"), Try: limit(t, "7/s")},
		policy.Rule{Name: "user", Key: key(t, "user"), Limit: limit(t, "5/min"), OnMissing: policy.Skip},
		policy.Rule{Name: "unlimited", Key: key(t, "all"), Limit: weir.Unlimited()},
		policy.Rule{Name: "not", Not: policy.Conditions{Paths: []string{"/api/**"}}, Key: key(t, "all"), Limit: limit(t, "5/min")},
	))
	c := call("GET", "/api/x", "2001:db8::1", "k-acme")
	const want = `{"caller":{"ip":"2001:db8::1","tenant":"acme","plan":"free","user":"","api_key":"known"},` +
		`"matched":[` +
		`{"rule":"tenant","key":"tenant=acme header:X-Id=(missing, ip 2001:db8::/64)","cost":1,"limit":"1/min","remaining":1,"allowed":true,"retry_after_ms":0},` +
		`{"rule":"tenant","key":"tenant=acme header:X-Id=(missing, ip 2001:db8::/64)","cost":1,"limit":"7/s","remaining":7,"allowed":true,"retry_after_ms":0,"shadow":true,"try":true},` +
		`{"rule":"unlimited","key":"all=all","cost":1,"limit":"unlimited","remaining":null,"allowed":true,"retry_after_ms":0}],` +
		`"skipped":[{"rule":"login","why":"the method does not match"},{"rule":"pro","why":"the caller's plan has no limit here"},` +
		`{"rule":"user","why":"the key part user is missing"},{"rule":"not","why":"match.not excludes it"}],` +
		`"allowed":true,"reason":"ok"}`
	for range 3 { // charges nothing
		e, err := g.Explain(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	decide(t, g, c)
	now.pass(500 * time.Microsecond)
	e, err := g.Explain(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if e.Allowed || e.Reason != "limited" || e.Matched[0].RetryAfterMS != 60_000 || *e.Matched[0].Remaining != 0 {
		t.Errorf("a refusal: %+v", e)
	}
}

// TestReset covers B291: no companion of the balance is left behind.
func TestResetAndBlock(t *testing.T) {
	for _, l := range []string{"2/min", "2/min algorithm=fixed_window", "2/min algorithm=sliding_window", "2/min algorithm=sliding_log", "2/min algorithm=leaky_bucket burst=1"} {
		var now clock
		g := New(limiter(t, &now), nil, compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, l)}))
		ctx := context.Background()
		c := call("GET", "/", "2001:db8::5", "")
		decide(t, g, c)
		decide(t, g, c)
		if v := decide(t, g, c); v.Bill.Allowed {
			t.Fatalf("%s: the third is admitted", l)
		}
		if err := g.Reset(ctx, "r", map[string]string{"ip": "2001:db8::77"}); err != nil {
			t.Fatal(err)
		}
		c.Peek = true
		if v := decide(t, g, c); v.Bill.Remaining != 2 || v.Bill.ResetAfter != 0 {
			t.Errorf("%s: after a reset %+v", l, v.Bill.Decision)
		}
		c.Peek = false
		if err := g.Block(ctx, "r", map[string]string{"ip": "2001:db8::77"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, g, c); v.Bill.Allowed || v.Bill.Reason != weir.Blocked || v.Forbidden() {
			t.Errorf("%s: blocked, %+v", l, v.Bill.Decision)
		}
		if err := g.Block(ctx, "r", map[string]string{"ip": "2001:db8::77"}, 0); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, g, c); !v.Bill.Allowed {
			t.Errorf("%s: unblocked, %+v", l, v.Bill.Decision)
		}
		if err := g.Reset(ctx, "other", nil); err == nil || !strings.Contains(err.Error(), "rule") {
			t.Errorf("a rule that is not there: %v", err)
		}
	}
}

// TestReload covers B281, B283 and B285: a reload keeps balances, a changed
// limit is in force at once for everybody, and a raise never denies.
func TestReload(t *testing.T) {
	var now clock
	with := func(l string) *policy.Policy {
		return compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, l)})
	}
	g := New(limiter(t, &now), nil, with("3/min"))
	ask := func() *Verdict { return decide(t, g, call("GET", "/", "192.0.2.1", "")) }
	for range 3 {
		ask()
	}
	g.Swap(nil, with("3/min")) // B281
	if v := ask(); v.Bill.Allowed {
		t.Error("a reload of the same file gave the balance back")
	}
	g.Swap(nil, with("1000/min")) // B285
	now.pass(time.Millisecond * 200)
	if v := ask(); !v.Bill.Allowed {
		t.Errorf("a raised limit denies: %+v", v.Bill.Decision)
	}
	g.Swap(nil, with("100/min"))
	for range 50 {
		decide(t, g, call("GET", "/", "192.0.2.2", ""))
	}
	g.Swap(nil, with("5/min")) // B283
	admitted := 0
	for range 10 {
		if v := decide(t, g, call("GET", "/", "192.0.2.2", "")); v.Bill.Allowed {
			admitted++
		}
	}
	if admitted > 5 {
		t.Errorf("%d admitted under the lowered limit", admitted)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), nil, compiled(t,
		policy.Rule{Name: "a", Key: key(t, "ip", "path"), Limit: limit(t, "1000000/s")},
		policy.Rule{Name: "b", Key: key(t, "all"), Limit: limit(t, "1000000/s")},
	))
	c := call("GET", "/some/path", "192.0.2.1", "")
	ctx := context.Background()
	v := Get() // kept: under the race detector a pool forgets on purpose
	if n := testing.AllocsPerRun(200, func() {
		if err := g.Decide(ctx, c, v); err != nil || !v.Bill.Allowed {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a decision", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	var now clock
	g := New(limiter(b, &now), resolver(b, "pro"), compiled(b,
		policy.Rule{Name: "a", Key: key(b, "ip", "path"), Limit: limit(b, "1000000/s")},
		policy.Rule{Name: "b", Key: key(b, "tenant"), Limit: limit(b, "1000000/s")},
		policy.Rule{Name: "c", Key: key(b, "all"), Limit: limit(b, "1000000/s")},
	))
	c := call("GET", "/some/path", "192.0.2.1", "k-acme")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		v := Get()
		if err := g.Decide(ctx, c, v); err != nil {
			b.Fatal(err)
		}
		Put(v)
	}
}

func Example() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	ip, _ := identity.ParsePart("ip")
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{
		{Name: "each", Key: []identity.Part{ip}, Limit: weir.PerMinute(1)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := New(l, nil, p)
	v := Get()
	defer Put(v)
	request := &identity.Call{Method: "GET", Path: "/", Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{}}
	for range 2 {
		if err := g.Decide(context.Background(), request, v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Bill.Allowed, v.Bill.Reason)
	}
	// Output:
	// true ok
	// false limited
}
