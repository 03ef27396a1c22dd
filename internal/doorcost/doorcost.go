// Package doorcost measures what a door costs in CPU beside a server of the same
// library that answers a constant. It is for tests.
//
// Both servers are processes of their own, so that what the load costs counts for
// neither. They are asked in turns, a round each, since the machine may be slow at
// one time and fast at another; the figure is the median of the rounds' ratios.
package doorcost

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Child is the variable that tells the process of a test to be a server.
const Child = "WEIR_DOORCOST_SERVE"

// Rounds and Scale come from the environment: WEIR_DOOR_ROUNDS for make doors,
// and few short ones for CI.
func Rounds() int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_DOOR_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return 3
}

// Long reports whether this is make doors.
func Long() bool { return os.Getenv("WEIR_DOOR_ROUNDS") != "" }

// Scale returns how many calls a round has: n, and a twentieth in CI.
func Scale(n int) int {
	if Long() {
		return n
	}
	return n / 20
}

// Server is a process that serves.
type Server struct {
	Addr string
	PID  int
}

// CPU returns the CPU time that the server has used.
func (s *Server) CPU(t testing.TB) time.Duration { return cpu(t, s.PID) }

// Serve runs this test's own binary as a server. kind tells it which.
func Serve(t testing.TB, kind string, env ...string) *Server {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), Child+"="+kind), env...)
	return start(t, cmd, func(line string) string {
		addr, _ := strings.CutPrefix(line, "serving ")
		return addr
	})
}

// built is where weir is, once one test has asked for it.
var built struct {
	once        sync.Once
	dir, binary string
	err         error
}

// Main runs the tests of a package, or, in a child, serve.
func Main(m *testing.M, serve func(kind string)) {
	if kind := os.Getenv(Child); kind != "" {
		serve(kind)
		return
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// Weir builds weir, once for a package, and runs it; door names the door to talk
// to.
func Weir(t testing.TB, door string, args ...string) *Server {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "doorcost"); built.err != nil {
			return
		}
		built.binary = filepath.Join(built.dir, "weir")
		out, err := exec.Command("go", "build", "-o", built.binary, "github.com/weirhq/weir/cmd/weir").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return start(t, exec.Command(built.binary, append([]string{"serve"}, args...)...), func(line string) string {
		if !strings.Contains(line, "msg=open") || !strings.Contains(line, "door="+door+" ") {
			return ""
		}
		_, rest, _ := strings.Cut(line, "address=")
		addr, _, _ := strings.Cut(rest, " ")
		return addr
	})
}

// start runs cmd until the end of the test, and waits for the line in which
// address finds where it listens.
func start(t testing.TB, cmd *exec.Cmd, address func(line string) string) *Server {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	})
	lines := bufio.NewScanner(out)
	var seen strings.Builder
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if addr := address(lines.Text()); addr != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &Server{Addr: addr, PID: cmd.Process.Pid}
		}
	}
	t.Fatalf("%s does not serve:\n%s", cmd.Path, seen.String())
	return nil
}

// Ready is what a child says once it listens. It then serves until its standard
// input ends.
func Ready(addr string) {
	fmt.Println("serving " + addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// cpu returns the CPU time that a process has used, by its threads.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	if sum == 0 {
		t.Fatal("the system does not say what a process costs")
	}
	return sum
}

// Compare asks door and constant in turns, calls calls a round, and holds the
// median ratio of their CPU time to most. load makes so many calls to an address. Both
// are started anew for each round: where a process's memory and threads happen to lie
// makes more of a difference than nine rounds of one pair tell.
func Compare(t *testing.T, what string, door, constant func(t *testing.T) *Server, calls int, most float64, load func(t *testing.T, addr string, calls int)) {
	t.Helper()
	var ratios, ours, theirs []float64
	for round := range Rounds() {
		t.Run(fmt.Sprint("round ", round+1), func(t *testing.T) { // whose servers end with it
			pair := []*Server{door(t), constant(t)}
			order, took := []int{0, 1}, [2]float64{}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				load(t, pair[i].Addr, calls/4) // caches, heaps and connections
			}
			for _, i := range order {
				before := pair[i].CPU(t)
				load(t, pair[i].Addr, calls)
				took[i] = float64((pair[i].CPU(t) - before).Nanoseconds()) / float64(calls) / 1000
			}
			ours, theirs = append(ours, took[0]), append(theirs, took[1])
			ratios = append(ratios, took[0]/took[1])
		})
	}
	ratio := Median(ratios)
	t.Logf("%s: %.2f µs of CPU a call, a constant %.2f µs: %.2f times, at most %.2f (median of %d rounds: %.2f)",
		what, Median(ours), Median(theirs), ratio, most, len(ratios), ratios)
	if ratio > most {
		t.Errorf("%s costs %.2f times a constant answer, more than %.2f", what, ratio, most)
	}
}

// Constant serves what this test's binary does as "constant".
func Constant(t *testing.T) *Server {
	t.Helper()
	return Serve(t, "constant")
}

// Median returns the median of v.
func Median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
