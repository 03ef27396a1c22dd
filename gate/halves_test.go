package gate

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// TestHalves: requests that are first all matched and then all decided, by
// another verdict, get the answers of requests that are decided whole.
func TestHalves(t *testing.T) {
	pro := map[string]weir.Limit{"pro": limit(t, "6/min")}
	p := compiled(t,
		policy.Rule{Name: "each", Key: key(t, "ip"), Limit: limit(t, "5/min"), Try: limit(t, "2/min")},
		policy.Rule{Name: "plan", Key: key(t, "tenant"), Limit: limit(t, "4/min"), Plans: pro, OnMissing: policy.Skip},
		policy.Rule{Name: "shadow", Key: key(t, "ip", "path"), Limit: limit(t, "3/min"), Mode: policy.Shadow, Try: limit(t, "1/min")},
		policy.Rule{Name: "keyed", Match: policy.Conditions{Paths: []string{"/keyed"}}, Key: key(t, "tenant"), Limit: limit(t, "9/min"), OnMissing: policy.Deny},
		policy.Rule{Name: "route", Match: policy.Conditions{Paths: []string{"/a/**"}}, Key: key(t, "ip", "route"), Limit: limit(t, "4/min"), Cost: policy.Cost{Paths: map[string]int64{"/a/b": 2}}},
	)
	calls := []*identity.Call{
		call("GET", "/a/b", "192.0.2.1", ""), call("GET", "/a/b", "192.0.2.1", "k-acme"), call("GET", "/healthz", "192.0.2.1", ""),
		call("GET", "/x", "192.0.2.2", "k-old"), call("GET", "/keyed", "192.0.2.2", ""), call("GET", "/keyed", "192.0.2.2", "k-beta"),
		call("GET", "/a/../a/b", "192.0.2.3", ""), call("GET", "/a%2Fb", "192.0.2.3", "k-acme"), call("POST", "/x", "2001:db8::1", ""),
	}
	ctx := context.Background()
	var now clock
	whole, halved := New(limiter(t, &now), resolver(t, "pro"), p), New(limiter(t, &now), resolver(t, "pro"), p)
	answer := func(v *Verdict, err error) string {
		text := fmt.Sprint(err, v.Bill.Decision, v.Bill.Each, v.Exempt, v.RuleName(-1))
		for i, c := range v.Bill.Charges {
			c.Receipt = weir.Receipt{}
			text += fmt.Sprintf("\n%+v %s %d shown %v try %v", c, v.RuleName(i), v.RuleNumber(i), v.Shown(i), v.IsTry(i))
		}
		return text
	}
	var first, second Verdict
	var claims policy.Claims
	decided := 0
	for round := range 3 { // the claims are used again
		claims.Clear()
		var want, got []string
		for range 4 {
			for _, c := range calls {
				v := decide(t, whole, c)
				want = append(want, answer(v, nil))
				Put(v)
			}
		}
		var ends []int // of the claims; -1 where there were none to be decided
		for range 4 {
			for _, c := range calls {
				open, err := halved.Claim(ctx, c, &first, &claims)
				if open {
					got, ends = append(got, ""), append(ends, claims.Len())
					continue
				}
				got, ends = append(got, answer(&first, err)), append(ends, -1)
			}
		}
		begin := 0
		for i, end := range ends {
			if end < 0 {
				continue
			}
			err := halved.DecideClaims(ctx, &second, &claims, begin, end)
			got[i] = answer(&second, err)
			begin, decided = end, decided+1
		}
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("round %d, request %d:\n%s\nin halves\n%s", round, i, want[i], got[i])
			}
		}
	}
	if decided == 0 || !reflect.DeepEqual(second.Caller, identity.Caller{}) {
		t.Errorf("%d decided; the second verdict knows %+v", decided, second.Caller)
	}
}
