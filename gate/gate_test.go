package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

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
	g.SetObserver(seen)
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

// TestPutForgets: who gets a verdict from the pool gets nothing of who had it before.
func TestPutForgets(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), resolver(t, ""), compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, "1/min")}))
	c := call("GET", "/", "192.0.2.1", "k-acme")
	v := Get()
	v.Door, v.NoWait, v.MaxDelay, v.Sketch, v.Bill.NoReceipts = "door", true, time.Second, g.Sketch(c), true
	if err := g.Decide(context.Background(), c, v); err != nil || v.Sketch == nil {
		t.Fatal(err)
	}
	Put(v)
	if v.Door != "" || v.NoWait || v.MaxDelay != 0 || v.Sketch != nil || v.Bill.NoReceipts {
		t.Errorf("kept of the door: %q %v %v %v %v", v.Door, v.NoWait, v.MaxDelay, v.Sketch, v.Bill.NoReceipts)
	}
	if v.Rules != nil || v.Rule != nil || v.Exempt || v.Caller.Tenant != "" || len(v.Bill.Charges) != 0 || v.Bill.Decision != (weir.Decision{}) || v.Bill.Note != nil {
		t.Errorf("kept of the request: %+v", v)
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

// routed keeps the routes of refusals.
type routed []string

func (r *routed) Observe(_ context.Context, e weir.Event) {
	*r = append(*r, e.Bill.Note.(*Verdict).RouteName(0))
}

// A verdict that is used again for a disabled key says nothing of the request
// before, where the policy exempts nobody and where it does.
func TestARefusedKeyHasNoRouteOfAnother(t *testing.T) {
	for _, exempt := range [][]policy.Conditions{nil, {{Paths: []string{"/healthz"}}}} {
		p, err := policy.Compile(policy.Options{Exempt: exempt, Rules: []policy.Rule{
			{Name: "api", Match: policy.Conditions{Paths: []string{"/api/**"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var now clock
		var seen routed
		g := New(limiter(t, &now), resolver(t, ""), p)
		g.SetObserver(&seen)
		v := new(Verdict)
		if err := g.Decide(context.Background(), call("GET", "/api/x", "192.0.2.1", ""), v); err != nil || v.RouteName(0) != "/api/**" {
			t.Fatalf("%q %v", v.RouteName(0), err)
		}
		if err := g.Decide(context.Background(), call("GET", "/other", "192.0.2.1", "k-old"), v); err != nil || v.Bill.Reason != weir.Blocked {
			t.Fatalf("%+v %v", v.Bill.Decision, err)
		}
		if len(seen) != 1 || seen[0] != "" {
			t.Errorf("exempt %v: the refusal has the routes %q", exempt, seen)
		}
	}
}
