package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
