package policyfile

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
	"time"

	"github.com/weirhq/weir/identity"
)

// Test is an assertion beside the rules: so much traffic of a caller, and how
// many of its requests are admitted. `weir policy test` runs it, from empty
// balances; nothing else heeds it.
type Test struct {
	Name      string
	Line      int // where it stands in the file
	Caller    TestCaller
	Traffic   []Traffic
	Admitted  int // of all the traffic; -1 if not asserted
	RefusedBy string
}

// TestCaller is who asks.
type TestCaller struct {
	IP      netip.Addr
	Headers map[string]string // by canonical name
}

// Traffic is a row of equal requests.
type Traffic struct {
	Method, Path, Host string
	Count              int
	After              time.Duration // before the first, since the traffic before
	Every              time.Duration // from one request to the next
	Cost               int64         // of each; 0 leaves it to the rules
	Admitted           int           // of these; -1 if not asserted
}

// The bounds of a test: it ends within a second.
const (
	maxTestCount = 100_000
	maxTestSpan  = 366 * 24 * time.Hour
)

func (r *reader) tests(n *node, path string, f *File) {
	names := map[string]bool{}
	r.list(n, path, "tests", func(n *node, path string) {
		t := Test{Admitted: -1, Line: n.line, Caller: TestCaller{IP: netip.AddrFrom4([4]byte{192, 0, 2, 1})}}
		if !r.object(n, path, "a test", []field{
			{"name", func(n *node, path string) { t.Name, _ = r.scalar(n, path) }},
			{"caller", func(n *node, path string) { r.testCaller(n, path, &t.Caller) }},
			{"traffic", func(n *node, path string) {
				r.list(n, path, "traffic", func(n *node, path string) { t.Traffic = append(t.Traffic, r.traffic(n, path)) })
			}},
			{"admitted", r.integerTo(&t.Admitted, 0, maxTestCount)},
			{"refused_by", r.scalarTo(&t.RefusedBy)},
		}) {
			return
		}
		asserts := t.Admitted >= 0 || t.RefusedBy != ""
		for _, traffic := range t.Traffic {
			asserts = asserts || traffic.Admitted >= 0
		}
		switch {
		case t.Name == "":
			r.fail(n, "a test needs a name: that says what is meant")
		case names[t.Name]:
			r.fail(n, "%q is already the name of a test", clip(t.Name))
		case len(t.Traffic) == 0:
			r.fail(n, "a test needs traffic: such as [{path: /login, count: 10}]")
		case !asserts:
			r.fail(n, "a test needs admitted: or refused_by:, or there is nothing to hold it against")
		}
		names[t.Name] = true
		f.Tests = append(f.Tests, t)
	})
}

func (r *reader) testCaller(n *node, path string, to *TestCaller) {
	r.object(n, path, "caller", []field{
		{"ip", func(n *node, path string) {
			s, ok := r.scalar(n, path)
			if !ok {
				return
			}
			ip, err := netip.ParseAddr(s)
			if err != nil {
				r.fail(n, "%q is no address", clip(s))
			}
			to.IP = ip
		}},
		{"headers", func(n *node, path string) {
			to.Headers = map[string]string{}
			// A header may be an API key.
			r.entries(n, path, "headers", true, func(name string, _, v *node, path string) {
				if s, ok := r.scalar(v, path); ok {
					to.Headers[textproto.CanonicalMIMEHeaderKey(name)] = s
				}
			})
		}},
	})
}

func (r *reader) traffic(n *node, path string) Traffic {
	t := Traffic{Method: "GET", Path: "/", Count: 1, Admitted: -1}
	cost := 0
	r.object(n, path, "traffic", []field{
		{"method", r.scalarTo(&t.Method)},
		{"path", func(n *node, path string) {
			if r.scalarTo(&t.Path)(n, path); !strings.HasPrefix(t.Path, "/") {
				r.fail(n, "a path begins with /")
			}
		}},
		{"host", r.scalarTo(&t.Host)},
		{"count", r.integerTo(&t.Count, 1, maxTestCount)},
		{"after", r.durationTo(&t.After, 0, maxTestSpan)},
		{"every", r.durationTo(&t.Every, 0, maxTestSpan)},
		{"cost", r.integerTo(&cost, 0, maxCost)},
		{"admitted", r.integerTo(&t.Admitted, 0, maxTestCount)},
	})
	t.Cost = int64(cost)
	return t
}

// checkTests finds tests that name a rule that is not there.
func (r *reader) checkTests(f *File) {
	for i, t := range f.Tests {
		found := t.RefusedBy == ""
		var rules []string
		for _, rule := range f.Policy.Rules() {
			found = found || rule.Name == t.RefusedBy
			rules = append(rules, rule.Name)
		}
		if !found {
			m := r.place(fmt.Sprintf("tests[%d].refused_by", i))
			r.fail(&node{line: m.line, column: m.column}, "there is no rule %q%s", clip(t.RefusedBy), didYouMean(t.RefusedBy, rules))
		}
	}
}

// Identity is how the file's callers are told apart, with the API keys of the
// file alone.
func (f *File) Identity() identity.Config {
	return identity.Config{
		ClientIP: f.ClientIP, Tenants: f.Tenants,
		APIKeys: identity.APIKeys{Header: f.APIKeys.Header, Keys: f.APIKeys.Keys},
		User:    identity.User{Header: f.User.Header},
	}
}
