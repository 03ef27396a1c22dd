package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/layer/fault"
	"github.com/weirhq/weir/policy/policyfile"
)

// TestPeersAreGivenNothingOfTheOwnStore: how this region's store is used is not
// told to another's, and each peer has what its own part of the file says.
func TestPeersAreGivenNothingOfTheOwnStore(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"own": "own-password\n", "asia": "asia-password\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = `
store: {url: "redis://127.0.0.1:6379/0", username: own-user, password_file: own, connections: 4}
regions:
  name: eu
  peers:
    us: redis://us-user:us-password@127.0.0.1:6380/0
    asia: {url: "redis://127.0.0.1:6381/0", username: asia-user, password_file: asia, connections: 2}
limits: [{name: a, key: [ip], limit: 10/s burst=20, scope: global}]
`
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := policyfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := StoreOf(f)
	if err != nil {
		t.Fatal(err)
	}
	us, asia := c.Peers["us"], c.Peers["asia"]
	if c.Conn.Username != "own-user" || c.Conn.Password != "own-password" || us.Conn.Username != "" || us.Conn.Password != "" || us.Conn.Connections != 0 {
		t.Errorf("own %+v, us %+v", c.Conn, us.Conn)
	}
	if !strings.Contains(us.URL, "us-password") || asia.Conn.Username != "asia-user" || asia.Conn.Password != "asia-password" || asia.Conn.Connections != 2 {
		t.Errorf("us %q, asia %+v", us.URL, asia.Conn)
	}
	if err := os.Remove(filepath.Join(dir, "asia")); err != nil {
		t.Fatal(err)
	}
	if _, err := StoreOf(f); err == nil || !strings.HasPrefix(err.Error(), "regions.peers.asia.password_file: ") || strings.Contains(err.Error(), "own-password") {
		t.Errorf("a peer's password that is not there: %v", err)
	}
}

// TestWhatIsOwedAtTheEndIsTold: what was admitted while the store was away is debited
// there when the daemon ends, and the other regions hear of that too.
func TestWhatIsOwedAtTheEndIsTold(t *testing.T) {
	home, peer := testredis.Start(t), testredis.Start(t)
	text := fmt.Sprintf(`
store: {url: %q}
regions: {name: eu, peers: {us: %q}}
limits: [{name: a, key: [ip], limit: 100/h on_store_failure=local, scope: global}]
`, home.URL(), peer.URL())
	f, err := policyfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{File: f, Log: slog.New(slog.DiscardHandler)}
	if c.Store, err = StoreOf(f); err != nil {
		t.Fatal(err)
	}
	c.Store.Drills = true
	core, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.drills.Begin(admin.Drill{Fault: fault.Refusal, Reply: "OOM", Percent: 100, For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	rule := f.Policy.Rules()[0]
	bill := weir.Bill{Charges: []weir.Charge{{Key: "192.0.2.1", Limit: rule.Limit, Cost: 7}}}
	for bill.Charges[0].Space = range f.Policy.Shared() {
	}
	if err := core.Limiter.Decide(t.Context(), &bill); err != nil || !bill.Allowed || bill.Source != "local" {
		t.Fatalf("%+v, %v", bill.Decision, err)
	}
	if err := core.Close(); err != nil {
		t.Fatal(err)
	}
	if owed, settled, dropped := core.Limiter.Debts(); settled != 7 {
		t.Fatalf("%d owed, %d settled, %d dropped", owed, settled, dropped)
	}
	if st := core.regions.Stats(); st.Told != 1 || st.Pending+st.Owed != 0 {
		t.Errorf("%+v", st)
	}
}
