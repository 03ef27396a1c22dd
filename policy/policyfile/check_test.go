package policyfile

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func findings(list []Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.String())
	}
	return out
}

// expect compares lines with patterns that begin them; ~ in a pattern stands for
// anything.
func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, want %d:\n%s", what, len(got), len(want), strings.Join(got, "\n"))
		return
	}
	for i := range want {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want[i]), "~", ".*")
		if !regexp.MustCompile(pattern).MatchString(got[i]) {
			t.Errorf("%s: line %d\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
}

func TestCheck(t *testing.T) {
	rule := func(body string) string { return "limits:\n  - name: r\n" + body }
	for _, c := range []struct {
		what, text string
		want       []string
	}{
		{"nothing", rule("    key: [ip]\n    limit: 10/s burst=20\n"), nil},
		{"caller-chosen", rule("    key: [\"header:X-Id\", host]\n    limit: 10/s burst=20\n"),
			[]string{`p.yaml:3:10: rule "r" counts by header:X-Id and host alone, which the caller chooses`}},
		{"caller-chosen beside route", rule("    match: {paths: [/a]}\n    key: [route, \"cookie:c\"]\n    limit: 10/s burst=20\n"),
			[]string{`p.yaml:4:10: rule "r" counts by cookie:c alone`}},
		{"a cost over the limit", rule("    match: {paths: [/a, \"/b/*\"]}\n    key: [ip]\n    limit: 10/s burst=20\n    try: 100/min algorithm=leaky_bucket\n    cost: {default: 21, paths: {/a: 22}}\n"),
			[]string{"p.yaml:7:21: a cost of 21 is more than r (10/s burst=20) and r try (100/min algorithm=leaky_bucket) can ever admit", "p.yaml:7:33: a cost of 22 is more than r (10/s burst=20) and r try"}},
		{"a path that one plan can't afford", "tenants: {t: {plan: free}}\napi_keys: {header: K, redis: true}\n" + rule("    key: [tenant]\n    limit: 10/s burst=20\n    plans: {free: 1/s burst=5}\n    cost: {default: 6, paths: {/a: 20}}\n"),
			[]string{"p.yaml:8:21: a cost of 6 is more than r free (1/s burst=5) can"}},
		{"a cost over the limit for every path", rule("    match: {paths: [/a]}\n    key: [ip]\n    limit: 10/s burst=20\n    cost: {default: 21, paths: {/a: 20}}\n"), nil},
		{"a cost in short", rule("    key: [ip]\n    limit: 10/s burst=20\n    cost: 21\n"), []string{"p.yaml:5:11: a cost of 21 is more than r (10/s burst=20) can"}},
		{"one address for two doors", "listen: {http: \"127.0.0.1:9000\", resp: \"127.0.0.1:9000\"}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"), []string{"p.yaml:1:40: 127.0.0.1:9000 is where the http door and the resp door listen"}},
		{"the usual address of another door", "listen: {http: \"127.0.0.1:8082\"}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"), []string{"p.yaml:1:9: 127.0.0.1:8082 is where the http door and the admin door listen"}},
		{"ports that are free", "listen: {http: \"127.0.0.1:0\", admin: \"127.0.0.1:0\", resp: off}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"), nil},
		{"names that are taken", "limits:\n  - {name: other, key: [ip], limit: 10/s burst=20}\n  - {name: Other, key: [ip], limit: 10/s burst=20}\n", []string{`p.yaml:2:12: rule "other" has the name under which`}},
		{"no cost", rule("    key: [ip]\n    limit: 10/s burst=20\n    cost: 0\n"), []string{"p.yaml:5:11: rule \"r\" costs nothing"}},
		{"no cost but for a path", rule("    key: [ip]\n    limit: 10/s burst=20\n    cost: {default: 0, paths: {/a: 1}}\n"), nil},
		{"a grpc door", "listen: {grpc: \"127.0.0.1:8081\"}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"), []string{"p.yaml:1:16: the grpc door needs the flag --rls-config"}},
		{"everybody is a proxy", "client_ip: {trusted_proxies: [10.0.0.0/8, 0.0.0.0/0, \"::/0\"]}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"),
			[]string{"p.yaml:1:43: 0.0.0.0/0 trusts everybody", "p.yaml:1:54: ::/0 trusts everybody"}},
		{"shares of little", "store: redis://a\nregions: {name: eu, peers: {us: redis://b, asia: {url: redis://c, password_file: no-such}}}\n" +
			"limits:\n" +
			"  - {name: a, key: [all], limit: 10/s burst=1, scope: global share}\n" +
			"  - {name: b, key: [all], limit: 2/s burst=9, scope: global share}\n" +
			"  - {name: c, key: [all], limit: 3/s burst=9, scope: global share}\n" +
			"  - {name: d, key: [all], limit: 1/s burst=2, scope: global, plans: {free: 1/s burst=2}, try: 1/s burst=2}\n" +
			"  - {name: e, key: [all], limit: 1/s burst=20, scope: global share}\n" +
			"  - {name: f, key: [all], limit: 9/s burst=20, plans: {free: 10/s burst=1, pro: 2/s burst=4, max: unlimited, none: 0/s, big: 30/s burst=60}, scope: global share}\n" +
			"  - {name: g, key: [all], limit: 9/s burst=20, try: 1/min algorithm=fixed_window, scope: global share}\n" +
			"api_keys: {header: K, redis: true}\n",
			[]string{"p.yaml:2:82: regions.peers.asia.password_file cannot be read here",
				"p.yaml:4:55: 10/s burst=1 admits nothing anywhere: its capacity is one unit, which no region's share holds whole; raise burst, or",
				"p.yaml:5:54: 2/s burst=9 is less than a unit for each of 3 regions",
				"p.yaml:8:55: 1/s burst=20 admits nothing anywhere: its rate is one unit, which no region's share holds whole; use scope: global, or give more units in a longer period",
				"p.yaml:9:56: 10/s burst=1 admits nothing anywhere: its capacity", "p.yaml:9:76: 2/s burst=4 is less than a unit for each of 3 regions",
				"p.yaml:10:53: 1/min algorithm=fixed_window admits nothing anywhere: its rate"}},
		{"no secret", "key_secret_file: no-such-secret\nadmin: {token_file: no-such-token}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"),
			[]string{"p.yaml:1:18: key_secret_file cannot be read here (no such file", "p.yaml:2:21: admin.token_file cannot be read here (no such file"}},
		{"nothing in a secret", "key_secret_file: testdata/empty.txt\nadmin: {token_file: testdata}\n" + rule("    key: [ip]\n    limit: 10/s burst=20\n"),
			[]string{"p.yaml:1:18: key_secret_file is empty here", "p.yaml:2:21: admin.token_file cannot be read here (it is a folder)"}},
		{"no file of any kind", "" +
			"store: {url: redis://a, password_file: p, tls: {ca_file: ca, cert_file: c, key_file: k}}\n" +
			"regions: {name: eu, peers: {us: {url: redis://b, password_file: p, tls: {ca_file: ca, cert_file: c, key_file: k}}}}\n" +
			"user: {jwt: {key_files: [check_test.go, j]}}\n" +
			"admin: {token_file: t}\n" +
			"listen:\n" +
			"  http: {address: 127.0.0.1:1, token_file: t, tls: {cert_file: c, key_file: k, client_ca_file: ca}}\n" +
			"  admin: {address: 127.0.0.1:2, token_file: t, tls: {cert_file: c, key_file: k, client_ca_file: ca}}\n" +
			"  grpc: {address: 127.0.0.1:3, token_file: t, tls: {cert_file: c, key_file: k, client_ca_file: ca}}\n" +
			"  resp: {address: 127.0.0.1:4, token_file: t, tls: {cert_file: c, key_file: k, client_ca_file: ca}}\n" +
			rule("    key: [ip]\n    limit: 10/s burst=20\n"),
			[]string{
				"p.yaml:1:40: store.password_file cannot be read here (no such file", "p.yaml:1:58: store.tls.ca_file cannot",
				"p.yaml:1:73: store.tls.cert_file cannot", "p.yaml:1:86: store.tls.key_file cannot",
				"p.yaml:2:65: regions.peers.us.password_file cannot", "p.yaml:2:83: regions.peers.us.tls.ca_file cannot",
				"p.yaml:2:98: regions.peers.us.tls.cert_file cannot", "p.yaml:2:111: regions.peers.us.tls.key_file cannot",
				"p.yaml:3:41: user.jwt.key_files[1] cannot", "p.yaml:4:21: admin.token_file cannot",
				"p.yaml:6:44: listen.http.token_file cannot", "p.yaml:6:64: listen.http.tls.cert_file cannot",
				"p.yaml:6:77: listen.http.tls.key_file cannot", "p.yaml:6:96: listen.http.tls.client_ca_file cannot",
				"p.yaml:7:45: listen.admin.token_file cannot", "p.yaml:7:65: listen.admin.tls.cert_file cannot",
				"p.yaml:7:78: listen.admin.tls.key_file cannot", "p.yaml:7:97: listen.admin.tls.client_ca_file cannot",
				"p.yaml:8:9: the grpc door needs the flag", "p.yaml:8:44: listen.grpc.token_file cannot", "p.yaml:8:64: listen.grpc.tls.cert_file cannot",
				"p.yaml:8:77: listen.grpc.tls.key_file cannot", "p.yaml:8:96: listen.grpc.tls.client_ca_file cannot",
				"p.yaml:9:44: listen.resp.token_file cannot", "p.yaml:9:64: listen.resp.tls.cert_file cannot",
				"p.yaml:9:77: listen.resp.tls.key_file cannot", "p.yaml:9:96: listen.resp.tls.client_ca_file cannot",
			}},
		{"a key of nobody", "api_keys: {header: X-API-Key, keys: {k1: {tenant: acme}, k2: {tenant: amce}}}\ntenants: {acme: {plan: pro}}\n" + rule("    key: [tenant]\n    limit: 10/s burst=20\n"),
			[]string{`p.yaml:1:11: an API key is tenant "amce"'s, who is not among tenants and so has no plan; did you mean "acme"?`}},
		{"chosen beside what is not", rule("    key: [ip, \"header:X-Id\"]\n    limit: 10/s burst=20\n"), nil},
		{"everybody on a route", rule("    match: {paths: [/a]}\n    key: [route]\n    limit: 10/s burst=20\n"), nil},
		{"route without paths", rule("    key: [ip, route]\n    limit: 10/s burst=20\n"),
			[]string{`p.yaml:3:10: rule "r" counts by route and has no match.paths`}},
		{"log", rule("    key: [ip]\n    limit: 1000/2h algorithm=sliding_log\n"),
			[]string{`p.yaml:4:12: a sliding_log over 2h keeps every charge that long, up to 32 kB a caller`}},
		{"log of an hour", rule("    key: [ip]\n    limit: 1000/h algorithm=sliding_log\n"), nil},
		{"bursts, once", rule("    key: [ip]\n    limit: 10/s\n    plans: {a: 5/min burst=5, b: 100/h, c: 10/s burst=11, d: 0/s}\ntenants: {x: {plan: a}, y: {plan: b}, z: {plan: c}, w: {plan: d}}\napi_keys: {header: K, keys: {k1: {tenant: x}}}\n"),
			[]string{`p.yaml:4:12: the burst equals the rate in r (10/s) and r a (5/min): ~2 to 3 times`}},
		{"slots", "limits:\n  - {name: a, key: [ip], limit: 1/h}\n  - {name: b, key: [ip, path], limit: 1/h}\n  - {name: c, key: [all], limit: 1/h}\n",
			[]string{`p.yaml:2:3: one request may be charged by ip (a and b) and by all (c): in a Redis Cluster`}},
		{"no slots: one group", "limits:\n  - {name: a, key: [ip], limit: 1/h}\n  - {name: b, key: [ip, path], limit: 1/h}\n", nil},
		{"no slots: never together", "limits:\n  - {name: a, match: {paths: [/a/**]}, key: [ip], limit: 1/h}\n  - {name: b, match: {paths: [/b]}, key: [all], limit: 1/h}\n", nil},
		{"nobody has it", rule("    key: [tenant, \"fold:user\"]\n    limit: 1/h\n"),
			[]string{"p.yaml:3:11: tenant is always missing: the file has no api_keys", "p.yaml:3:19: user is always missing"}},
		{"unknown plan", rule("    key: [tenant]\n    match: {tenants: [acme, beta], not: {plans: [fre]}}\n    limit: 1/h\n    plans: {pros: 2/h}\n") + "tenants: {acme: {plan: pro}}\napi_keys: {header: K, keys: {k1: {tenant: acme, plan: free}}}\n",
			[]string{`p.yaml:4:29: tenant "beta" is nobody's in this file`, `p.yaml:4:50: plan "fre" is nobody's in this file; did you mean "free"?`, `p.yaml:6:13: plan "pros" is nobody's in this file; did you mean "pro"?`}},
		{"redis may know it", rule("    key: [tenant]\n    limit: 1/h\n    plans: {pros: 2/h}\n") + "api_keys: {header: K, redis: true}\n", nil},
		{"exempt by header", "exempt: [{headers: {X-Probe: \"*\"}}, {headers: {X-Probe: \"*\"}, ips: [192.0.2.1]}]\n",
			[]string{"p.yaml:1:20: anybody can send this header"}},
		{"memory", "max_overshoot: 1%\nevents: {redis_stream: s}\n", []string{"p.yaml:1:16: max_overshoot does nothing", "p.yaml:2:9: events go to"}},
	} {
		expect(t, c.what, findings(parse(t, c.text).Check()), c.want...)
	}
}

