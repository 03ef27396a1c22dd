package caddy

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyfs"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
)

var update = flag.Bool("update", false, "record what Caddy serves")

const (
	record = "../../identity/testdata/caddy.txt"
	root   = "/srv"
)

func init() { caddy.RegisterModule(echo{}) }

// echo is a file system for Caddy's file server in which there is every file, and
// each holds its own name: what is served is which file was asked for.
type echo struct{}

// CaddyModule implements caddy.Module.
func (echo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.fs.echo", New: func() caddy.Module { return new(echo) }}
}

// Open implements fs.FS.
func (echo) Open(name string) (fs.File, error) {
	name = "/" + strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
	return &file{strings.NewReader(name), name}, nil
}

type file struct {
	*strings.Reader
	name string
}

func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Close() error               { return nil }
func (f *file) Name() string               { return f.name }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Unix(1, 0) }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }

// serve starts Caddy on a unix socket and returns its path.
func serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}},
		"apps": map[string]any{
			"caddy.filesystems": map[string]any{"filesystems": []any{map[string]any{"name": "echo", "file_system": map[string]any{"backend": "echo"}}}},
			"http": map[string]any{"servers": map[string]any{"s": map[string]any{
				"listen": []string{"unix/" + socket}, "automatic_https": map[string]any{"disable": true},
				"routes": []any{map[string]any{"handle": []any{map[string]any{
					"handler": "file_server", "fs": "echo", "root": root, "canonical_uris": false,
				}}}},
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return socket
}

// ask sends the target as it stands, which http.Client would not.
func ask(t *testing.T, socket, target string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.StatusCode != http.StatusOK {
		return fmt.Sprintf("refused %d", w.StatusCode)
	}
	return string(body)
}

// targets are the paths of the tests of identity.
func targets(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, name := range []string{"spellings.txt", "ambiguous.txt"} {
		text, err := os.ReadFile("../../identity/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			raw, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if strings.HasPrefix(raw, "/") && !strings.Contains(raw, " ") {
				list = append(list, raw)
			}
		}
	}
	return append(list, "/api/login#x", "/api%2Flogin", "/x%2f..%2Fapi/login", "/api/x//../login", "/api/login;v=1", `/api\login`, "/a;/../api/login", `/x\%2F../api/login`)
}

// TestServed: Caddy serves what was recorded.
func TestServed(t *testing.T) {
	socket := serve(t)
	var served strings.Builder
	for _, raw := range targets(t) {
		fmt.Fprintf(&served, "%s\t%q\n", raw, ask(t, socket, raw))
	}
	if *update {
		if err := os.WriteFile(record, []byte(served.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != served.String() {
		t.Errorf("Caddy serves other paths than were recorded; now:\n%s", served.String())
	}
}
