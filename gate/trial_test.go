package gate

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
)

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
