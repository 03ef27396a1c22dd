package daemon

import (
	"net/http"
	"testing"

	"github.com/weirhq/weir/policy/policyfile"
)

// TestGatewaysAsk: gateways ask under their clients' Host and Origin, which the
// rest of the door takes for a trick; a token is asked of them as of everybody.
func TestGatewaysAsk(t *testing.T) {
	file, err := policyfile.Parse("", []byte(`{"client_ip": {"trusted_proxies": ["127.0.0.1/32"]}, "limits": [{"name": "all", "key": ["ip"], "limit": "2/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(d *running, path, token string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+d.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "shop.example"
		for name, value := range map[string]string{
			"X-Original-URI": "/x", "X-Original-Method": "GET", "X-Forwarded-For": "203.0.113.7",
			"Origin": "https://other.example", "Sec-Fetch-Site": "cross-site", "Authorization": token,
		} {
			r.Header.Set(name, value)
		}
		w, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || w.Body.Close() != nil {
			t.Fatal(err)
		}
		return w.StatusCode
	}
	open := begin(t, Config{File: file, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	for i, want := range []int{200, 200, 403} {
		if status := ask(open, "/v1/auth/nginx", ""); status != want {
			t.Errorf("request %d: %d, not %d", i, status, want)
		}
	}
	if status := ask(open, "/healthz", ""); status != 403 {
		t.Errorf("the rest of the door: %d", status)
	}
	closed := begin(t, Config{File: file, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0", Auth: "token", Token: "s3cret"})}})
	for token, want := range map[string]int{"": 401, "Bearer other": 401, "Bearer s3cret": 200} {
		if status := ask(closed, "/v1/auth/nginx", token); status != want {
			t.Errorf("with token %q: %d, not %d", token, status, want)
		}
	}
}
