package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

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

// TestMaxDelay: a door that can hold a request for so long admits what waits no
// longer, to the unit, and says exactly when the next will do.
func TestMaxDelay(t *testing.T) {
	for _, c := range []struct {
		limit    string
		cost     int64
		delay    time.Duration
		admitted int
		retry    time.Duration
	}{
		{"1/s algorithm=leaky_bucket burst=100", 1, 3 * time.Second, 4, time.Second}, // waits of 0, 1, 2 and 3 s
		{"1/s algorithm=leaky_bucket burst=100", 1, 3*time.Second - time.Microsecond, 3, time.Second},
		{"1/s algorithm=leaky_bucket burst=2", 1, time.Hour, 3, time.Second},
		{"1/s algorithm=leaky_bucket burst=100", 5, 4 * time.Second, 1, time.Second}, // the next would wait 5 s
		{"1/s algorithm=leaky_bucket burst=100", 5, 5 * time.Second, 2, 5 * time.Second},
		{"3/s algorithm=leaky_bucket burst=100", 1, time.Second, 4, time.Second/3 + 1},
		{"1000000000/s algorithm=leaky_bucket burst=1000", 1, 24 * time.Hour, 1001, time.Microsecond},
	} {
		var now clock
		g := New(limiter(t, &now), nil, compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, c.limit)}))
		for n := 0; ; n++ {
			v, asked := &Verdict{MaxDelay: c.delay}, call("GET", "/", "192.0.2.1", "")
			asked.Cost = c.cost
			if err := g.Decide(context.Background(), asked, v); err != nil {
				t.Fatal(err)
			}
			if d := v.Bill.Decision; !d.Allowed {
				if n != c.admitted || d.Reason != weir.Limited || d.RetryAfter.Round(time.Microsecond) != c.retry.Round(time.Microsecond) && d.RetryAfter != c.retry.Truncate(time.Microsecond)+time.Microsecond {
					t.Errorf("%s at %d, held for %v at most: %d admitted, then %+v", c.limit, c.cost, c.delay, n, d)
				}
				break
			} else if d.Delay > c.delay {
				t.Errorf("%s: a delay of %v", c.limit, d.Delay)
			}
		}
	}
}

// TestNoWaitOfMany: what costs more than one unit need not wait either while
// nothing stands before it.
func TestNoWaitOfMany(t *testing.T) {
	var now clock
	g := New(limiter(t, &now), nil, compiled(t, policy.Rule{Name: "r", Key: key(t, "ip"), Limit: limit(t, "1/s algorithm=leaky_bucket burst=5")}))
	for _, want := range []bool{true, false} {
		v, asked := &Verdict{NoWait: true}, call("GET", "/", "192.0.2.1", "")
		asked.Cost = 3
		if err := g.Decide(context.Background(), asked, v); err != nil {
			t.Fatal(err)
		}
		if d := v.Bill.Decision; d.Allowed != want || d.Delay != 0 || !want && d.Reason != weir.Limited {
			t.Errorf("%+v", d)
		}
	}
}

// TestTrialRefusesNobody: of a policy on trial nothing refuses but a rule that is
// enforced by name.
func TestTrialRefusesNobody(t *testing.T) {
	var rules []policy.Rule
	for i := range 33 {
		rules = append(rules, policy.Rule{Name: fmt.Sprint("r", i), Match: policy.Conditions{Paths: []string{"/many"}}, Key: key(t, "ip"), Limit: limit(t, "0/s")})
	}
	rules = append(rules, policy.Rule{Name: "last", Match: policy.Conditions{Paths: []string{"/a/**"}}, Key: key(t, "tenant"), Limit: limit(t, "0/s"), OnMissing: policy.Deny})
	p, err := policy.Compile(policy.Options{Rules: rules, RejectAmbiguous: true})
	if err != nil {
		t.Fatal(err)
	}
	var now clock
	g := New(limiter(t, &now), resolver(t, "pro"), p)
	odd := []*identity.Call{
		call("GET", "/many", "192.0.2.1", ""), call("GET", "/a;x/b", "192.0.2.1", ""), call("GET", "/x", "192.0.2.1", "k-old"),
		call("GET", "/a/b", "192.0.2.1", ""), call("GET", "/a/b", "192.0.2.1", "k-acme"), call("GET", "/a%2Fb", "192.0.2.1", "k-old"),
	}
	refused := func() (n int) {
		for _, c := range odd {
			if v := new(Verdict); g.Decide(t.Context(), c, v) != nil || !v.Bill.Allowed {
				n++
			}
		}
		return n
	}
	if n := refused(); n != len(odd) {
		t.Fatalf("%d of %d are refused: the test shows little", n, len(odd))
	}
	g.SetTrial(true)
	g.SetModes([]ModeSwitch{{Mode: policy.Shadow, Until: time.Now().Add(time.Hour)}})
	if n := refused(); n != 0 {
		t.Errorf("%d are refused on trial", n)
	}
	g.SetModes([]ModeSwitch{{Mode: policy.Shadow, Until: time.Now().Add(time.Hour)}, {Rule: "last", Mode: policy.Enforce, Until: time.Now().Add(time.Hour)}})
	if n := refused(); n != 4 {
		t.Errorf("%d are refused by the one rule that is enforced, not 4", n)
	}
}
