// Package testredis runs real Redis and Valkey servers for tests: a process on a
// free loopback port, which keeps nothing on disk, stopped by its handle.
//
// There is no fake and no skip: where the binary is missing the test fails and
// says what to install.
package testredis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Redis and Valkey name the binaries.
const (
	Redis  = "redis-server"
	Valkey = "valkey-server"
)

// patience is how long a server may take to answer, on a busy machine too.
const patience = 20 * time.Second

// Installed returns the servers to test against: Redis, which must be there, and
// Valkey where it is installed.
func Installed() []string {
	if _, err := exec.LookPath(Valkey); err == nil {
		return []string{Redis, Valkey}
	}
	return []string{Redis}
}

// Server is a running server process.
type Server struct {
	Addr string // host:port

	binary string
	dir    string
	how
	cmd    *exec.Cmd
	output output
	exited chan struct{} // closed when the process has ended
	stop   sync.Once
}

// how says how a server is started.
type how struct {
	config   []string
	env      []string // beside this process's
	sentinel bool     // rewrites its configuration, which is in a file therefore
}

// Start runs redis-server with the given configuration lines, such as
// "maxmemory 1mb", and stops it when the test ends. It fails the test if the
// server does not come up.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return StartBinary(t, Redis, config...)
}

// StartBinary is Start for another binary.
func StartBinary(t testing.TB, binary string, config ...string) *Server {
	t.Helper()
	s, err := Run(binary, config...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Run starts binary and waits until it answers PING. The caller must Stop it.
func Run(binary string, config ...string) (*Server, error) {
	return run(binary, how{config: config})
}

// run starts a server like that.
func run(binary string, like how) (*Server, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, fmt.Errorf("testredis: %s is not installed (Debian: apt-get install %s): %w",
			binary, strings.Replace(binary, "redis-server", "redis", 1), err)
	}
	dir, err := os.MkdirTemp("", "weir-testredis-")
	if err != nil {
		return nil, err
	}
	// Between finding a free port and the server's taking it, somebody else may
	// have: then the server ends at once and another port is tried.
	for range 5 {
		s := &Server{binary: path, dir: dir, how: like}
		if s.Addr, err = freeAddr(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start runs the process on s.Addr and waits until it answers.
func (s *Server) start() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	lines := append([]string{
		"bind 127.0.0.1", "port " + port, `save ""`, "appendonly no", "daemonize no", "dir " + s.dir,
	}, s.config...)
	s.exited = make(chan struct{})
	text := strings.Join(lines, "\n") + "\n"
	if s.sentinel {
		file := filepath.Join(s.dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("testredis: %w", err)
		}
		s.cmd = exec.Command(s.binary, file, "--sentinel")
	} else {
		s.cmd = exec.Command(s.binary, "-") // configuration from standard input
		s.cmd.Stdin = strings.NewReader(text)
	}
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("testredis: %w", err)
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // how it ended is in its output
	}()
	if err := s.await(); err != nil {
		s.end()
		return fmt.Errorf("testredis: %s: %w; its output:\n%s", s.binary, err, s.output.String())
	}
	return nil
}

// await returns when the server has answered.
func (s *Server) await() error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := ping(s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-s.exited:
			return errors.New("ended at once")
		case <-deadline.C:
			return fmt.Errorf("no answer within %s: %w", patience, err)
		}
	}
}

func ping(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(line, "+PONG"), strings.HasPrefix(line, "-NOAUTH"), strings.HasPrefix(line, "-LOADING"):
		return nil
	}
	return fmt.Errorf("answered %q", strings.TrimSpace(line))
}

// URL returns the URL of the server's first database.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Output returns what the server has printed.
func (s *Server) Output() string { return s.output.String() }

// Pause stops the process from running, as a stalled machine would: connections
// stay open and nothing is answered.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process without warning and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // the error is that it has ended
	<-s.exited
}

// Restart starts the server anew on the same address, empty but for what its
// configuration made it keep on disk.
func (s *Server) Restart() error {
	s.Kill()
	return s.start()
}

// Stop ends the process and removes its directory. It may be called twice.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.end()
		_ = os.RemoveAll(s.dir) // a temporary directory; nothing depends on it
	})
}

func (s *Server) end() {
	_ = s.Resume()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.exited:
	case <-late.C:
		s.Kill()
	}
}

// output collects what a process prints, from any goroutine.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
