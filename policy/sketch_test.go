package policy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"reflect"
	"testing"

	"github.com/weirhq/weir/identity"
)

// TestSketch: a request with its sketch is charged as one without, whatever the
// rules ask for. Random rules and requests out of few words, so that they meet.
func TestSketch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	some := func(from ...string) []string {
		if random.IntN(3) > 0 {
			return nil
		}
		return []string{pick(from...)}
	}
	conditions := func() Conditions {
		c := Conditions{Methods: some("GET", "POST"), Hosts: some("a.example", "*.example"), Paths: some("/a/**", "/a", "/b/*", "/*/c", "/**/c")}
		if random.IntN(4) == 0 {
			c.IPs = []netip.Prefix{netip.MustParsePrefix(pick("192.0.2.1/32", "192.0.2.0/24", "2001:db8::/32"))}
		}
		if random.IntN(6) == 0 {
			c.Headers = []HeaderCondition{{Name: "X-A", Values: some("1")}}
		}
		return c
	}
	sketched, charged := 0, 0
	for range 300 {
		o := Options{RejectAmbiguous: random.IntN(4) == 0}
		for i := range 1 + random.IntN(12) {
			r := Rule{
				Name: fmt.Sprint("r", i), Match: conditions(), Key: parts(t, pick("ip", "all", "route", "path", "header:X-A")), Limit: limit(t, "5/min"),
				OnMissing: OnMissing(random.IntN(3)), Mode: Mode(random.IntN(2)), Cost: Cost{Default: int64(random.IntN(3))},
			}
			if random.IntN(2) == 0 {
				r.Key = append(parts(t, "ip"), r.Key...)[random.IntN(2):]
			}
			if random.IntN(3) == 0 {
				r.Not = conditions()
			}
			if random.IntN(3) == 0 {
				r.Try = limit(t, "3/min")
			}
			o.Rules = append(o.Rules, r)
		}
		if c := conditions(); len(c.Paths) > 0 {
			o.Exempt = append(o.Exempt, c)
		}
		if random.IntN(8) == 0 {
			o.Rules[0].Match.Tenants = []string{"t"}
		}
		p, err := Compile(o)
		if err != nil {
			continue // such as a key of two parts that are one
		}
		var m, other Match
		for range 40 {
			call := &identity.Call{
				Method: pick("GET", "HEAD", "post", "PUT"), Host: pick("a.example:80", "B.example", ""),
				Path: pick("/a", "/a/", "/a/x/c", "/b/c", "/c", "/", "/a/../b/c", "/a%2Fc", "/a//c"), Header: http.Header{},
			}
			if random.IntN(2) == 0 {
				call.Header = http.Header{"X-A": {pick("1", "2")}}
			}
			caller := someone(pick("192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::1"), append(some("t"), "")[0], "")
			other.Sketch = p.Sketch(call.Method, call.Host, call.Path)
			if random.IntN(2) == 0 { // as the gate asks
				if a, b := p.Exempt(call, caller, &m), p.Exempt(call, caller, &other); a != b {
					t.Fatalf("%+v: exempt %v, with its sketch %v", call, a, b)
				}
			}
			if a, b := p.Charges(call, caller, &m), p.Charges(call, caller, &other); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%+v: %v, with its sketch %v", call, a, b)
			}
			if m.Exempt != other.Exempt || m.Denied != other.Denied || len(m.Charges) != len(other.Charges) {
				t.Fatalf("%+v: %+v, with its sketch %+v", call, m, other)
			}
			for i := range m.Charges {
				if !reflect.DeepEqual(m.Charges[i], other.Charges[i]) || m.Rules[i] != other.Rules[i] || m.Shown(i) != other.Shown(i) || m.Try(i) != other.Try(i) || m.Route(i) != other.Route(i) {
					t.Fatalf("%+v, charge %d: %+v, with its sketch %+v", call, i, m.Charges[i], other.Charges[i])
				}
			}
			if other.Sketch != nil {
				sketched++
				charged += len(m.Charges)
			}
		}
	}
	if sketched < 2000 || charged < 2000 {
		t.Errorf("%d sketches, %d charges: the test shows nothing", sketched, charged)
	}
}

// TestSketchOfAnother: a sketch by another policy is passed over.
func TestSketchOfAnother(t *testing.T) {
	rule := func(name string) *Policy {
		return compile(t, Options{Rules: []Rule{{Name: name, Key: parts(t, "ip"), Limit: limit(t, "5/min")}}})
	}
	was, is := rule("was"), rule("is")
	m := Match{Sketch: was.Sketch("GET", "", "/")}
	if err := is.Charges(get("/"), someone("192.0.2.1", "", ""), &m); err != nil || len(m.Rules) != 1 || m.Rules[0].Name != "is" {
		t.Errorf("%v, %v", m.Rules, err)
	}
}
