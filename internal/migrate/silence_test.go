package migrate

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/policy/policyfile"
)

// TestNothingIsDroppedInSilence: what a file says is in the policy, or the policy says
// that it is not.
func TestNothingIsDroppedInSilence(t *testing.T) {
	const zones = "limit_req_zone $binary_remote_addr zone=ip:10m rate=10r/s;\n"
	for _, c := range []struct {
		about, kind, text string
		want              []string
		not               []string
	}{
		{
			"a plugin that names its service", "kong",
			"services: [{name: shop, routes: [{name: s, paths: [/search]}]}, {name: blog, routes: [{name: b, paths: [/blog]}]}]\n" +
				"plugins: [{name: rate-limiting, service: shop, config: {minute: 5, limit_by: ip}}]",
			[]string{`match: {paths: ["/search/**"]}`, "of service shop"},
			[]string{"all requests", "blog"},
		},
		{
			"a plugin that counts by the host", "kong",
			"plugins: [{name: rate-limiting, config: {minute: 5, limit_by: header, header_name: Host}}]",
			[]string{"key: [host]"},
			nil,
		},
		{
			"a plugin that names its route", "kong",
			"services: [{name: shop, routes: [{name: s, paths: [/search], methods: [GET]}]}]\n" +
				"plugins: [{name: rate-limiting, route: {name: s}, config: {minute: 5, limit_by: ip}}]",
			[]string{`match: {methods: [GET], paths: ["/search/**"]}`, "of route s"},
			[]string{"all requests"},
		},
		{
			"a plugin that names what is not here", "kong",
			"plugins: [{name: rate-limiting, service: other, config: {minute: 5, limit_by: ip}}]",
			[]string{"Differs: it is for service other, which is not in this file; add the match: that it has."},
			nil,
		},
		{
			"a plugin that names its consumer", "kong",
			"plugins: [{name: rate-limiting, consumer: acme, config: {minute: 5}}, {name: rate-limiting, consumer_group: gold, config: {minute: 5}}]",
			[]string{"Not carried over: plugin rate-limiting of consumer acme", "Not carried over: plugin rate-limiting of consumer group gold", "limits: []"},
			nil,
		},
		{
			"plugins of a consumer group", "kong",
			"consumer_groups: [{name: gold, plugins: [{name: rate-limiting-advanced, config: {limit: [5], window_size: [1]}}]}]\nplugins: [{name: rate-limiting, config: {minute: 5}}]",
			[]string{"Not carried over: plugin rate-limiting-advanced of consumer group gold"},
			nil,
		},
		{
			"a route beside its service", "kong",
			"services: [{name: shop, plugins: [{name: rate-limiting, config: {minute: 5, limit_by: ip}}]}]\nroutes: [{name: s, service: {name: shop}, paths: [/search]}]",
			[]string{`match: {paths: ["/search/**"]}`},
			nil,
		},
		{
			"routes of one service that differ in more than paths", "kong",
			"services: [{name: shop, routes: [{name: a, paths: [/a]}, {name: b, hosts: [b.example]}], plugins: [{name: rate-limiting, config: {minute: 5, limit_by: ip}}]}]",
			[]string{"Differs: it is for the requests of the routes a, b; add the match: that they have."},
			[]string{"match: {"},
		},
		{
			"paths that are regular expressions", "kong",
			"routes: [{name: a, paths: ['~/find/[0-9]+', /b], headers: {x: [y]}, plugins: [{name: rate-limiting, config: {minute: 5, limit_by: ip}}]}]",
			[]string{"Differs: add to the match: the paths that ~/find/[0-9]+ means.", "Differs: add to the match: the headers of route a."},
			nil,
		},
		{
			"a limit by what is not known here", "kong",
			"plugins: [{name: rate-limiting, config: {minute: 5, limit_by: consumer-group}}]",
			[]string{"Differs: it counts by consumer-group; here by consumer."},
			nil,
		},
		{
			"a location within one that has no limit", "nginx",
			zones + "server { location /api/ { location /api/login { limit_req zone=ip; } } }",
			[]string{`paths: ["/api/login/**"]`},
			nil,
		},
		{
			"a location within one, and a limit of all", "nginx",
			zones + "server { limit_req zone=ip burst=5; location /api/ { location /api/login { limit_req zone=ip; } } }",
			[]string{`paths: ["/api/login/**"]`, `match: {not: {paths: ["/api/login/**"]}}`},
			nil,
		},
		{
			"a location that only tries what it inherits", "nginx",
			zones + "server { limit_req zone=ip; location /new/ { limit_req_dry_run on; } }",
			[]string{`match: {not: {paths: ["/new/**"]}}`, "mode: shadow"},
			nil,
		},
		{
			"quotes within quotes", "nginx",
			zones + `server { location /a/ { limit_req zone=ip; return 429 "{\"error\":\"too many; wait\"}"; } location /b/ { limit_req zone=ip; } }`,
			[]string{`"/a/**"`, `"/b/**"`},
			nil,
		},
		{
			"files that are included", "nginx",
			zones + "include mime.types; include /etc/nginx/fastcgi_params; include conf.d/*.conf;\nserver { limit_req zone=ip; }",
			[]string{"Not carried over: line 2: include conf.d/*.conf (give that file with this one)"},
			[]string{"mime.types", "fastcgi_params"},
		},
		{
			"names of servers", "nginx",
			zones + "server { server_name .example.com; limit_req zone=ip; }\nserver { server_name ~^www[0-9]+ mail.*; limit_req zone=ip; }",
			[]string{`hosts: [example.com, "*.example.com"]`, "Differs: add to the match: the hosts that ~^www[0-9]+ means.", "Differs: add to the match: the hosts that mail.* means."},
			nil,
		},
		{
			"routers in labels", "traefik",
			"labels:\n - traefik.http.middlewares.m.ratelimit.average=5\n - traefik.http.routers.app.middlewares=auth,m@docker\n - traefik.http.routers.app.rule=Host(`a.example`)\n",
			[]string{"hosts: [a.example]"},
			[]string{"no router"},
		},
		{
			"labels that are filled in later", "traefik",
			"labels:\n - traefik.http.middlewares.m.ratelimit.average=${RATE}\n - traefik.http.middlewares.n.ratelimit.average=5\n - traefik.http.middlewares.n.ratelimit.burst=${BURST}\n",
			[]string{"Not carried over: middleware m: its average ${RATE} is no number", "Not carried over: middleware n: its burst ${BURST} is no number", "limits: []"},
			[]string{"unlimited"},
		},
		{
			"how the client is found, in labels", "traefik",
			"labels:\n - traefik.http.middlewares.m.ratelimit.average=5\n - traefik.http.middlewares.m.ratelimit.sourcecriterion.ipstrategy.depth=2\n - traefik.http.middlewares.n.ratelimit.average=5\n - traefik.http.middlewares.n.ratelimit.sourcecriterion.ipstrategy.excludedips=10.0.0.0/8\n",
			[]string{"it takes the client from X-Forwarded-For, 2 from the end", "it passes over 10.0.0.0/8 in X-Forwarded-For"},
			nil,
		},
		{
			"how the client is found", "traefik",
			"http: {middlewares: {m: {rateLimit: {average: 5, sourceCriterion: {ipStrategy: {excludedIPs: [10.0.0.0/8, 192.0.2.1], ipv6Subnet: 48}}}}}}",
			[]string{"it passes over 10.0.0.0/8, 192.0.2.1 in X-Forwarded-For", "it counts IPv6 by networks of /48"},
			nil,
		},
		{
			"a period that is too short", "traefik",
			"http: {middlewares: {m: {rateLimit: {average: 5, period: 500us}}, n: {rateLimit: {average: 5, period: 1500us}}}}",
			[]string{"Not carried over: middleware m: its period 500us is none", "Not carried over: middleware n: its period 1500us is none"},
			nil,
		},
	} {
		got, err := Policy("f", c.kind, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.about, err)
			continue
		}
		if _, err := policyfile.Parse("policy", got); err != nil {
			t.Errorf("%s: %v\n%s", c.about, err, got)
		}
		plain := strings.Join(strings.Fields(strings.ReplaceAll(string(got), "#", "")), " ")
		for _, want := range c.want {
			if !strings.Contains(plain, want) {
				t.Errorf("%s: no %q in\n%s", c.about, want, got)
			}
		}
		for _, not := range c.not {
			if strings.Contains(plain, not) {
				t.Errorf("%s: %q in\n%s", c.about, not, got)
			}
		}
	}
}
