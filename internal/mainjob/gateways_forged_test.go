package mainjob

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// forgeries are fields by which a client may try to be somebody else, or to ask
// for something else than it gets.
var forgeries = [][]string{
	{"X-Original-URI", "/free"},
	{"X-Original-URI", "/free", "X-Original-URI", "/free"},
	{"x-original-uri", "/free", "X-ORIGINAL-URI", "/free"},
	{"X_Original_URI", "/free", "X_Forwarded_For", "198.51.100.9"},
	{"X-Original-Url", "http://h/free"},
	{"X-Original-Method", "OPTIONS"},
	{"X-Forwarded-Uri", "/free", "X-Forwarded-Method", "OPTIONS", "X-Forwarded-Host", "other.example", "X-Forwarded-Proto", "https", "X-Forwarded-Port", "443"},
	{"X-Forwarded-Uri", "/free", "X-Forwarded-Uri", "/free"},
	{"X-Forwarded-For", "198.51.100.9"},
	{"X-Forwarded-For", "198.51.100.9", "X-Forwarded-For", "198.51.100.10, 198.51.100.11"},
	{"x-forwarded-for", "198.51.100.9", "X-FORWARDED-FOR", "127.0.0.1"},
	{"X-Real-IP", "198.51.100.9"},
	{"X-Real-IP", "198.51.100.9", "X-Real-IP", "198.51.100.10"},
	{"Forwarded", "for=198.51.100.9", "CF-Connecting-IP", "198.51.100.9", "True-Client-IP", "198.51.100.9"},
	{"X-RateLimit-Status", "200", "RateLimit", `"default";r=9`},
	{"Connection", "X-Forwarded-For, X-Original-URI, X-Forwarded-Uri, X-Forwarded-Method"},
	{"X-HTTP-Method-Override", "OPTIONS", "X-Rewrite-URL", "/free"},
}

// odd asks for what is refused in spellings that some servers read and some do
// not. What Weir cannot read is no failure of Weir, and passes nowhere.
func (f *fronted) odd(t *testing.T, from string) {
	t.Helper()
	host := strings.TrimPrefix(f.url, "http://")
	for _, lines := range []string{
		"GET /%61pi/x HTTP/1.1\r\nHost: HOST", "GET //api//x HTTP/1.1\r\nHost: HOST", "GET /free/../api/x HTTP/1.1\r\nHost: HOST",
		"GET /free/%2e%2e/api/x HTTP/1.1\r\nHost: HOST", "GET /free#/../../api/x HTTP/1.1\r\nHost: HOST", "GET /api/x?/../../free HTTP/1.1\r\nHost: HOST",
		"GET http://HOST/api/x HTTP/1.1\r\nHost: HOST", "GET /api/%zz HTTP/1.1\r\nHost: HOST", "GET /api/\x7f HTTP/1.1\r\nHost: HOST",
		"GET /api/x HTTP/1.0\r\nHost: HOST", "GET /api/x HTTP/1.1\r\nHost: HOST\r\nX-Odd: a\x01b", "GET /api/x HTTP/1.1\r\nHost: HOST\r\nX-Odd: \xff\xfe",
		"G@T /api/x HTTP/1.1\r\nHost: HOST", "GET /api/x HTTP/1.1\r\nHost: HOST\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
		"POST /api/x HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody", "GET /api/x HTTP/1.1\r\nHost: HOST\r\nX-Long: " + strings.Repeat("x", 7<<10),
	} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, strings.ReplaceAll(lines, "HOST", host)+"\r\n\r\n") // a gateway may have refused the first half
		before := f.reached.Load()
		in := bufio.NewReader(conn)
		w, err := http.ReadResponse(in, nil)
		if err == nil && w.StatusCode == http.StatusContinue {
			w, err = http.ReadResponse(in, nil)
		}
		if err == nil && w.StatusCode < 400 || f.reached.Load() != before {
			t.Errorf("%.60q: %v %v", lines, w, err)
		}
		_ = conn.Close()
	}
}

// keys spends a tenant's quota, and tries to have another's, or none.
func (f *fronted) keys(t *testing.T, from string) {
	t.Helper()
	for range 2 {
		if w, text := f.ask(t, from, "GET", "/tenants/x", nil, "X-API-Key", "k-acme-1"); w.StatusCode != 200 {
			t.Fatalf("%d %q", w.StatusCode, text)
		}
	}
	f.denied(t, from, "GET", "/tenants/x", "X-API-Key", "k-acme-1")
	// Without one key that is known, the address counts; it is spent as well.
	for _, spent := range []string{"a", "b"} {
		if w, _ := f.ask(t, "127.0.0.7", "GET", "/tenants/x", nil, "X-API-Key", "k-"+spent); w.StatusCode != 200 {
			t.Errorf("an unknown key: %d", w.StatusCode)
		}
	}
	f.reached.Add(-2)
	for _, header := range [][]string{
		{"X-API-Key", "k-acme-1", "X-API-Key", "k-other"},
		{"X-API-Key", "k-acme-1, k-other"},
		{"x-api-key", "k-1", "X-API-KEY", "k-2"},
		{"X-API-Key", "k-unknown"},
		{"X-API-Key", ""},
	} {
		f.denied(t, "127.0.0.7", "GET", "/tenants/x", header...)
	}
}
