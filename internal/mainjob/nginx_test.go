package mainjob

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// webServer is a real nginx with a configuration, a port and a log of its own.
type webServer struct {
	addr string
	log  string // one line a request: the client as the proxy named it
}

// startNginx starts nginx in the foreground, without workers of another user,
// and ends it with the test.
func startNginx(t *testing.T) webServer {
	t.Helper()
	dir := t.TempDir()
	s := webServer{addr: freeAddress(t), log: filepath.Join(dir, "access.log")}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  log_format client '$http_x_forwarded_for $request_method $request_uri';
  access_log %[2]s client;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  merge_slashes off;
  server {
    listen %[3]s;
    location / { return 200 "served\n"; }
  }
}
`, dir, s.log, s.addr)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, s.addr, findNginx(), "-p", dir, "-c", conf, "-e", "stderr")
	return s
}

func findNginx() string {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path
	}
	return "/usr/sbin/nginx" // not on every user's path
}

// served returns how many requests of each client reached nginx: the log says
// it, not the proxy.
func (s *webServer) served(t *testing.T) map[string]int {
	t.Helper()
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range bytes.Lines(log) {
		client, _, _ := strings.Cut(string(line), " ")
		counts[strings.TrimSuffix(client, ",")]++
	}
	return counts
}

// freeAddress returns a loopback address that nobody listens on. Its port is below
// those that the system gives to connections, one of which could take it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			return "127.0.0.1:" + port
		}
	}
	t.Fatal("no port is free")
	return ""
}
