package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/testredis"
)

// postTo sends a body and returns the status and the answer.
func postTo(t *testing.T, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// policyFile writes a policy file and returns its name.
func policyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// operator writes to a Redis and reads its figures.
type operator struct {
	t      *testing.T
	client rueidis.Client
}

func operate(t *testing.T, server *testredis.Server) operator {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return operator{t, client}
}

func (o operator) do(words ...string) rueidis.RedisResult {
	o.t.Helper()
	r := o.client.Do(context.Background(), o.client.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil {
		o.t.Fatalf("%v: %v", words, err)
	}
	return r
}

// calls returns how often the server has run a command.
func (o operator) calls(command string) int {
	o.t.Helper()
	text, err := o.do("INFO", "commandstats").ToString()
	if err != nil {
		o.t.Fatal(err)
	}
	_, line, ok := strings.Cut(text, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(line, ",")
	n, err := strconv.Atoi(digits)
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// balances returns how many balances of rules there are, tries aside.
func (o operator) balances() int {
	o.t.Helper()
	keys, err := o.do("KEYS", "*:rule/*").AsStrSlice()
	if err != nil {
		o.t.Fatal(err)
	}
	return len(keys)
}

const explained = `
api_keys: {header: X-API-Key, keys: {k-acme: {tenant: acme}}}
tenants: {acme: {plan: pro}}
limits:
  - {name: login, match: {methods: [POST], paths: [/login]}, key: [ip, route], limit: 5/h algorithm=sliding_window}
  - {name: per-tenant, key: [tenant], plans: {pro: 20/h}, on_missing: skip}
  - {name: everyone, key: [all], limit: 100/h, try: 50/h}
`

// TestExplainChargesNothing: the admin door and the command say what would be
// decided; the balances stay as they are, and where there were none there are
// none.
func TestExplainChargesNothing(t *testing.T) {
	server := testredis.Start(t)
	o := operate(t, server)
	file := policyFile(t, explained)
	p := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	const request = `{"method":"POST","path":"/login","ip":"192.0.2.1","headers":{"X-API-Key":["k-acme"]}}`
	const want = `{"caller":{"ip":"192.0.2.1","tenant":"acme","plan":"pro","user":"","api_key":"known"},"matched":[` +
		`{"rule":"login","key":"ip=192.0.2.1 route=/login","cost":1,"limit":"5/h algorithm=sliding_window","remaining":%d,"allowed":true,"retry_after_ms":0},` +
		`{"rule":"per-tenant","key":"tenant=acme","cost":1,"limit":"20/h","remaining":%d,"allowed":true,"retry_after_ms":0},` +
		`{"rule":"everyone","key":"all=all","cost":1,"limit":"100/h","remaining":%d,"allowed":true,"retry_after_ms":0},` +
		`{"rule":"everyone","key":"all=all","cost":1,"limit":"50/h","remaining":%d,"allowed":true,"retry_after_ms":0,"shadow":true,"try":true}],` +
		`"skipped":[],"allowed":true,"reason":"ok"}`
	ask := func(left ...any) {
		t.Helper()
		status, answer := postTo(t, p.admin+"/v1/explain", request)
		if status != 200 || strings.TrimSpace(answer) != fmt.Sprintf(want, left...) {
			t.Fatalf("%d %s\nwant %s", status, answer, fmt.Sprintf(want, left...))
		}
	}
	command := func(args ...string) string {
		t.Helper()
		c := exec.Command("weir", append([]string{"explain", "/login", "--method", "POST", "--ip", "192.0.2.1", "-H", "X-API-Key: k-acme", "--json"}, args...)...)
		text, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v %s", err, text)
		}
		var e struct{ Matched []struct{ Remaining int } }
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("%v %s", err, text)
		}
		left := ""
		for _, m := range e.Matched {
			left += fmt.Sprint(m.Remaining, " ")
		}
		return left
	}
	for range 20 {
		ask(5, 20, 100, 50)
	}
	before := command("-c", file, "--store", server.URL())
	if before != "5 20 100 50 " || command("--addr", p.admin) != before {
		t.Errorf("the command says %s", before)
	}
	if n := o.balances(); n != 0 {
		t.Errorf("explaining left %d balances", n)
	}
	if status, answer := postTo(t, p.url+"/v1/check", request); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	kept := o.balances()
	if kept != 3 {
		t.Errorf("a decision by three rules left %d balances", kept)
	}
	for range 20 {
		ask(4, 19, 99, 49)
	}
	for range 3 {
		if here, there := command("-c", file, "--store", server.URL()), command("--addr", p.admin); here != "4 19 99 49 " || there != here {
			t.Errorf("the command says %s and %s", here, there)
		}
	}
	if n := o.balances(); n != kept {
		t.Errorf("explaining left %d balances, and there were %d", n, kept)
	}
	// To some servers a # is a letter, and then this is /login.
	if _, answer := postTo(t, p.admin+"/v1/explain", `{"method":"POST","path":"/x#/../login?y","ip":"192.0.2.1"}`); !strings.Contains(answer, `"matched":[{"rule":"login"`) {
		t.Errorf("a path with a # is read one way: %s", answer)
	}
	status, answer := postTo(t, p.admin+"/v1/explain", `{"path":"/other","ip":"192.0.2.1"}`)
	if status != 200 || !strings.Contains(answer, `"skipped":[{"rule":"login","why":"`) || !strings.Contains(answer, `{"rule":"per-tenant","why":"the caller's plan has no limit here"}`) {
		t.Errorf("%d %s", status, answer)
	}
}

// TestAdminDoor: it takes what check takes and nothing else; with a token it
// answers whoever has it.
func TestAdminDoor(t *testing.T) {
	t.Setenv("WEIR_ADMIN_TOKEN", "s3cret")
	p := start(t, "serve", "--http", "127.0.0.1:0", "--drain-notice", "1ms")
	const token = "Bearer s3cret"
	for _, c := range []struct {
		name, path, body string
		header           []string
		status           int
		text             string
	}{
		{"no token", "/v1/explain", `{"path":"/"}`, nil, 401, "asks for its token"},
		{"another token", "/v1/explain", `{"path":"/"}`, []string{"Authorization", "Bearer s3cre"}, 401, "asks for its token"},
		{"the token", "/v1/explain", `{"path":"/"}`, []string{"Authorization", token}, 200, `"allowed":true`},
		{"another site", "/v1/explain", `{"path":"/"}`, []string{"Authorization", token, "Sec-Fetch-Site", "cross-site"}, 403, "other sites"},
		{"no JSON", "/v1/explain", `{"path":"/"}`, []string{"Authorization", token, "Content-Type", "text/plain"}, 415, "application/json"},
		{"an unknown field", "/v1/explain", `{"pth":"/"}`, []string{"Authorization", token}, 400, `"field":"pth"`},
		{"a bad address", "/v1/explain", `{"ip":"x"}`, []string{"Authorization", token}, 400, `"field":"ip"`},
		{"nothing there", "/v1/take", takeBody, []string{"Authorization", token}, 404, "nothing at this path"},
	} {
		if status, answer := postTo(t, p.admin+c.path, c.body, c.header...); status != c.status || !strings.Contains(answer, c.text) {
			t.Errorf("%s: %d %s", c.name, status, answer)
		}
	}
	r, err := http.NewRequest(http.MethodGet, p.admin+"/v1/explain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", token)
	w, err := http.DefaultClient.Do(r)
	if err != nil || w.StatusCode != http.StatusMethodNotAllowed || w.Header.Get("Allow") != "POST" || w.Body.Close() != nil {
		t.Errorf("%+v %v", w, err)
	}
	if text, err := exec.Command("weir", "explain", "/", "--addr", p.admin).CombinedOutput(); err != nil {
		t.Errorf("with the token in the environment: %v %s", err, text)
	}
	// The API is not the admin door's, and the other way round.
	if status, _ := postTo(t, p.url+"/v1/explain", `{}`); status != 404 {
		t.Errorf("the API explains: %d", status)
	}
}

// TestAdminOffLoopback: off loopback the door is open to those with its token.
func TestAdminOffLoopback(t *testing.T) {
	t.Setenv("WEIR_ADMIN_TOKEN", "s3cret-of-some-length")
	p := start(t, "serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--drain-notice", "1ms")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port + "/v1/explain"
	if status, _ := postTo(t, url, `{"path":"/"}`); status != 401 {
		t.Errorf("without the token: %d", status)
	}
	if status, answer := postTo(t, url, `{"path":"/"}`, "Authorization", "Bearer s3cret-of-some-length"); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// sha256Hex names an API key as the store does.
func sha256Hex(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
