// Package guard is what stands in front of HTTP doors: who may talk to them at
// all, and the shape of a refusal that is no decision.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
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
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && a.Unmap().IsLoopback()
}

// Token asks for "Authorization: Bearer token" on every path but the open ones.
func Token(token string, next http.Handler, open ...string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range open {
			if r.URL.Path == path {
				next.ServeHTTP(w, r)
				return
			}
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given)) // of equal length, so that time tells nothing of the token's
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
			Refuse(w, Problem{Status: http.StatusUnauthorized, Detail: "this door asks for its token"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
