package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

// doors returns the addresses of the doors that p has said are open, by name.
func (p *process) doors() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := map[string]string{}
	for line := range strings.Lines(p.said.String()) {
		var entry struct{ Msg, Door, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "open" {
			at[entry.Door] = entry.Address
		}
	}
	return at
}

// TestProxyOpensTheDoorsOfServe: each door that a flag of weir proxy names is open,
// and decides on the balances of the others.
func TestProxyOpensTheDoorsOfServe(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"weir.yaml":  "listen: {resp: 127.0.0.1:1, grpc: 127.0.0.1:1}\nlimits: [{name: all, key: [all], limit: 3/day algorithm=fixed_window, expose: true}]\n",
		"rls/d.yaml": "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const any = "127.0.0.1:0"
	p := start(t, "proxy", "--upstream", upstream.URL, "-c", filepath.Join(dir, "weir.yaml"), "--listen", any, "--drain-notice", "1ms",
		"--http", any, "--resp", any, "--grpc", any, "--rls-config", filepath.Join(dir, "rls"))
	for range 4 { // the proxy, and the admin door of every process here, besides
		p.door()
	}
	at := p.doors()

	// A rule's balance is one behind the proxy and behind check.
	for i, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) { return http.Get("http://" + at["proxy"]) },
		func() (*http.Response, error) {
			return http.Post("http://"+at["http"]+"/v1/check", "application/json", strings.NewReader(`{"method":"GET","path":"/","ip":"127.0.0.1"}`))
		},
	} {
		res, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if want := fmt.Sprint(2 - i); res.StatusCode != http.StatusOK || res.Header.Get("RateLimit-Remaining") != want {
			t.Errorf("%d: %s, %q left, want %s", i, res.Status, res.Header.Get("RateLimit-Remaining"), want)
		}
	}

	// And so is that of take.
	conn, err := net.Dial("tcp", at["resp"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "WEIR.TAKE k \"5/day algorithm=fixed_window\" COST 2\r\n"); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(conn)
	for _, want := range []string{"*6", ":1", ":5", ":3"} {
		if line, err := replies.ReadString('\n'); err != nil || line != want+"\r\n" {
			t.Fatalf("RESP: %q, %v; want %s", line, err, want)
		}
	}
	res, err := http.Post("http://"+at["http"]+"/v1/take", "application/json", strings.NewReader(`{"key":"k","limit":"5/day algorithm=fixed_window"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if left := res.Header.Get("RateLimit-Remaining"); left != "2" {
		t.Errorf("take: %s, %q left", res.Status, left)
	}

	client, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	q := new(rlsv3.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`), q); err != nil {
		t.Fatal(err)
	}
	for _, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		if a, err := rlsv3.NewRateLimitServiceClient(client).ShouldRateLimit(context.Background(), q); err != nil || a.GetOverallCode() != want {
			t.Errorf("gRPC: %v, %v; want %v", a, err, want)
		}
	}
}

// TestProxyLeavesTheFilesDoors of grpc and resp to weir serve, and says so.
func TestProxyLeavesTheFilesDoors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("listen: {resp: 127.0.0.1:1, grpc: 127.0.0.1:2}\nlimits: [{name: all, key: [all], limit: 3/day}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "proxy", "--upstream", "http://127.0.0.1:1", "-c", file, "--listen", "127.0.0.1:0", "--drain-notice", "1ms")
	p.door() // the admin door, which is the last
	if at := p.doors(); len(at) != 2 {
		t.Errorf("open: %v", at)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, flag := range []string{"--resp", "--grpc"} {
		if !strings.Contains(p.said.String(), `"flag":"`+flag+`"`) {
			t.Errorf("nothing tells of %s: %s", flag, p.said.String())
		}
	}
}

// TestEveryLineOfTheLogIsOfItsForm: also where an upstream sends more than its answer,
// of which the standard library tells by a log of its own.
func TestEveryLineOfTheLogIsOfItsForm(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = upstream.Close() })
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nSet-Cookie: sid=1\r\n\r\n")
				}
				_, _ = io.Copy(io.Discard, c) // until the proxy closes it
			}()
		}
	}()
	p := start(t, "proxy", "--upstream", "http://"+upstream.Addr().String(), "--limit", "5/s", "--listen", "127.0.0.1:0", "--drain-notice", "1ms", "-v")
	w, err := many.Get(p.url)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(w.Body); err != nil || string(body) != "ok" || w.Body.Close() != nil {
		t.Fatalf("%q, %v", body, err)
	}
	until(t, func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		if said := p.said.String(); !strings.Contains(said, "Unsolicited response") {
			return said
		}
		return ""
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.said.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
		if strings.Contains(line, "Unsolicited") && !strings.Contains(line, `"level":"DEBUG"`) {
			t.Errorf("what an upstream sent is shown without -v: %s", line)
		}
	}
}
