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
