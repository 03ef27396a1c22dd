package auth

import (
	"net/http"
	"strings"

	"github.com/weirhq/weir/identity"
)

// Which header says what, gateway by gateway
//
// A gateway hands on most of what its client sent, and adds fields of its own.
// The client can send every one of those names too. What the gateway overwrites
// is the gateway's word; the same name behind another gateway is the client's:
// nginx hands on X-Forwarded-Uri as it came, Traefik hands on X-Original-URI.
// So each gateway has an address of its own here, and under it one set of names
// is read and no other:
//
//	          method               path and query    host               client
//	nginx     X-Original-Method    X-Original-URI    Host               X-Forwarded-For, X-Real-IP
//	haproxy   X-Original-Method    X-Original-URI    Host               X-Forwarded-For
//	traefik   X-Forwarded-Method   X-Forwarded-Uri   X-Forwarded-Host   X-Forwarded-For
//	caddy     X-Forwarded-Method   X-Forwarded-Uri   X-Forwarded-Host   X-Forwarded-For
//	envoy     the request's own    behind the prefix Host               X-Forwarded-For
//
// A name that is missing or given twice was not set by the gateway, so nothing
// of the request is believed: it is refused with what is wrong, and a gateway
// that was set up with a line too few shows it on the first request instead of
// believing its clients.

// gateway says where a kind of gateway puts what a request was.
type gateway struct {
	method, target string   // headers; "" where the request itself has it
	host           string   // header, or "" for Host
	clients        []string // headers that name the client; the policy picks, or the first is read
	denied         int      // status of a refusal
}

var forwardedFor = []string{"X-Forwarded-For"}

var gateways = map[string]gateway{
	// nginx answers its client 500 for all but 401 and 403.
	"nginx":   {"X-Original-Method", "X-Original-Uri", "", []string{"X-Forwarded-For", "X-Real-Ip"}, http.StatusForbidden},
	"haproxy": {"X-Original-Method", "X-Original-Uri", "", forwardedFor, http.StatusTooManyRequests},
	"traefik": {"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", forwardedFor, http.StatusTooManyRequests},
	"caddy":   {"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", forwardedFor, http.StatusTooManyRequests},
	"envoy":   {"", "", "", forwardedFor, http.StatusTooManyRequests},
}

// split returns the gateway that asks at path, and what stands behind its name.
func split(path string) (g gateway, rest string, ok bool) {
	name, found := strings.CutPrefix(path, Prefix)
	if !found {
		return g, "", false
	}
	if i := strings.IndexAny(name, "/?"); i >= 0 {
		name, rest = name[:i], name[i:]
	}
	g, ok = gateways[name]
	if g.target != "" && strings.HasPrefix(rest, "/") {
		return g, "", false // only envoy puts the path there
	}
	return g, rest, ok
}

// call returns the request that the gateway asks about, or what is wrong with
// how it asks.
func (g *gateway) call(r *http.Request, rest string) (c identity.Call, problem string) {
	c = identity.Call{Method: r.Method, Host: r.Host, Header: r.Header, Gateway: g.clients}
	c.Peer, c.Unix = identity.ParsePeer(r.RemoteAddr)
	target := rest
	for _, part := range [...]struct {
		name string
		to   *string
	}{{g.method, &c.Method}, {g.target, &target}, {g.host, &c.Host}} {
		if part.name == "" {
			continue
		}
		values := r.Header[part.name]
		if len(values) != 1 || values[0] == "" {
			return c, notOnce(part.name, len(values))
		}
		*part.to = values[0]
	}
	switch {
	case !identity.IsToken(c.Method):
		return c, "the method of the request is none"
	case !strings.HasPrefix(target, "/") && target != "*":
		return c, "the path of the request does not begin with /"
	}
	c.Path, c.Query, _ = strings.Cut(target, "?")
	return c, ""
}

func notOnce(name string, times int) string {
	if times == 0 {
		return "the gateway must set " + name + ", and did not"
	}
	return "the gateway must set " + name + " in place of its client's: it came empty or more than once"
}
