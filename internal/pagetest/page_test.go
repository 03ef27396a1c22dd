//go:build !race

// Package pagetest looks at the page of the admin door with a real browser: a
// daemon as a process of its own in front of a real Redis, headless Chromium, and
// scripts beside this file that press every control and read every number. The
// scripts report a line a test; what they want done to the daemon's surroundings
// (traffic, the store going away) they ask of a control server here.
//
// The race detector would look at these few lines and not at the daemon, which is
// another process, so it is left out.
package pagetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/testredis"
)

// weir is the binary under test, built once.
var weir string

func TestMain(m *testing.M) { os.Exit(prepareAndRun(m)) }

func prepareAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-pagetest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	weir = filepath.Join(dir, "weir")
	for _, args := range [][]string{
		{"go", "build", "-o", weir, "../../cmd/weir"},
		{"npm", "ci", "--prefer-offline", "--no-progress"},
	} {
		if args[0] == "npm" && packagesAreThere() {
			continue
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Join(args, " "), err)
			return 1
		}
	}
	return m.Run()
}

// packagesAreThere reports whether what the lock file names is installed: npm
// leaves its own lock, which is older if ours has changed.
func packagesAreThere() bool {
	installed, err := os.Stat("node_modules/.package-lock.json")
	if err != nil {
		return false
	}
	wanted, err := os.Stat("package-lock.json")
	return err == nil && !wanted.ModTime().After(installed.ModTime())
}

// browser returns Chromium, whatever it is called here.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium: install the package chromium")
	return ""
}

func TestPage(t *testing.T) {
	redis := testredis.Start(t)
	main := serve(t, nil, "-c", "policy.yaml", "--store", redis.URL())
	guarded := serve(t, []string{"WEIR_ADMIN_TOKEN=" + token})
	traffic := newTraffic(t, main.http)
	control := http.NewServeMux()
	control.HandleFunc("POST /traffic/{rate}", traffic.handle)
	control.HandleFunc("POST /redis/kill", func(http.ResponseWriter, *http.Request) { redis.Kill() })
	control.HandleFunc("POST /redis/restart", func(w http.ResponseWriter, _ *http.Request) {
		if err := redis.Restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := httptest.NewServer(control)
	defer server.Close()
	run(t, map[string]any{
		"browser": browser(t), "asRoot": os.Getuid() == 0, "control": server.URL,
		"admin": main.admin, "api": main.http, "guarded": guarded.admin, "token": token,
		"shots": os.Getenv("WEIR_SHOTS"), "long": os.Getenv("WEIR_LONG") != "",
	})
}

const token = "the token of the tests"

// run runs the scripts, each of whose lines is a test.
func run(t *testing.T, settings map[string]any) {
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "run.mjs", os.Getenv("WEIR_ONLY"))
	cmd.Env = append(os.Environ(), "WEIR_PAGETEST="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Test, Error, Note string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("the scripts said: %s", lines.Text())
			continue
		}
		t.Run(line.Test, func(t *testing.T) {
			if line.Note != "" {
				t.Log(line.Note)
			}
			if line.Error != "" {
				t.Error(line.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the scripts did not end well: %v", err)
	}
}
