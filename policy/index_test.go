package policy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// shapes are ways in which a policy grows to a thousand rules.
var shapes = []struct {
	name string
	rule func(i int) Conditions
}{
	{"paths", func(i int) Conditions { return Conditions{Paths: []string{fmt.Sprintf("/api/v1/thing%d/**", i)}} }},
	{"paths-and-methods", func(i int) Conditions {
		return Conditions{Methods: []string{[]string{"GET", "POST"}[i%2]}, Paths: []string{fmt.Sprintf("/api/*/thing%d", i), fmt.Sprintf("/x/%d", i)}}
	}},
	{"hosts", func(i int) Conditions {
		return Conditions{Hosts: []string{fmt.Sprintf("h%d.example.com", i)}, Paths: []string{"/api/**"}}
	}},
	{"subdomains", func(i int) Conditions { return Conditions{Hosts: []string{fmt.Sprintf("*.h%d.example.com", i)}} }},
	{"tenants", func(i int) Conditions {
		return Conditions{Tenants: []string{fmt.Sprint("t", i)}, Paths: []string{"/api/**"}}
	}},
	{"plans", func(i int) Conditions { return Conditions{Plans: []string{fmt.Sprint("p", i)}} }},
}

// grown returns a policy of n rules of a shape, and a request that one of them
// and three general rules match.
func grown(t testing.TB, n int, rule func(i int) Conditions) (*Policy, *identity.Call, *identity.Caller) {
	rules := []Rule{
		{Name: "all", Key: parts(t, "all"), Limit: weir.PerSecond(5)},
		{Name: "ip", Key: parts(t, "ip"), Limit: weir.PerSecond(5)},
		{Name: "tenant", Match: Conditions{Paths: []string{"/api/**"}}, Key: parts(t, "tenant"), Limit: weir.PerSecond(5)},
	}
	for i := range n - len(rules) {
		rules = append(rules, Rule{Name: fmt.Sprint("r", i), Match: rule(i), Key: parts(t, "ip", "route"), Limit: weir.PerSecond(5)})
	}
	call := &identity.Call{Method: "POST", Path: "/api/v1/thing5", Host: "h5.example.com", Header: http.Header{}}
	if len(rules) > 3 && len(rules[3].Match.Hosts) > 0 && strings.HasPrefix(rules[3].Match.Hosts[0], "*") {
		call.Host = "a.h5.example.com"
	}
	return compile(t, Options{Rules: rules}), call, someone("192.0.2.1", "t5", "p5")
}

func BenchmarkCharges(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{10, 1000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				p, call, caller := grown(b, n, shape.rule)
				var m Match
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Charges(call, caller, &m); err != nil || len(m.Charges) != 4 {
						b.Fatal(len(m.Charges), err)
					}
				}
			})
		}
	}
}

// TestThousandRules: a thousand rules cost at most three times what ten cost.
// The best of many short runs is compared, so that a busy machine does not
// decide.
func TestThousandRules(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			var best [2]time.Duration
			for i, n := range []int{10, 1000} {
				p, call, caller := grown(t, n, shape.rule)
				var m Match
				best[i] = time.Hour
				for range 50 {
					began := time.Now()
					for range 200 {
						if err := p.Charges(call, caller, &m); err != nil || len(m.Charges) != 4 {
							t.Fatal(len(m.Charges), err)
						}
					}
					best[i] = min(best[i], time.Since(began))
				}
			}
			if best[1] > 3*best[0] {
				t.Errorf("1000 rules take %v, 10 rules %v for 200 requests", best[1], best[0])
			}
		})
	}
}

func TestChargesAllocateNothing(t *testing.T) {
	p, call, caller := grown(t, 100, shapes[0].rule)
	var m Match
	if n := testing.AllocsPerRun(100, func() { _ = p.Charges(call, caller, &m) }); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// TestIndexFindsAll: the index never hides a rule that matches. Random rules
// and requests out of few words, so that they meet often.
func TestIndexFindsAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	words := []string{"a", "b", "*", "**", "c"}
	path := func(wild bool) string {
		var s []string
		for range random.IntN(4) {
			w := words[random.IntN(len(words))]
			if !wild && strings.HasPrefix(w, "*") || len(s) > 0 && s[len(s)-1] == "**" && w == "**" {
				w = "a"
			}
			s = append(s, w)
		}
		return "/" + strings.Join(s, "/")
	}
	some := func(from ...string) []string {
		if random.IntN(2) == 0 {
			return nil
		}
		return []string{from[random.IntN(len(from))]}
	}
	met := 0
	for range 2000 {
		var list []conditions
		var f faults
		for range 1 + random.IntN(20) {
			c := Conditions{
				Methods: some("GET", "POST"), Hosts: some("a.example", "*.example", "b.a.example"),
				Tenants: some("t", "u"), Plans: some("p", "q"),
			}
			for range random.IntN(3) {
				c.Paths = append(c.Paths, path(true))
			}
			list = append(list, compileConditions(&c, "", &f))
		}
		if len(f.list) > 0 {
			t.Fatal(f.list)
		}
		x := buildIndex(list)
		for range 20 {
			q := request{
				call:   &identity.Call{},
				caller: &identity.Caller{Tenant: append(some("t", "u"), "")[0], Plan: append(some("p", "q"), "")[0]},
				method: append(some("GET", "HEAD"), "POST")[0],
				host:   append(some("a.example", "b.a.example", "example"), "c")[0],
				path:   path(false),
			}
			found := make(candidates, 1)
			x.find(found, &q)
			is := slices.Collect(found.all)
			for i := range list {
				if list[i].match(&q) != holds {
					continue
				}
				met++
				if !slices.Contains(is, i) {
					t.Fatalf("rule %d matches %+v and is not found", i, q)
				}
			}
		}
	}
	if met < 1000 {
		t.Errorf("only %d matches: the test shows nothing", met)
	}
}
