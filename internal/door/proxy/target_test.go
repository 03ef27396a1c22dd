package proxy

import (
	"net/http"
	"net/http/httptest"
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

// OPTIONS * asks about the upstream as a whole, and arrives as that.
func TestOptionsOfTheServerPass(t *testing.T) {
	var got string
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	up.Config.DisableGeneralOptionsHandler = true
	up.Start()
	defer up.Close()
	b := newBenchAt(t, settings{}, up.URL)
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, httptest.NewRequest("OPTIONS", "*", nil)) // net/http's own answer would be before the door
	if w.Code != http.StatusOK || got != "*" {
		t.Errorf("%d; %q arrived", w.Code, got)
	}
}
