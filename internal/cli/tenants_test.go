package cli_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// The logs make every number exact for a minute, however long the test takes.
// The store may take its time, so that no decision is made without it.
const oneBill = `
decision_timeout: 10s
api_keys: {header: X-API-Key, keys: {k-acme: {tenant: acme}, k-beta: {tenant: beta}}}
limits:
  - {name: login, match: {methods: [POST], paths: [/login]}, key: [ip, route], limit: 5/min algorithm=sliding_log}
  - {name: per-tenant, key: [tenant], limit: 100/min algorithm=sliding_log}
  - {name: everyone, key: [all], limit: 120/min algorithm=sliding_log}
`

// TestOneBill: whichever of the three limits refuses, none is debited.
func TestOneBill(t *testing.T) {
	for _, name := range []string{"memory", "redis"} {
		t.Run(name, func(t *testing.T) {
			store := "memory"
			if name == "redis" {
				store = testredis.Start(t).URL()
			}
			p := start(t, "serve", "-c", policyFile(t, oneBill), "--http", "127.0.0.1:0", "--store", store, "--drain-notice", "1ms")
			admitted := func(n int, method, path, ip, key string) {
				t.Helper()
				var passed atomic.Int64
				together(n, func(int) {
					if d, err := p.check(method, path, ip, key); err != nil || d.Status != 200 {
						t.Errorf("%+v %v", d, err)
						return
					}
					passed.Add(1)
				})
				if int(passed.Load()) != n {
					t.Fatalf("%d of %d admitted", passed.Load(), n)
				}
			}
			refused := func(by, ip, key string, login, tenant, everyone int64) {
				t.Helper()
				together(100, func(int) {
					d, err := p.check("POST", "/login", ip, key)
					if err != nil || d.Status != 429 || d.Charges[d.Binding].Rule != by {
						t.Errorf("%+v %v", d, err)
					}
				})
				left := p.left("POST", "/login", ip, key)
				if left["login"] != login || left["per-tenant"] != tenant || left["everyone"] != everyone {
					t.Errorf("refused by %s, and left are %v; want %d %d %d", by, left, login, tenant, everyone)
				}
			}
			admitted(5, "POST", "/login", "192.0.2.1", "k-acme")
			refused("login", "192.0.2.1", "k-acme", 0, 95, 115)
			admitted(95, "GET", "/", "192.0.2.1", "k-acme")
			refused("per-tenant", "192.0.2.2", "k-acme", 5, 0, 20)
			admitted(20, "GET", "/", "192.0.2.2", "k-beta")
			refused("everyone", "192.0.2.3", "k-beta", 5, 80, 0)
		})
	}
}

const twoDaemons = `
decision_timeout: 10s
api_keys: {header: X-API-Key, redis: true, keys: {%s}}
tenants: {%s}
limits:
  - name: per-tenant
    key: [tenant]
    on_missing: deny
    plans: {free: 10/day, pro: 25/day, big: 60/day algorithm=sliding_log}
    cost: {default: 1, paths: {/api/search: 3, /api/bulk: 7}}
`

