package identity

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// servedByStandardLibrary says which path net/http serves for a raw request
// target, as its ServeMux walks it.
func servedByStandardLibrary(raw string) (string, bool) {
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "#") {
		return "", false // not a request target that a client can send
	}
	u, err := url.ParseRequestURI(raw)
	if err != nil || u.Host != "" {
		return "", false
	}
	return path.Clean(u.Path), true
}

// nginx starts the real one, which answers every request with the path it
// would serve, and returns its address.
func nginx(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("nginx is needed: what it serves is what readings are compared with")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	config := fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off; default_type text/plain;
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/c;
	server { listen unix:%[2]s; location / { return 200 "$uri"; } }
}`, dir, socket)
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-p", dir, "-c", file)
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		if err := c.Process.Kill(); err == nil {
			<-ended
		}
	})
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return socket
		}
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatalf("nginx ended: %v\n%s", err, said.String())
		case <-deadline:
			t.Fatal("nginx does not answer")
		}
	}
}

// ask sends the target as it stands, which http.Client would not.
func ask(t *testing.T, socket, target string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// What nginx and net/http serve for a spelling is what it is limited as.
func TestReadingsAreWhatServersServe(t *testing.T) {
	socket := nginx(t)
	compared := 0
	check := func(server, raw, served string) {
		compared++
		if served != "/" {
			served = strings.TrimSuffix(served, "/")
		}
		if readings := AppendReadings(nil, raw); !slices.Contains(readings, served) {
			t.Errorf("%s serves %q for %s, which is read as %q", server, served, raw, readings)
		}
	}
	for _, raw := range spellings(t) {
		status, served := ask(t, socket, raw)
		if status != http.StatusOK || strings.TrimSuffix(served, "/") != "/api/login" {
			t.Errorf("nginx serves %q (%d) for %s", served, status, raw)
		}
		check("nginx", raw, served)
		if served, ok := servedByStandardLibrary(raw); !ok || served != "/api/login" {
			t.Errorf("net/http serves %q for %s", served, raw)
		}
	}
	odd := []string{"/api/login#x", "/api%2Flogin", "/x%2f..%2Fapi/login", "/api/x//../login", "/api/login;v=1", `/api\login`, "/a;/../api/login", `/x\%2F../api/login`}
	for _, line := range lines(t, "testdata/ambiguous.txt") {
		raw, _, _ := strings.Cut(line, "\t")
		odd = append(odd, raw)
	}
	refused := 0
	for _, raw := range odd {
		if !strings.HasPrefix(raw, "/") || strings.Contains(raw, " ") {
			continue
		}
		if status, served := ask(t, socket, raw); status == http.StatusOK {
			check("nginx", raw, served)
		} else {
			refused++
		}
		if served, ok := servedByStandardLibrary(raw); ok {
			check("net/http", raw, served)
		}
	}
	t.Logf("%d paths compared, %d refused by nginx", compared, refused)
	if compared < 100 {
		t.Errorf("only %d paths compared", compared)
	}
}
