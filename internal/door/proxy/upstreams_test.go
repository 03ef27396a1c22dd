package proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// way is a connection to an upstream that is not there.
type way func(*http.Request) (*http.Response, error)

func (w way) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

var errRefused = &net.OpError{Op: "dial", Err: errors.New("refused")}

// ways returns upstreams a, b, … that answer as given.
func ways(all ...way) *upstreams {
	o := Options{AnswerWithin: time.Second}
	for i := range all {
		o.Upstreams = append(o.Upstreams, &url.URL{Scheme: "http", Host: string(rune('a' + i))})
	}
	us := newUpstreams(&o)
	for i := range all {
		us.all[i].way, us.all[i].checkWay = all[i], all[i]
	}
	return us
}

func ok(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Host": {r.URL.Host}}, Body: http.NoBody}, nil
}

// send sends a request with a body and returns which upstream answered.
func send(us *upstreams) (host string, res *http.Response, err error) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("body"))
	if res, err = us.RoundTrip(r); err != nil {
		return "", nil, err
	}
	return res.Header.Get("Host"), res, nil
}

func TestUpstreamsInTurn(t *testing.T) {
	us := ways(ok, ok, ok)
	counts := map[string]int{}
	for range 9 {
		host, res, err := send(us)
		if err != nil || res.Body.Close() != nil {
			t.Fatal(err)
		}
		counts[host]++
	}
	if counts["a"] != 3 || counts["b"] != 3 || counts["c"] != 3 {
		t.Errorf("%v", counts)
	}
	_, _, _ = send(us) // and is not closed: whoever has it is busy
	_, busy, err := send(us)
	if err != nil {
		t.Fatal(err)
	}
	third, _, _ := send(us)
	if third == busy.Header.Get("Host") {
		t.Errorf("%s has a request in flight and got another", third)
	}
	if busy.Body.Close() != nil || busy.Body.Close() != nil {
		t.Fatal("closing")
	}
	for _, u := range us.all {
		if n := u.active.Load(); n < 0 {
			t.Errorf("%d requests in flight to %s", n, u.host)
		}
	}
	if host, _, _ := send(us); host != busy.Header.Get("Host") {
		t.Errorf("%s got the request, not %s, which has none", host, busy.Header.Get("Host"))
	}
}

// TestUpstreamDown: a connection that is refused costs the client nothing, and
// nobody asks there again for a while that grows.
func TestUpstreamDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var up atomic.Bool
		us := ways(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			if up.Load() {
				return ok(r)
			}
			return nil, errors.Join(errRefused, r.Body.Close()) // as a Transport does
		}, func(r *http.Request) (*http.Response, error) {
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
				t.Errorf("the second upstream got %q, %v", body, err)
			}
			return ok(r)
		})
		several := func() {
			for range 4 {
				if host, res, err := send(us); err != nil || host == "a" || res.Body.Close() != nil {
					t.Fatalf("%q %v", host, err)
				}
			}
		}
		for failure, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
			several()
			if n := asked.Load(); n != int64(failure+1) {
				t.Fatalf("asked %d times by the failure %d", n, failure)
			}
			<-time.After(pause - time.Nanosecond) // virtual
			several()
			if n := asked.Load(); n != int64(failure+1) {
				t.Fatalf("asked again within %v", pause)
			}
			<-time.After(time.Nanosecond)
		}
		up.Store(true)
		hosts := map[string]bool{}
		for range 4 {
			host, res, err := send(us)
			if err != nil || res.Body.Close() != nil {
				t.Fatal(err)
			}
			hosts[host] = true
		}
		if !hosts["a"] || us.all[0].failures.Load() != 0 {
			t.Errorf("%v after a came back", hosts)
		}
	})
}

// TestSentOnce: a request that may have reached an upstream is not sent to
// another.
func TestSentOnce(t *testing.T) {
	var asked atomic.Int64
	lost := func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, &net.OpError{Op: "read", Err: errors.New("reset")}
	}
	if _, _, err := send(ways(lost, lost)); err == nil || asked.Load() != 1 {
		t.Errorf("%v, sent %d times", err, asked.Load())
	}
}

// TestAllDown: where nobody is up everybody is tried, each once.
func TestAllDown(t *testing.T) {
	var asked atomic.Int64
	refused := func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, errRefused
	}
	us := ways(refused, refused, refused)
	for i := range int64(3) {
		if _, _, err := send(us); !errors.Is(err, errRefused) || asked.Load() != 3*(i+1) {
			t.Errorf("%v after %d", err, asked.Load())
		}
	}
}

