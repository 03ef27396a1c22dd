// Package auth answers gateways that ask, before they pass a request on, whether
// they may: nginx, Traefik, Caddy, HAProxy and Envoy, each at a path of its own
// under Prefix. See docs/gateways.md for what to write in each.
//
// The body of the question is not read, that of the answer is for the client
// where the gateway hands it on. Nobody waits here: the gateway's own time limit
// would take a wait for a failure, so leaky buckets admit at no delay alone.
package auth

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/internal/door/api"
)

// Prefix is where the gateways ask: Prefix and the gateway's name. Any method
// will do.
const Prefix = "/v1/auth/"

// StatusField says in every refusal what its status means: gateways do not hand
// all statuses on, and some take a 5xx for a failure to be passed over. It is
// 429; 503 where a closed limit has no store; 403 where no wait will help.
const StatusField = "X-RateLimit-Status"

// Options is what the door stands in front of.
type Options struct {
	Gate   *gate.Gate
	Format func() *headers.Format // of the policy in force
}

type door struct{ Options }

// New returns the handler of all paths under Prefix. It believes the peers that
// the policy trusts and refuses all others. It is safe for concurrent use.
func New(o Options) http.Handler { return &door{o} }

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// RequestURI is the path as it was sent; r.URL has been decoded.
	g, rest, ok := split(r.RequestURI)
	if !ok {
		refuse(w, http.StatusNotFound, "there is nothing at this path; gateways ask at "+Prefix+"nginx, traefik, caddy, haproxy and envoy")
		return
	}
	call, problem := g.call(r, rest)
	resolver := d.Gate.Resolver()
	if caller := resolver.Locate(&call); !caller.Trusted {
		refuse(w, http.StatusForbidden, "this peer is not trusted to ask for others: add the gateway's address to client_ip.trusted_proxies")
		return
	}
	if header := resolver.ForwardingHeader(&call); problem == "" && len(r.Header[header]) == 0 {
		problem = notOnce(header, 0)
	}
	if problem != "" {
		refuse(w, http.StatusForbidden, problem)
		return
	}
	v := gate.Get()
	defer gate.Put(v)
	v.Door, v.NoWait = "auth", true
	if err := d.Gate.Decide(r.Context(), &call, v); err != nil {
		undecided(w, &g, err)
		return
	}
	answer := d.Format().Answer(&v.Bill, api.Shows(v))
	if v.Bill.Allowed {
		answer.Write(w.Header())
		w.WriteHeader(http.StatusOK)
		return
	}
	deny(w, r, &g, &answer)
}

// deny answers with a refusal that no gateway takes for anything else.
func deny(w http.ResponseWriter, r *http.Request, g *gateway, a *headers.Answer) {
	// The policy's own status stands where it cannot be taken for a failure.
	if a.Meant() != http.StatusForbidden && (g.denied == http.StatusForbidden || a.Status >= 500) {
		a.Status = g.denied
	}
	w.Header().Set(StatusField, strconv.Itoa(a.Meant()))
	// A gateway that has gone away needs no answer.
	_ = a.Refuse(w, r)
}

// undecided answers where there is no decision: a request that the policy will
// not read, or the end of the limiter or of the gateway's patience.
func undecided(w http.ResponseWriter, g *gateway, err error) {
	var input *weir.InputError
	if errors.As(err, &input) {
		refuse(w, http.StatusForbidden, "the request cannot be judged: "+strings.TrimSpace(input.Problem))
		return
	}
	w.Header().Set(StatusField, strconv.Itoa(http.StatusServiceUnavailable))
	api.Refuse(w, api.Problem{Status: g.denied, Detail: "the request could not be decided"})
}

func refuse(w http.ResponseWriter, status int, hint string) {
	w.Header().Set(StatusField, strconv.Itoa(http.StatusForbidden))
	api.Refuse(w, api.Problem{Status: status, Detail: hint})
}