// TestTenantsThroughTwoDaemons: 200 tenants on three plans with three costs,
// half of them kept in Redis, ask two daemons at a time. What is admitted is what
// one daemon would have admitted.
func TestTenantsThroughTwoDaemons(t *testing.T) {
	const tenants = 200
	plans := []string{"free", "pro", "big"}
	units := []int{10, 25, 60}
	paths := []string{"/api/list", "/api/search", "/api/bulk"}
	costs := []int{1, 3, 7}
	server := testredis.Start(t)
	o := operate(t, server)
	var keys, inFile []string
	for i := range tenants {
		id, plan := fmt.Sprintf("tenant-%d", i), plans[i%3]
		if i < tenants/2 {
			keys = append(keys, fmt.Sprintf("key-%d: {tenant: %s}", i, id))
			inFile = append(inFile, fmt.Sprintf("%s: {plan: %s}", id, plan))
			continue
		}
		o.do("HSET", "weir:api_key:"+sha256Hex(fmt.Sprintf("key-%d", i)), "tenant", id)
		o.do("HSET", "weir:tenant:"+id, "plan", plan)
	}
	file := policyFile(t, fmt.Sprintf(twoDaemons, strings.Join(keys, ", "), strings.Join(inFile, ", ")))
	var daemons [2]*process
	for i := range daemons {
		daemons[i] = start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	}
	type request struct{ tenant, n int }
	var requests []request
	for n := 0; n < 80; n++ { // round robin, so that all tenants are at work at a time
		for i := range tenants {
			if fit := units[i%3] / costs[i/3%3]; n < fit+fit/3+2 {
				requests = append(requests, request{i, n})
			}
		}
	}
	var admitted, denied [tenants]atomic.Int64
	together(len(requests), func(i int) {
		r := requests[i]
		// Each tenant has a network of its own: the look-ups of new keys are
		// bounded for each.
		d, err := daemons[(r.n+r.tenant)%2].check("GET", paths[r.tenant/3%3], fmt.Sprintf("198.51.100.%d", r.tenant), fmt.Sprintf("key-%d", r.tenant))
		switch {
		case err != nil || d.Status != 200 && d.Status != 429:
			t.Errorf("tenant %d: %+v %v", r.tenant, d, err)
		case d.Allowed:
			admitted[r.tenant].Add(1)
		default:
			denied[r.tenant].Add(1)
		}
	})
	total := 0
	for i := range tenants {
		want := units[i%3] / costs[i/3%3]
		if got := int(admitted[i].Load()); got != want {
			t.Errorf("tenant %d (%s, cost %d): %d admitted, want %d", i, plans[i%3], costs[i/3%3], got, want)
		}
		if denied[i].Load() == 0 {
			t.Errorf("tenant %d was never denied", i)
		}
		total += want
	}
	t.Logf("%d requests, %d admitted", len(requests), total)
}

const overridden = `
decision_timeout: 10s
api_keys: {header: X-API-Key, redis: true, keys: {k-acme: {tenant: acme}}}
tenants: {acme: {plan: free}}
limits:
  - {name: per-tenant, key: [tenant], limit: 400000/h, plans: {free: 100000/h, pro: 200000/h}, on_missing: deny}
`

// TestOverrides: what is written to Redis is in force in every daemon within a
// second, in the order of the contract, and is not read for each request.
func TestOverrides(t *testing.T) {
	server := testredis.Start(t)
	o := operate(t, server)
	file := policyFile(t, overridden)
	var daemons [2]*process
	for i := range daemons {
		daemons[i] = start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	}
	becomes := func(what string, limit int64, status int) {
		t.Helper()
		written := time.Now()
		for i, p := range daemons {
			until(t, func() string {
				d := p.mustCheck("GET", "/", "192.0.2.1", "k-acme")
				if d.limitOf("per-tenant") != limit || d.Status != status {
					return fmt.Sprintf("%s: daemon %d has %+v", what, i, d)
				}
				return ""
			})
		}
		t.Logf("%s: in force after %s", what, time.Since(written))
	}
	const tenant = "weir:tenant:acme"
	key := "weir:api_key:" + sha256Hex("k-acme")
	becomes("the plan in the file", 100000, 200)
	o.do("HSET", tenant, "plan", "pro")
	becomes("the tenant's plan in Redis", 200000, 200)
	o.do("HSET", tenant, "limit:per-tenant", "300000/h")
	becomes("the tenant's own limit", 300000, 200)
	o.do("HSET", tenant, "limit:per-tenant", "300000 per hour")
	for _, p := range daemons {
		until(t, func() string {
			p.mustCheck("GET", "/", "192.0.2.1", "k-acme")
			if p.count("a bad value in the store") == 0 {
				return "the bad value was not noticed"
			}
			return ""
		})
	}
	o.do("HSET", key, "plan", "free")
	becomes("a bad value beside a plan of the key", 300000, 200)
	o.do("HDEL", tenant, "limit:per-tenant")
	becomes("the key's plan in Redis", 100000, 200)
	o.do("HSET", key, "plan", "of nobody")
	becomes("a plan without a limit of its own", 400000, 200)
	o.do("HSET", key, "disabled", "true")
	becomes("a disabled key", 0, 403)
	o.do("DEL", key, tenant)
	becomes("nothing in Redis", 100000, 200)

	const requests = 2000
	before, began := o.calls("hgetall"), time.Now()
	together(requests, func(i int) {
		if d, err := daemons[i%2].check("GET", "/", "192.0.2.1", "k-acme"); err != nil || d.Status != 200 {
			t.Errorf("%+v %v", d, err)
		}
	})
	// Each daemon reads each of the two hashes again once a minute, and what is
	// switched four times a second, however many ask.
	took := time.Since(began)
	most := 4*(1+int(took/time.Minute)) + 2*(2+int(took/(250*time.Millisecond)))
	if reads := o.calls("hgetall") - before; reads > most {
		t.Errorf("%d requests made %d reads, want at most %d", requests, reads, most)
	} else {
		t.Logf("%d requests made %d reads", requests, reads)
	}
	for _, p := range daemons {
		if n := p.count("a bad value in the store"); n != 1 {
			t.Errorf("the bad value is told of %d times", n)
		}
	}
}