// TestHealth: an upstream whose health path fails gets nothing until it is well.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		checks := 0
		us := ways(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/healthz" {
				checks++
				if sick.Load() {
					return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
				}
			}
			return ok(r)
		}, ok)
		us.health = "/healthz"
		share := func() int {
			n := 0
			for range 10 {
				host, res, err := send(us)
				if err != nil || res.Body.Close() != nil {
					t.Fatal(err)
				}
				if host == "a" {
					n++
				}
			}
			synctest.Wait()
			return n
		}
		if n := share(); n != 5 || checks != 1 {
			t.Errorf("%d of 10 went to a, %d checks", n, checks)
		}
		sick.Store(true)
		<-time.After(checkEvery) // virtual
		share()                  // has the check made
		if n := share(); n != 0 || checks != 2 {
			t.Errorf("%d of 10 went to a, which is sick; %d checks", n, checks)
		}
		sick.Store(false)
		<-time.After(checkEvery)
		share()
		if n := share(); n != 5 {
			t.Errorf("%d of 10 went to a, which is well", n)
		}
	})
}

func TestCheckUpstreams(t *testing.T) {
	for text, want := range map[string]string{
		"http://a":                "",
		"https://a/x http://b/x":  "",
		"h2c://a:1 http://b":      "",
		"":                        "no upstream",
		"ftp://a":                 "an upstream is",
		"http://":                 "an upstream is",
		"http://u:p@a":            "an upstream is",
		"http://a?q":              "an upstream is",
		"http://a:99999":          `"99999" is no port`,
		"http://a https://b:0":    `"0" is no port`,
		"http://a: http://[::1]":  "",
		"http://a/x http://b/y":   "one path",
		"http://a/x http://b/x/y": "one path",
	} {
		var all []*url.URL
		for _, s := range strings.Fields(text) {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
		err := CheckUpstreams(all)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSeveralUpstreams: real servers, one of which is gone, and one that goes.
func TestSeveralUpstreams(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	defer second.Close()
	b := newBenchAt(t, settings{more: []string{gone.URL, second.URL}}, gone.URL)
	for i := range 4 {
		body := bytes.Repeat([]byte{byte('a' + i)}, 100_000)
		if w, got := b.do(t, "POST", "/", bytes.NewReader(body)); w.StatusCode != 200 || got != string(body) {
			t.Errorf("%d, %d bytes", w.StatusCode, len(got))
		}
	}
	second.Close()
	if w, _ := b.do(t, "GET", "/", nil); w.StatusCode != 502 {
		t.Errorf("all gone: %d", w.StatusCode)
	}
}

// TestUpstreamWithoutTLS: where no TLS comes about nothing was sent, so the next
// upstream gets the request, and the one without TLS is down. What came to nothing
// holds no place among the connections, of which there is one.
func TestUpstreamWithoutTLS(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %v", r.Proto, body, err)
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // of handshakes that fail
	plain := httptest.NewServer(http.HandlerFunc(echo))
	stranger := httptest.NewUnstartedServer(http.HandlerFunc(echo)) // its certificate is nobody's
	stranger.TLS, stranger.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}, quiet
	stranger.StartTLS()
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	gone := httptest.NewServer(nil)
	nobody := gone.Listener.Addr().String()
	gone.Close()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		sound := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		sound.EnableHTTP2, sound.Config.ErrorLog = version == "HTTP/2.0", quiet
		sound.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(sound.Certificate())
		for name, bad := range map[string]string{"nobody": nobody, "no TLS": plain.Listener.Addr().String(), "a stranger": stranger.Listener.Addr().String(), "who hangs up": closing.Addr().String()} {
			b := newBenchAt(t, settings{more: []string{"https://" + bad}, options: Options{Connections: 1}}, sound.URL)
			us := b.door.upstream.Transport.(*upstreams)
			us.all[0].way.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
			for range 6 {
				if w, got := b.do(t, "POST", "/", strings.NewReader("body")); w.StatusCode != 200 || got != version+" body <nil>" {
					t.Errorf("%s beside %s: %d %s", name, version, w.StatusCode, got)
				}
			}
			if us.all[1].failures.Load() == 0 || us.all[0].failures.Load() != 0 {
				t.Errorf("%s: %d failures, and %d of the sound one", name, us.all[1].failures.Load(), us.all[0].failures.Load())
			}
		}
		sound.Close()
	}
	plain.Close()
	stranger.Close()
	_ = closing.Close()
}

// selfSigned returns a certificate that nobody knows.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestOwnHost: each upstream is called by its own name, if asked to.
func TestOwnHost(t *testing.T) {
	var got string
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Host }))
	defer up.Close()
	b := newBenchAt(t, settings{options: Options{OwnHost: true}}, up.URL)
	if b.do(t, "GET", "/", nil); "http://"+got != up.URL {
		t.Errorf("Host is %q, not that of %s", got, up.URL)
	}
}
