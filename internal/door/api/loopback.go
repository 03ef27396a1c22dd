package api

import (
	"net"
	"net/http"
	"strings"

	"github.com/weirhq/weir/identity"
)

// Loopback refuses what a browser on this machine may be tricked into sending
// to a door on loopback: requests for another host name (DNS rebinding) and
// requests from other sites. Such a door asks for no token, so the browser's
// word about where a page came from is all there is.
func Loopback(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !LoopbackName(r.Host):
			Refuse(w, Problem{
				Status: http.StatusForbidden,
				Detail: "this door is on loopback and answers to a loopback name alone, such as localhost or 127.0.0.1",
			})
		case crossSite(r) || origins.Check(r) != nil:
			Refuse(w, Problem{Status: http.StatusForbidden, Detail: "requests from other sites are refused"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// crossSite covers safe methods as well, which CrossOriginProtection lets pass.
func crossSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// LoopbackName reports whether hostport, with or without a port, names this
// machine's loopback.
func LoopbackName(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.HasSuffix(host, ".localhost") || identity.IsLoopback(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}