func TestChanges(t *testing.T) {
	before := parse(t, `
limits:
  - {name: same, key: [ip], limit: 1/h, plans: {a: 1/h, b: 1/h}}
  - {name: key, key: [ip], limit: 1/h}
  - {name: algorithm, key: [ip], limit: 1/h, plans: {a: 1/s}, try: 2/h}
  - {name: gone, key: [ip], limit: 1/h}
`)
	after := parse(t, `
key_prefix: other
client_ip: {ipv6_prefix: 56}
limits:
  - {name: same, match: {paths: [/x]}, key: [ip], limit: 9/h burst=20, plans: {a: 3/h, c: 7/h}, cost: 5, mode: shadow}
  - {name: key, key: [ip, path], limit: 1/h}
  - {name: algorithm, key: [ip], limit: 1/h algorithm=fixed_window, plans: {a: 1/min}, try: 2/min}
  - {name: new, key: [ip], limit: 1/h}
`)
	expect(t, "changes", findings(after.Changes(before)),
		"p.yaml:2:13: all balances start anew under another key_prefix",
		"p.yaml:3:12: balances by ip start anew",
		`p.yaml:6:22: the balances of rule "key" start anew: it counted by ip and now by ip, path`,
		`p.yaml:7:41: the balances of rule "algorithm" start anew: 1/h and 1/h algorithm=fixed_window differ`,
		`p.yaml:7:77: the balances of rule "algorithm" for plan a start anew: 1/s and 1/min`,
		`p.yaml:7:93: the balances of rule "algorithm"'s try start anew: 2/h and 2/min`,
		`p.yaml:8:12: rule "new" is new`,
		`p.yaml:5:3: rule "gone" is gone`,
	)
	expect(t, "no changes", findings(before.Changes(before)))
}

