package mainjob

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// site is a region: a server, and a daemon that runs by a policy file.
type site struct {
	t           *testing.T
	name        string
	server      *testredis.Server
	http, admin string
	daemon      *process
}

// The passwords of the servers: one by which each region's own daemon is let in,
// and one for the daemons of other regions.
func ownPassword(region string) string  { return "secret-own-" + region }
func peerPassword(region string) string { return "secret-peer-" + region }

// newSite starts a server that lets in a region's daemon, to do anything, and those
// of other regions, to do what docs/regions.md says that they need.
func newSite(t *testing.T, name string) *site {
	s := &site{t: t, name: name, server: testredis.Start(t), http: freeAddress(t), admin: freeAddress(t)}
	s.server.Must(t, "ACL", "SETUSER", "own", "on", ">"+ownPassword(name), "~*", "&*", "+@all")
	s.server.Must(t, "ACL", "SETUSER", "peer", "on", ">"+peerPassword(name), "~weir1:{regions}in", "~weir1:{regions}said:*",
		"+@connection", "+eval", "+evalsha", "+xlen", "+xadd", "+set")
	s.server.Must(t, "ACL", "SETUSER", "default", "off")
	return s
}

// policy writes the region's policy file. One peer's password stands in its URL and
// the other's in a file.
func (s *site) policy(all []*site) (file string) {
	dir := s.t.TempDir()
	write := func(name, text string) {
		s.t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	peers := ""
	for _, other := range all {
		switch {
		case other == s:
		case peers == "":
			peers += fmt.Sprintf("    %s: redis://peer:%s@%s/0\n", other.name, peerPassword(other.name), other.server.Addr)
		default:
			write("peer.password", peerPassword(other.name)+"\n")
			peers += fmt.Sprintf("    %s: {url: \"redis://%s/0\", username: peer, password_file: peer.password}\n", other.name, other.server.Addr)
		}
	}
	write("own.password", ownPassword(s.name))
	write("weir.yaml", fmt.Sprintf(`store: {url: "redis://%s/0", username: own, password_file: own.password}
decision_timeout: 5s
listen: {http: "%s", admin: "%s"}
regions:
  name: %s
  interval: 100ms
  lag: 10s
  peers:
%slimits:
  - {name: one, match: {paths: [/one]}, key: [all], limit: 60/366d algorithm=fixed_window, scope: global, on_store_failure: closed}
  - {name: shared, match: {paths: [/shared]}, key: [all], limit: 30/366d algorithm=fixed_window, scope: global share, on_store_failure: closed}
  - {name: own, match: {paths: [/own]}, key: [all], limit: 5/366d algorithm=fixed_window, on_store_failure: closed}
`, s.server.Addr, s.http, s.admin, s.name, peers))
	return filepath.Join(dir, "weir.yaml")
}

type decision struct {
	Allowed    bool
	Reason     string
	Remaining  int64
	RetryAfter int64 `json:"retry_after_ms"`
	Error      string
}

// take asks the daemon whether a request may pass.
func (s *site) take(path string) (d decision) {
	s.t.Helper()
	s.post(s.http, "/v1/check", fmt.Sprintf(`{"method":"GET","path":%q,"host":"h","ip":"192.0.2.1"}`, path), &d)
	if d.Reason == "" {
		s.t.Errorf("%s: %+v", s.name, d)
	}
	return d
}

// left asks the admin door, which charges nothing.
func (s *site) left(path string) int64 {
	s.t.Helper()
	var e struct{ Matched []struct{ Remaining int64 } }
	s.post(s.admin, "/v1/explain", fmt.Sprintf(`{"method":"GET","path":%q,"host":"h","ip":"192.0.2.1"}`, path), &e)
	if len(e.Matched) != 1 {
		s.t.Fatalf("%s: %+v", s.name, e)
	}
	return e.Matched[0].Remaining
}

func (s *site) post(addr, path, body string, to any) {
	s.t.Helper()
	r, err := http.Post("http://"+addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(to); err != nil {
		s.t.Fatalf("%s: %s: %v", s.name, path, err)
	}
}

func (s *site) metrics() string {
	s.t.Helper()
	r, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// TestDaemonsAreRegions: three daemons, each by a policy file and on a server of its
// own with passwords, are asked over HTTP and keep one limit.
func TestDaemonsAreRegions(t *testing.T) {
	sites := []*site{newSite(t, "eu"), newSite(t, "us"), newSite(t, "asia")}
	for _, s := range sites {
		s.daemon = start(t, s.http, weir, "serve", "-c", s.policy(sites), "--drain-notice", "0s")
	}
	eu, us, asia := sites[0], sites[1], sites[2]
	await := func(what string, does func() bool) { t.Helper(); eu.daemon.await(t, what, does) }

	// Shares: what is refused until they are there may be asked for again soon.
	await("admits under its share", func() bool {
		d := eu.take("/shared")
		if !d.Allowed && (d.Reason != "limited" || d.RetryAfter < 1 || d.RetryAfter > 1000) {
			t.Fatalf("without its share yet: %+v", d)
		}
		return d.Allowed
	})
	for _, s := range sites {
		s.daemon.await(t, "holds its share", func() bool { return s.left("/shared") > 0 })
	}
	admitted := 1
	for _, s := range sites {
		for range 30 {
			if s.take("/shared").Allowed {
				admitted++
			}
		}
	}
	if admitted != 30 {
		t.Errorf("%d were admitted in all under shares of 30", admitted)
	}

	// One limit: each region takes 15 at once, and all know of 45.
	var all sync.WaitGroup
	for _, s := range sites {
		all.Go(func() {
			for range 15 {
				if d := s.take("/one"); !d.Allowed {
					t.Errorf("%s refuses within the limit: %+v", s.name, d)
				}
			}
		})
	}
	all.Wait()
	for _, s := range sites {
		s.daemon.await(t, "knows of all", func() bool { return s.left("/one") == 15 })
	}
	for range 15 {
		us.take("/one")
	}
	asia.daemon.await(t, "knows that nothing is left", func() bool { return asia.left("/one") == 0 })
	if d := asia.take("/one"); d.Allowed || d.Reason != "limited" {
		t.Errorf("beyond the limit: %+v", d)
	}

	// Each region's own: the same rule without a scope.
	for _, s := range sites {
		for range 5 {
			if d := s.take("/own"); !d.Allowed {
				t.Errorf("%s refuses of its own limit: %+v", s.name, d)
			}
		}
	}

	for _, s := range sites {
		text := s.metrics()
		for _, want := range []string{`weir_regions_changes_total{way="heard"} `, `weir_regions_lost_changes_total{cause="unread"} 0`, "weir_regions_cut_off 0", `weir_regions_overshoot_bound{rule="one"} `} {
			if !strings.Contains(text, want) {
				t.Errorf("%s serves no %s", s.name, want)
			}
		}
		began := time.Now()
		s.daemon.stop(t)
		if out := s.daemon.output.String(); strings.Contains(out, "secret-") || strings.Contains(out, "does not take messages") {
			t.Errorf("%s said:\n%s", s.name, out)
		}
		t.Logf("%s ended after %s", s.name, time.Since(began))
	}
}

// TestAPeerThatRefuses ends a start, and no password is shown.
func TestAPeerThatRefuses(t *testing.T) {
	sites := []*site{newSite(t, "eu"), newSite(t, "us")}
	file := sites[0].policy(sites)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), peerPassword("us"), "secret-wrong")), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := launch(t, weir, "serve", "-c", file)
	select {
	case <-daemon.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a daemon runs that a peer refuses")
	}
	if out := daemon.output.String(); !strings.Contains(out, "regions: us: ") || strings.Contains(out, "secret-") || daemon.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("exit %d:\n%s", daemon.cmd.ProcessState.ExitCode(), out)
	}
}
