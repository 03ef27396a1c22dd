package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/door/proxy"
	"github.com/weirhq/weir/policy/policyfile"
)

// The peers of these tests: all of 127.0.0.0/8 is this machine.
const (
	balancer = "127.0.0.2"
	stranger = "127.0.0.3"
)

const trustBalancer = "client_ip: {trusted_proxies: [" + balancer + "]}\n"

// dialFrom connects from one of this machine's addresses.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	conn, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// says sends bytes and a request behind them, and returns the answer: its status
// and body, or "closed" where the connection was closed without one.
func says(t *testing.T, conn net.Conn, before, method string) string {
	t.Helper()
	// A peer that has hung up already is part of the game.
	_, _ = fmt.Fprintf(conn, "%s%s / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", before, method)
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "closed"
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		return "cut off"
	}
	return fmt.Sprintf("%d %s", w.StatusCode, body)
}

// v2 is a header of version 2, less its signature: command, family, and the rest
// with its length before it.
func v2(command, family byte, rest string) string {
	return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{0x20 | command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

var (
	tcp4 = "\xc6\x33\x64\x07\x7f\x00\x00\x01\x12\x34\x00\x50"                                                         // 198.51.100.7
	tcp6 = "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 16) + "\x12\x34\x00\x50" // 2001:db8::7
)

// TestAnnounced: a trusted peer must announce its client, and nobody else can.
func TestAnnounced(t *testing.T) {
	file, err := policyfile.Parse("weir.yaml", []byte(trustBalancer))
	if err != nil {
		t.Fatal(err)
	}
	who := Door{Name: "http", Listen: Listen{Address: "127.0.0.1:0", ProxyProtocol: true}, Open: func(c *Core, name string, l *Listen) (Server, error) {
		return newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				host = "no address: " + r.RemoteAddr
			}
			_, _ = io.WriteString(w, host)
		}), apiTimeouts, c.log, name, l)
	}}
	d := begin(t, Config{File: file, Doors: []Door{who}})
	for _, c := range []struct {
		name, from, before, want string
	}{
		{"v1 TCP4", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\n", "200 198.51.100.7"},
		{"v1 TCP6", balancer, "PROXY TCP6 2001:db8::7 ::1 4660 80\r\n", "200 2001:db8::7"},
		{"v1 UNKNOWN", balancer, "PROXY UNKNOWN\r\n", "200 " + balancer},
		{"v1 UNKNOWN with addresses", balancer, "PROXY UNKNOWN 198.51.100.7 127.0.0.1 4660 80\r\n", "200 " + balancer},
		{"v2 TCP4", balancer, v2(1, 0x11, tcp4), "200 198.51.100.7"},
		{"v2 TCP6", balancer, v2(1, 0x21, tcp6), "200 2001:db8::7"},
		{"v2 TCP4 with more behind it", balancer, v2(1, 0x11, tcp4+"\x04\x00\x03abc"), "200 198.51.100.7"},
		{"v2 LOCAL", balancer, v2(0, 0x00, ""), "200 " + balancer},
		{"v2 LOCAL with addresses", balancer, v2(0, 0x11, tcp4), "200 " + balancer},
		{"no header", balancer, "", "closed"},
		{"v1 in lower case", balancer, "proxy TCP4 198.51.100.7 127.0.0.1 4660 80\r\n", "closed"},
		{"v1 without a port", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1\r\n", "closed"},
		{"v1 with a port too large", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1 65536 80\r\n", "closed"},
		{"v1 of two families", balancer, "PROXY TCP4 2001:db8::7 127.0.0.1 4660 80\r\n", "closed"},
		{"v1 with a name", balancer, "PROXY TCP4 localhost 127.0.0.1 4660 80\r\n", "closed"},
		{"v1 that goes on", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80 " + strings.Repeat("x", 100) + "\r\n", "closed"},
		{"v1 without carriage return", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\n", "closed"},
		{"v2 of a datagram", balancer, v2(1, 0x12, tcp4), "closed"},
		{"v2 of a unix socket", balancer, v2(1, 0x31, strings.Repeat("a", 216)), "closed"},
		{"v2 too short", balancer, v2(1, 0x21, tcp4), "closed"},
		{"v2 of an unknown command", balancer, v2(2, 0x11, tcp4), "closed"},
		{"v2 of an unknown version", balancer, strings.Replace(v2(1, 0x11, tcp4), "QUIT\n\x21", "QUIT\n\x31", 1), "closed"},
		{"two headers", balancer, "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\nPROXY TCP4 198.51.100.8 127.0.0.1 4660 80\r\n", "400 400 Bad Request"},

		{"nothing, from a stranger", stranger, "", "200 " + stranger},
		{"v1 from a stranger", stranger, "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\n", "closed"},
		{"v1 of a trusted address, from a stranger", stranger, "PROXY TCP4 " + balancer + " 127.0.0.1 4660 80\r\n", "closed"},
		{"v1 TCP6 from a stranger", stranger, "PROXY TCP6 ::ffff:127.0.0.2 ::1 4660 80\r\n", "closed"},
		{"v1 UNKNOWN from a stranger", stranger, "PROXY UNKNOWN\r\n", "closed"},
		{"v2 from a stranger", stranger, v2(1, 0x11, tcp4), "closed"},
		{"v2 LOCAL from a stranger", stranger, v2(0, 0x00, ""), "closed"},
		{"v1 in lower case, from a stranger", stranger, "proxy TCP4 198.51.100.7 127.0.0.1 4660 80\r\n", "400 400 Bad Request"},
		{"half a signature, from a stranger", stranger, "\r\n\r\n\x00\r\nQUIX\n", "400 400 Bad Request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := says(t, dialFrom(t, c.from, d.address), c.before, "GET"); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "PROPFIND", "P"} {
		if got := says(t, dialFrom(t, stranger, d.address), "", method); got != "200 "+stranger {
			t.Errorf("%s, which begins as a header does, is answered %s", method, got)
		}
	}
}

// TestAnnouncedIsLimited: behind a balancer clients have balances of their own;
// strangers who announce others have none but their own.
func TestAnnouncedIsLimited(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	file, err := policyfile.Parse("weir.yaml", []byte(trustBalancer+"limits: [{name: r, key: [ip], limit: 2/h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	door := Proxy(Listen{Address: "127.0.0.1:0", ProxyProtocol: true}, proxy.Options{Upstreams: []*url.URL{to}, MaxWaiting: 1, AnswerWithin: patience})
	door.Name = "http"
	d := begin(t, Config{File: file, Doors: []Door{door}})
	status := func(from, before string) string {
		answer, _, _ := strings.Cut(says(t, dialFrom(t, from, d.address), before, "GET"), " ")
		return answer
	}
	for n := range 4 {
		for _, client := range []string{"198.51.100.7", "198.51.100.8"} {
			want := "200"
			if n >= 2 {
				want = "429"
			}
			if got := status(balancer, "PROXY TCP4 "+client+" 127.0.0.1 4660 80\r\n"); got != want {
				t.Errorf("request %d of %s: %s, want %s", n, client, got, want)
			}
		}
	}
	for i := range 20 {
		if got := status(stranger, fmt.Sprintf("PROXY TCP4 203.0.113.%d 127.0.0.1 4660 80\r\n", i)); got != "closed" {
			t.Errorf("a stranger's header is answered %s", got)
		}
	}
	for n, want := range []string{"200", "200", "429"} {
		if got := status(stranger, ""); got != want {
			t.Errorf("request %d of the stranger: %s, want %s", n, got, want)
		}
	}
}

// TestAnnouncedLate: a trusted peer that never finishes its header is given up,
// and holds up nobody meanwhile.
func TestAnnouncedLate(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(peer net.Addr) bool {
		a, err := netip.ParseAddrPort(peer.String())
		return err == nil && a.Addr().String() == balancer
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = newAnnouncing(inner, trusted, 50*time.Millisecond)
	server.Start()
	defer server.Close()
	late := dialFrom(t, balancer, inner.Addr().String())
	if _, err := io.WriteString(late, "PROXY TCP4 198"); err != nil {
		t.Fatal(err)
	}
	if got := says(t, dialFrom(t, stranger, inner.Addr().String()), "", "GET"); got != "200 " {
		t.Errorf("beside a late one: %s", got)
	}
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the late one was not closed: %v", err)
	}
}
