package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const house = "../.." // where the module begins

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(house, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func group(t *testing.T, s, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(s)
	if m == nil {
		t.Fatalf("nothing is like %s", pattern)
	}
	return m[1]
}

// understands fails unless weir knows the command and all its flags.
func understands(t *testing.T, args []string) {
	t.Helper()
	if out, err := exec.Command("weir", append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("weir %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// TestDockerfile: it builds what is there, with the Go that is asked for, and
// starts a daemon that others than the container itself can reach, by token.
func TestDockerfile(t *testing.T) {
	file := text(t, "Dockerfile")
	main := group(t, file, `go build .* (\./\S+)`)
	if _, err := os.Stat(filepath.Join(house, main)); err != nil {
		t.Error(err)
	}
	want := group(t, text(t, "go.mod"), `(?m)^go (\d+\.\d+)`)
	if got := group(t, file, `FROM golang:(\S+) AS build`); got != want {
		t.Errorf("it builds with Go %s, go.mod asks for %s", got, want)
	}
	if user := group(t, file, `(?m)^USER (\d+)`); user == "0" {
		t.Error("it runs as root")
	}
	if !strings.Contains(file, "gcr.io/distroless/") {
		t.Error("it holds more than the binary needs")
	}
	var args []string
	if err := json.Unmarshal([]byte(group(t, file, `(?m)^CMD (\[.*\])$`)), &args); err != nil {
		t.Fatal(err)
	}
	understands(t, args)

	token := filepath.Join(t.TempDir(), "token")
	for i, arg := range args {
		switch arg {
		case "/run/secrets/weir-token":
			args[i] = token
		case "0.0.0.0:8080":
			args[i] = "0.0.0.0:0"
		}
	}
	if out, err := exec.Command("weir", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "token") {
		t.Errorf("without a token it starts: %s", out)
	}
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(args, "--drain-notice", "1ms")...)
	p.url = strings.Replace(p.url, "[::]", "127.0.0.1", 1)
	const take = `{"key":"k","limit":"1/min"}`
	if status, answer := postTo(t, p.url+"/v1/take", take); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, answer)
	}
	if status, answer := postTo(t, p.url+"/v1/take", take, "Authorization", "Bearer s3cret"); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, answer)
	}
	ready, err := http.Get(p.url + "/readyz")
	if err != nil || ready.StatusCode != http.StatusOK {
		t.Fatalf("readyz: %v %v", ready, err)
	}
	if err := ready.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnit: the systemd unit starts what there is, under a sandbox that systemd
// itself finds tight.
func TestUnit(t *testing.T) {
	unit := text(t, "deploy/weir.service")
	command := strings.Fields(group(t, unit, `(?m)^ExecStart=(.*)$`))
	understands(t, command[1:])
	if strings.Contains(unit, "\nProtectSystem=strict") { // then events could be kept nowhere else
		group(t, unit, `(?m)^StateDirectory=(\w+)$`)
	}
	if stop := group(t, unit, `(?m)^TimeoutStopSec=(\d+)$`); stop < "50" {
		t.Errorf("a stop is broken off after %s s, and may take 45", stop)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: the unit's words are not checked")
		return
	}
	binary, err := exec.LookPath("weir")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "weir.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(unit, command[0], binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "--man=no", copied},
		{"security", "--offline=true", "--threshold=20", "--no-pager", copied}, // 2.0 of 10
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && strings.Contains(string(out), "weir.service:") {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}
