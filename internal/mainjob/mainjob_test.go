// Package mainjob runs what Weir is for as its users run it: the binary, a real
// web server behind it, the requests of access logs in front, and on Redis a
// real redis-server. What must come out is counted by awk, from the log alone.
// Beside the main job, the recipes for gateways are run as they stand.
package mainjob

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// TestMainJob drives every log through `weir proxy` before nginx, each client
// limited to n requests a week, and compares the refusals with awk's count.
func TestMainJob(t *testing.T) {
	logs := []string{"testdata/sample.log"}
	shared, err := filepath.Glob("../../../shared/logs/*.log") // other people's, where they are at hand
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"memory", "redis"} {
		for _, log := range append(logs, shared...) {
			if len(readLog(t, log)) == 0 {
				continue // another format
			}
			t.Run(store+"/"+filepath.Base(log), func(t *testing.T) { mainJob(t, store, log) })
		}
	}
}

const perClient = 5

func mainJob(t *testing.T, store, log string) {
	url := "memory"
	if store == "redis" {
		url = testredis.Start(t).URL()
	}
	nginx := startNginx(t)
	addr := freeAddress(t)
	policy := filepath.Join(t.TempDir(), "weir.yaml")
	// What is slow on a busy machine must not count as a failed store, and what
	// fails must not be admitted unseen by a local count.
	text := fmt.Sprintf(`store: %s
decision_timeout: 5s
client_ip: {trusted_proxies: [127.0.0.0/8], header: X-Forwarded-For}
limits:
  - name: per-client
    key: [ip]
    limit: %d/%s algorithm=fixed_window
    on_store_failure: closed
`, url, perClient, period(t, time.Now()))
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, addr, weir, "proxy", "--upstream", "http://"+nginx.addr, "-c", policy, "--listen", addr, "--drain-notice", "0s")

	requests := readLog(t, log)
	admitted, refused := drive(t, addr, requests)
	total, want := countRefused(t, log, perClient)
	if total != len(requests) || refused != want || admitted != total-want {
		t.Errorf("of %d requests %d were admitted and %d refused; awk counts %d and %d of %d",
			len(requests), admitted, refused, total-want, want, total)
	}
	sent := map[string]int{}
	for _, r := range requests {
		sent[r.client]++
	}
	served := nginx.served(t)
	for client, n := range sent {
		if want := min(n, perClient); served[client] != want {
			t.Errorf("nginx served %s %d times, want %d", client, served[client], want)
		}
	}
	t.Logf("%d requests of %d clients: %d admitted, %d refused", total, len(sent), admitted, refused)
}

// period returns a week, unless it ends while the test may still run: a fixed
// window would begin anew. Then it is six or five days, which end elsewhere.
func period(t *testing.T, now time.Time) string {
	const long = 15 * time.Minute
	for _, days := range []int64{7, 6, 5} {
		length := time.Duration(days) * 24 * time.Hour
		if length-time.Duration(now.UnixNano())%length > long {
			return map[int64]string{7: "week", 6: "6day", 5: "5day"}[days]
		}
	}
	t.Fatal("five, six and seven days all end within a quarter of an hour; run this again after")
	return ""
}

// drive sends the requests over a few connections, each through X-Forwarded-For
// from the trusted peer that this process is.
func drive(t *testing.T, addr string, requests []request) (admitted, refused int) {
	t.Helper()
	const connections = 8
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() {
			ok, no, err := driveSome(addr, requests, c, connections)
			mu.Lock()
			defer mu.Unlock()
			admitted, refused = admitted+ok, refused+no
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return admitted, refused
}

// driveSome sends every step-th request from first on. Requests are written as
// the log has them: a client library would clean their paths.
func driveSome(addr string, requests []request, first, step int) (admitted, refused int, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return 0, 0, err
	}
	in := bufio.NewReader(conn)
	for i := first; i < len(requests); i += step {
		r := &requests[i]
		if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: %s\r\nContent-Length: 0\r\n\r\n",
			r.method, r.target, r.client); err != nil {
			return admitted, refused, err
		}
		response, err := http.ReadResponse(in, &http.Request{Method: r.method})
		if err != nil {
			return admitted, refused, fmt.Errorf("%s %s: %w", r.method, r.target, err)
		}
		body, err := bodyOf(response)
		if err != nil {
			return admitted, refused, err
		}
		switch {
		case response.StatusCode == http.StatusTooManyRequests:
			refused++
			if err := checkRefusal(response, body, r.method); err != nil {
				return admitted, refused, err
			}
		case response.StatusCode == http.StatusOK && (body == "served\n" || r.method == http.MethodHead):
			admitted++
		default:
			return admitted, refused, fmt.Errorf("%s %s: %s %q", r.method, r.target, response.Status, body)
		}
	}
	return admitted, refused, nil
}

func bodyOf(r *http.Response) (string, error) {
	defer r.Body.Close()
	var b strings.Builder
	_, err := bufio.NewReader(r.Body).WriteTo(&b)
	return b.String(), err
}

// checkRefusal holds a 429 against what clients rely on.
func checkRefusal(r *http.Response, body, method string) error {
	if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || wait < 1 {
		return fmt.Errorf("a refusal with Retry-After %q", r.Header.Get("Retry-After"))
	}
	if r.Header.Get("RateLimit") == "" || r.Header.Get("RateLimit-Remaining") != "0" {
		return fmt.Errorf("a refusal without its RateLimit headers: %v", r.Header)
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/problem+json" {
		return fmt.Errorf("a refusal of type %q", kind)
	}
	if method != http.MethodHead && !strings.Contains(body, "quota-exceeded") {
		return fmt.Errorf("a refusal that says %q", body)
	}
	return nil
}
