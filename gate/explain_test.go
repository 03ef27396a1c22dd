package gate

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
)

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

// verbs keeps the verbs of what observers heard of.
type verbs []algo.Verb

func (v *verbs) Observe(_ context.Context, e weir.Event) { *v = append(*v, e.Bill.Verb) }

// Who is told what a request without a bill would be answered has not been refused
// one: observers count takes.
func TestExplainedRefusalsAreNotCounted(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), resolver(t, ""), compiled(t, policy.Rule{Name: "r", Key: key(t, "tenant"), Limit: limit(t, "5/min"), OnMissing: policy.Deny}))
	var heard verbs
	g.SetObserver(&heard)
	for _, apiKey := range []string{"k-old", ""} { // switched off, and without the part
		e, err := g.Explain(context.Background(), call("GET", "/", "192.0.2.1", apiKey))
		if err != nil || e.Allowed {
			t.Errorf("%q: %+v %v", apiKey, e, err)
		}
		decide(t, g, call("GET", "/", "192.0.2.1", apiKey))
	}
	if want := (verbs{algo.Peek, algo.Take, algo.Peek, algo.Take}); !slices.Equal(heard, want) {
		t.Errorf("heard of %v, want %v", heard, want)
	}
}

// TestResetAndBlock covers B291: no companion of the balance is left behind.
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

// TestBlockOfTheUnlimited: what blocks nobody is not done.
func TestBlockOfTheUnlimited(t *testing.T) {
	var now clock
	pro := map[string]weir.Limit{"pro": weir.Unlimited()}
	g := New(limiter(t, &now), nil, compiled(t,
		policy.Rule{Name: "none", Key: key(t, "ip"), Limit: weir.Unlimited(), Plans: pro, Try: limit(t, "2/min")},
		policy.Rule{Name: "some", Key: key(t, "ip"), Limit: limit(t, "2/min"), Plans: pro},
	))
	parts := map[string]string{"ip": "192.0.2.1"}
	if err := g.Block(t.Context(), "none", parts, time.Minute); err == nil || !strings.Contains(err.Error(), "unlimited") {
		t.Errorf("nobody is blocked: %v", err)
	}
	for _, err := range []error{g.Block(t.Context(), "none", parts, 0), g.Block(t.Context(), "some", parts, time.Minute), g.Reset(t.Context(), "none", parts)} {
		if err != nil {
			t.Error(err)
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
