package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// TestClaimsInOtherSpelling: CGI, WSGI and what descends from them tell no _ from a -, and often no dot,
// so that a field spelled with one says to them where the request comes from.
func TestClaimsInOtherSpelling(t *testing.T) {
	fields := []string{"X_Forwarded_For: 192.0.2.1", "X_Real_IP: 192.0.2.1", "X-Forwarded_Host: h", "x_original_uri: /admin", "X_User: root", "CF_Connecting-IP: 192.0.2.1", "X.Real.IP: 192.0.2.1"}
	for _, trusted := range []string{"", "127.0.0.0/8"} {
		got := make(chan http.Header, 1)
		b := newBench(t, settings{trusted: trusted}, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Clone() })
		_, reader := raw(t, b, append([]string{"GET / HTTP/1.1", "Host: h", "Connection: close", "Some_Field: stays"}, fields...)...)
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		h := <-got
		if h.Get("Some_Field") != "stays" {
			t.Errorf("trusted %q: another field is gone: %v", trusted, h)
		}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			if told := h.Get(name); (told == value) != (trusted != "") {
				t.Errorf("trusted %q: %s is %q", trusted, name, told)
			}
		}
	}
}