func TestSample(t *testing.T) {
	f := parse(t, string(Sample()))
	// What the sample shows commented out must be right as well: every line that
	// is a setting, with its comment sign taken off.
	var live strings.Builder
	for line := range strings.Lines(string(Sample())) {
		if regexp.MustCompile(`^ *# [a-z_]+:(\s|$)`).MatchString(line) && !strings.Contains(line, "file:") && !strings.Contains(line, "jwt:") {
			line = strings.Replace(line, "# ", "", 1)
		}
		live.WriteString(line)
	}
	text := live.String()
	if _, err := Parse("sample", []byte(text)); err != nil {
		t.Errorf("with its settings in force the sample is wrong: %v", err)
	}
	for _, example := range []string{"\nevents:", "\n      hosts:", "\n      not:", "\n      headers:", "\n  redis: true"} {
		if !strings.Contains(text, example) {
			t.Errorf("the sample does not show %q", example)
		}
	}
	for _, field := range newReader("", "").fields(defaults("")) {
		if !strings.Contains(string(Sample()), field.name+":") {
			t.Errorf("the sample does not show %s", field.name)
		}
	}
	for _, what := range findings(f.Check()) {
		if !strings.Contains(what, "Redis Cluster") {
			t.Errorf("the sample is found fault with: %s", what)
		}
	}
	var figures []string
	for _, figure := range f.Policy.Figures() {
		figures = append(figures, figure.String())
	}
	expect(t, "figures", figures,
		"login: 5/min algorithm=sliding_window on_store_failure=closed admits at most 9 in any min; a caller takes up to 46 bytes (in Redis about 200 bytes), 100,000 callers 4600 kB (20 MB)",
		"per-tenant: 60/min burst=120 admits at most 180 in any min;", "per-tenant free: 10/s burst=20 admits at most 30 in any s;", "per-tenant pro: 20/s burst=200 admits at most 220 in any s;",
		"everyone: 5000/s burst=10000 admits at most 15000 in any s; one balance for everybody", "everyone try: 4000/s burst=8000 admits at most 12000 in any s; one")
}

