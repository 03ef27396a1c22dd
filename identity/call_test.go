package identity

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestCallOf: only what net/http says of a unix socket is one. An address that
// cannot be read is nobody, since whoever trusts a unix socket would believe it.
func TestCallOf(t *testing.T) {
	for remote, want := range map[string]struct {
		peer string
		unix bool
	}{
		"192.0.2.1:4711":          {"192.0.2.1", false},
		"[2001:db8::1]:4711":      {"2001:db8::1", false},
		"[::ffff:192.0.2.1]:4711": {"192.0.2.1", false},
		"@":                       {"", true},
		"":                        {"", true},
		"/run/weir.sock":          {"", true},
		"a host":                  {"", false},
		"192.0.2.1:port":          {"", false},
	} {
		r := httptest.NewRequest("POST", "http://a.example/b%2Fc/../d?e=f", nil)
		r.RemoteAddr = remote
		c := CallOf(r)
		var peer netip.Addr
		if want.peer != "" {
			peer = netip.MustParseAddr(want.peer)
		}
		if c.Peer != peer || c.Unix != want.unix {
			t.Errorf("%q is %v, unix %v", remote, c.Peer, c.Unix)
		}
		if c.Method != "POST" || c.Path != "/b%2Fc/../d" || c.Query != "e=f" || c.Host != "a.example" {
			t.Errorf("the call is %+v", c)
		}
	}
}

// TestHostWithPortsTooMany: servers cut a host at its first colon, whatever comes
// behind, and a rule for the host must hold all the same.
func TestHostWithPortsTooMany(t *testing.T) {
	for raw, want := range map[string]string{
		"api.example.com:80:80": "api.example.com",
		"api.example.com::":     "api.example.com",
		"API.example.com.:x:y":  "api.example.com",
		"2001:db8::1":           "2001:db8::1",
		"[2001:db8::1]:80":      "2001:db8::1",
		"[2001:db8::1]:80:80":   "2001:db8::1",
		"192.0.2.1:80:80":       "192.0.2.1",
	} {
		if got := CleanHost(raw); got != want {
			t.Errorf("%s: %q, not %q", raw, got, want)
		}
	}
}
