package proxy

import (
	"net/http"
	"testing"
)

// A target of some other scheme has no path here, and its rest would be the target that
// the upstream gets: http://h/login, past every rule on /login.
func TestTargetsOfNoPathDoNotPass(t *testing.T) {
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s arrived", r.RequestURI) })
	for _, target := range []string{"x:http://h/login", "x:login", "mailto:%2Flogin", "x:*"} {
		_, reader := raw(t, b, "GET "+target+" HTTP/1.1", "Host: h", "Connection: close")
		w, err := http.ReadResponse(reader, nil)
		if err != nil || w.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v %v", target, w, err)
		}
	}
}
