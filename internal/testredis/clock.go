package testredis

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is a wall clock that servers started with it read instead of the
// machine's. faketime is not used: it and Redis's allocator call each other in
// a circle.
type Clock struct{ library, file string }

// NewClock compiles the clock; it needs a C compiler.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "clock.c")
	c := &Clock{library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "offset")}
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.file, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, source).CombinedOutput(); err != nil {
		t.Fatalf("testredis: cc: %v\n%s", err, out)
	}
	return c
}

// Set makes the clock show the machine's time plus d, at once.
func (c *Clock) Set(t testing.TB, d time.Duration) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d.Microseconds())), 0)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Start runs redis-server by the clock, as the function Start does by the
// machine's.
func (c *Clock) Start(t testing.TB, config ...string) *Server {
	t.Helper()
	s, err := run(Redis, how{config: config, env: []string{"LD_PRELOAD=" + c.library, "WEIR_TEST_CLOCK=" + c.file}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