func TestDocs(t *testing.T) {
	docs := parse(t, string(Sample())).Docs()
	golden(t, "testdata/docs.md", docs.Markdown())
	text, err := json.MarshalIndent(docs, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/docs.json", string(text)+"\n")
	if strings.Contains(string(text), "everyone") {
		t.Error("a limit that does not decide is shown to the users of the API")
	}
}

// TestDocsOfANarrowRule: a limit that not every request is under is not told as one
// that every request is under; who it is for stays with the file.
func TestDocsOfANarrowRule(t *testing.T) {
	for text, want := range map[string]string{
		"match: {plans: [pro]}, limit: 5/h":                                         "every request of plan `pro`.",
		"match: {headers: {X-Beta: s3cret}}, limit: 5/h":                            "every request of some callers or with some header fields.",
		"match: {paths: [/a/**], not: {methods: [GET], paths: [/a/b]}}, limit: 5/h": "every request for `/a/**`, but not to GET requests for `/a/b`.",
		"match: {not: {ips: [192.0.2.1]}}, limit: 5/h":                              "every request, but not to requests of some callers or with some header fields.",
		"limit: 5/day algorithm=fixed_window tz=Europe/Paris":                       "| every caller | 5 per day in Europe/Paris |",
	} {
		page := parse(t, "limits: [{name: r, key: [ip], "+text+"}]").Docs().Markdown()
		if !strings.Contains(page, want) || strings.Contains(page, "s3cret") || strings.Contains(page, "192.0.2.1") {
			t.Errorf("%s:\n%s", text, page)
		}
	}
}

// TestMovedTenants: a tenant of another plan may begin with a whole balance, and is told.
func TestMovedTenants(t *testing.T) {
	const text = `tenants: {acme: {plan: free}, beta: {plan: free}, own: {plan: pro}}
limits:
  - {name: a, key: [tenant], plans: {free: 10/min, pro: 100/s}}
  - {name: b, key: [tenant], limit: 10/min, plans: {pro: 100/min}}
`
	before, after := parse(t, text), parse(t, strings.ReplaceAll(text, "plan: free", "plan: pro"))
	expect(t, "moved", findings(after.Changes(before)), `p.yaml:1:11: the balances of tenants who were of plan "free" and are of "pro", such as "acme", start anew under a: the plans' limits differ in algorithm, period or name`)
	expect(t, "not moved", findings(before.Changes(before)))
}

// TestOwnLimitsFailAsTheRule: a tenant's own limit answers without a store as the
// rule's does, wherever the file says so.
func TestOwnLimitsFailAsTheRule(t *testing.T) {
	for _, text := range []string{"limit: 5/min on_store_failure=closed", "limit: {rate: 5/min, on_store_failure: closed}", "limit: 5/min, on_store_failure: closed"} {
		p := parse(t, "limits: [{name: login, key: [ip], "+text+"}]").Policy
		var m policy.Match
		who := identity.Caller{Tenant: "acme", Limits: map[string]string{"login": "50/min"}}
		if err := p.Charges(&identity.Call{Path: "/"}, &who, &m); err != nil || m.Charges[0].Limit.String() != "50/min on_store_failure=closed" {
			t.Errorf("%s: %v %v", text, m.Charges, err)
		}
	}
}

// A header part needs no quotes, within braces and brackets either: YAML has a
// colon only before a space.
func TestPartsNeedNoQuotes(t *testing.T) {
	for _, text := range []string{
		"limits: [{name: r, key: [ip, header:X-Agent], limit: 10/s}]",
		"limits:\n  - {name: r, key: [ip, header:X-Agent], limit: 10/s}",
		"limits:\n  - name: r\n    key: [ip, header:X-Agent]\n    limit: 10/s",
		"limits:\n  - name: r\n    key:\n      - ip\n      - header:X-Agent\n    limit: 10/s",
	} {
		key := parse(t, text).Policy.Rules()[0].Key
		if len(key) != 2 || key[1].String() != "header:X-Agent" {
			t.Errorf("%s: the key is %v", text, key)
		}
	}
	for _, text := range []string{"limits: [{name: r, key: [header: X-Agent], limit: 10/s}]", "limits: [{name: r, key: [\"header\":X-Agent], limit: 10/s}]"} {
		if _, err := Parse("p.yaml", []byte(text)); err == nil {
			t.Errorf("%s: read", text)
		}
	}
}
