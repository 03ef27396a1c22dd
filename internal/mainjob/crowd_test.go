package mainjob

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/doorcost"
)

// TestCrowd: WEIR_CROWD idle connections and a tenth as many slow ones leave other
// clients of a door unharmed. `make crowd` has 10,000 of them.
func TestCrowd(t *testing.T) {
	idle := 1000
	if s := os.Getenv("WEIR_CROWD"); s != "" {
		var err error
		if idle, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var inside, most atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n) // a few too few in a race
		}
		defer inside.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body) // a slow client goes away in the middle
		fmt.Fprintln(w, "served")
	}))
	defer app.Close()
	policy := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(policy, []byte(`
client_ip: {trusted_proxies: [127.0.0.1/32]}
limits: [{name: all, key: [ip], limit: 1000000/s}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, door := range []struct {
		name  string
		share float64 // of descriptors
		args  []string
		target,
		fields string // of a good request
	}{
		{"http", 1, []string{"serve", "--admin", "off", "--http"}, "/healthz", ""},
		{"auth", 1, []string{"serve", "--admin", "off", "-c", policy, "--http"}, "/v1/auth/nginx",
			"X-Original-Method: GET\r\nX-Original-URI: /x\r\nX-Forwarded-For: 192.0.2.1\r\n"},
		{"proxy", 2.0 / 3, []string{"proxy", "--upstream", app.URL, "--limit", "1000000/s", "--listen"}, "/x", ""},
	} {
		t.Run(door.name, func(t *testing.T) {
			idle := min(idle, doorcost.Holds(t, door.share)*10/11)
			addr := freeAddress(t)
			p := start(t, addr, weir, append(door.args, addr, "--drain-notice", "0s", "--drain-grace", "1s")...)
			most.Store(0)
			rest := door.target + " HTTP/1.1\r\nHost: localhost\r\n" + door.fields
			alone := good(t, addr, rest)
			leave := crowd(t, addr, rest, idle, idle/10)
			among := good(t, addr, rest)
			leave()
			t.Logf("median of %d requests: %v alone, %v among %d idle and %d slow connections", requests, alone, among, idle, idle/10)
			if door.name == "proxy" {
				t.Logf("%d requests at once were at the upstream", most.Load())
				if most.Load() < int64(idle/20) {
					t.Errorf("of %d slow requests with bodies %d reached the upstream", idle/20, most.Load())
				}
			}
			for _, trouble := range []string{"is full", "in use", "too many open files"} {
				if strings.Contains(p.output.String(), trouble) {
					t.Errorf("the log says: %s", trouble)
				}
			}
		})
	}
}

const requests = 400

// good sends requests over a few connections, all of which must be answered, and
// returns the median time. rest is their head behind the method, but for its last
// line.
func good(t *testing.T, addr, rest string) time.Duration {
	t.Helper()
	const connections = 4
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for range requests / connections {
				began := time.Now()
				if err := ask(conn, in, "GET "+rest); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(took) != requests {
		t.Fatalf("%d of %d were answered", len(took), requests)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// ask sends a request with this head, but for its last line; an answer that takes ten seconds is none.
func ask(conn net.Conn, in *bufio.Reader, head string) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return err
	}
	w, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if _, err := io.Copy(io.Discard, w.Body); err != nil {
		return err
	}
	if w.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", w.Status)
	}
	return nil
}

// crowd opens idle connections, half of which have asked something before, and
// slow ones, which send a byte now and then, half of them of a header and half of
// a body. What it returns has them leave.
func crowd(t *testing.T, addr, rest string, idle, slow int) (leave func()) {
	t.Helper()
	var all, dripping []net.Conn
	for i := range idle + slow {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		all = append(all, conn)
		switch {
		case i >= idle && i%2 == 0:
			_, err = io.WriteString(conn, "GET "+rest+"X-Slow: ")
			dripping = append(dripping, conn)
		case i >= idle:
			_, err = io.WriteString(conn, "POST "+rest+"Content-Length: 1000000\r\n\r\n")
			dripping = append(dripping, conn)
		case i%2 == 0:
			err = ask(conn, bufio.NewReader(conn), "GET "+rest)
		}
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				for _, conn := range dripping {
					_, _ = io.WriteString(conn, "x") // the door may have ended it: it need not wait for ever
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		for _, conn := range all {
			_ = conn.Close() // likewise
		}
	}
}