// TestUnknownKeys: a flood of keys that nobody has costs the store no more reads
// than the budget, and whoever is known does not notice.
func TestUnknownKeys(t *testing.T) {
	server := testredis.Start(t)
	o := operate(t, server)
	o.do("HSET", "weir:api_key:"+sha256Hex("k-known"), "tenant", "known", "plan", "free")
	p := start(t, "serve", "-c", policyFile(t, overridden), "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	until(t, func() string {
		if d := p.mustCheck("GET", "/", "192.0.2.1", "k-known"); d.Status != 200 {
			return fmt.Sprintf("%+v", d)
		}
		return ""
	})
	const (
		requests    = 5000
		networks    = 40
		perNetwork  = 5 // look-ups of never-seen keys a second, each held a second's worth
		knownEvery  = 10
		wantAtLeast = networks * perNetwork / 2 // else nothing was put to the test
	)
	before, began := o.calls("hgetall"), time.Now()
	together(requests, func(i int) {
		if i%knownEvery == 0 {
			if d, err := p.check("GET", "/", "203.0.113.7", "k-known"); err != nil || d.Status != 200 || d.limitOf("per-tenant") != 100000 {
				t.Errorf("the known key: %+v %v", d, err)
			}
			return
		}
		d, err := p.check("GET", "/", fmt.Sprintf("198.51.100.%d", i%networks), fmt.Sprintf("made up %d", i))
		if err != nil || d.Status != 403 || d.Reason != "missing" {
			t.Errorf("an unknown key: %+v %v", d, err)
		}
	})
	seconds := 1 + int(time.Since(began)/time.Second)
	reads := o.calls("hgetall") - before
	// Beside the budget: the known key and its tenant, read again at most twice a
	// second, and what is switched, four times.
	most := networks*perNetwork*(1+seconds) + 8*seconds + 1
	t.Logf("%d unknown keys in %d s made %d reads; the budget is %d", requests-requests/knownEvery, seconds, reads, most)
	if reads > most || reads < wantAtLeast {
		t.Errorf("%d reads, want %d to %d", reads, wantAtLeast, most)
	}
}

// TestKnownWhileAway: while Redis is away those who are known keep what was
// written for them, and limits give their stated answer; strangers are nobody.
func TestKnownWhileAway(t *testing.T) {
	server := testredis.Start(t)
	o := operate(t, server)
	o.do("HSET", "weir:api_key:"+sha256Hex("k-known"), "tenant", "known", "plan", "free")
	o.do("HSET", "weir:tenant:known", "limit:per-tenant", "300000/h")
	p := start(t, "serve", "-c", policyFile(t, strings.Replace(overridden, "10s", "1s", 1)), "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	is := func(source string) {
		t.Helper()
		until(t, func() string {
			d := p.mustCheck("GET", "/", "192.0.2.1", "k-known")
			if d.Status != 200 || d.limitOf("per-tenant") != 300000 {
				t.Fatalf("the known key: %+v", d)
			}
			if d.Charges[0].Source != source {
				return fmt.Sprintf("%+v", d)
			}
			return ""
		})
	}
	is("redis")
	server.Kill()
	is("local")
	// Long past the time for which answers are good, by the daemon's own doing:
	// it has found out that nobody can be asked.
	until(t, func() string {
		is("local")
		if p.count("tenants and API keys cannot be looked up") != 1 {
			return "it has not asked"
		}
		return ""
	})
	is("local")
	if d := p.mustCheck("GET", "/", "192.0.2.1", "k-stranger"); d.Status != 403 || d.Reason != "missing" {
		t.Errorf("a stranger: %+v", d)
	}
}
