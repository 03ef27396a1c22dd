package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

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
