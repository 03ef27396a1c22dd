package storetest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// The race: processes of the operating system, each with goroutines, fall on one
// key of one Redis at once. A limit of 1,000 must admit 1,000, not 1,001. Two
// stores that check and then act go through the same harness and must admit
// more: where they do not, nothing raced and the run proves nothing.
const (
	processes  = 16
	goroutines = 64
	tries      = 6 // bills of each goroutine, at the most: 6,144 for 1,000 places
	places     = 1000
)

// race is one run, as the parent tells it to the workers.
type race struct {
	Store  string   // redisstore, or a naive store
	URL    string   //
	Key    string   //
	Limits []string // one bill over all of them, each on a key of its own
}

// lap is what one worker did in a race.
type lap struct {
	Admitted, Denied int
	Error            string
}

// TestMain turns this binary into a worker when the parent asks for it.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestRace(t *testing.T) {
	for _, binary := range testredis.Installed() {
		t.Run(binary, func(t *testing.T) {
			server := testredis.StartBinary(t, binary)
			field := startWorkers(t)
			for _, naive := range []string{"get-then-increment", "get-then-set"} {
				r := race{Store: naive, URL: server.URL(), Key: naive, Limits: []string{"1000/366d algorithm=fixed_window"}}
				if n := field.run(t, r); n <= places {
					t.Fatalf("void: %s admitted %d, so nothing raced", naive, n)
				} else {
					t.Logf("%s admitted %d", naive, n)
				}
			}
			for _, c := range []struct {
				name   string
				limits []string
			}{
				{"token_bucket", []string{"1000/366d"}},
				{"leaky_bucket", []string{"1000/366d burst=999 algorithm=leaky_bucket"}},
				{"fixed_window", []string{"1000/366d algorithm=fixed_window"}},
				{"sliding_window", []string{"1000/366d algorithm=sliding_window"}},
				{"sliding_log", []string{"1000/366d algorithm=sliding_log"}},
				{"bill", []string{"4000/366d", "1000/366d algorithm=sliding_window", "3000/366d algorithm=sliding_log"}},
			} {
				t.Run(c.name, func(t *testing.T) {
					r := race{Store: "redisstore", URL: server.URL(), Key: c.name, Limits: c.limits}
					if n := field.run(t, r); n != places {
						t.Errorf("admitted %d, want %d", n, places)
					}
					debitedAlike(t, &r)
				})
			}
		})
	}
}

// debitedAlike checks that every balance of the race's bill was debited by what
// was admitted and no more.
func debitedAlike(t *testing.T, r *race) {
	t.Helper()
	store, err := openStore(r)
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	charges, err := r.charges()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range charges {
		c.Cost, c.Peek = 0, true
		d, err := l.Take(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if want := c.Limit.Most() - places; d.Remaining != want || d.Source != "redis" {
			t.Errorf("%s: %d remain by %s, want %d", c.Limit, d.Remaining, d.Source, want)
		}
	}
}

func (r *race) charges() (charges []weir.Charge, err error) {
	for i, s := range r.Limits {
		limit, err := weir.ParseLimit(s)
		if err != nil {
			return nil, err
		}
		charges = append(charges, limit.OnFailure(weir.Closed).Charge(fmt.Sprintf("%s/%d", r.Key, i)))
	}
	return charges, nil
}

func openStore(r *race) (weir.Store, error) {
	if r.Store == "redisstore" {
		return redisstore.Open(r.URL, redisstore.Options{Timeout: patience})
	}
	return openNaive(r.URL, r.Store == "get-then-set")
}

// field is the workers of a race.
type field []*worker

type worker struct {
	cmd   *exec.Cmd
	tell  io.WriteCloser
	heard *bufio.Scanner
}

func startWorkers(t *testing.T) field {
	t.Helper()
	var f field
	for range processes {
		w := &worker{cmd: exec.Command(os.Args[0])}
		w.cmd.Env = append(os.Environ(), workerEnv+"=1")
		w.cmd.Stderr = os.Stderr
		in, err := w.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.tell, w.heard = in, bufio.NewScanner(out)
		t.Cleanup(func() { // the end of its input ends a worker
			in.Close()
			if err := w.cmd.Wait(); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
		f = append(f, w)
	}
	return f
}

// run runs r on all workers at once and returns how much was admitted.
func (f field) run(t *testing.T, r race) (admitted int) {
	t.Helper()
	order, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range f {
		w.say(t, string(order))
	}
	for _, w := range f {
		if got := w.hear(t); got != ready {
			t.Fatalf("worker: %s", got)
		}
	}
	for _, w := range f {
		w.say(t, "go")
	}
	denied := 0
	for _, w := range f {
		var l lap
		if err := json.Unmarshal([]byte(w.hear(t)), &l); err != nil || l.Error != "" {
			t.Fatalf("worker: %s %v", l.Error, err)
		}
		admitted += l.Admitted
		denied += l.Denied
	}
	if admitted+denied != processes*goroutines*tries {
		t.Errorf("%d bills answered of %d", admitted+denied, processes*goroutines*tries)
	}
	return admitted
}

func (w *worker) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(w.tell, line+"\n"); err != nil {
		t.Fatalf("worker: %v", err)
	}
}

func (w *worker) hear(t *testing.T) string {
	t.Helper()
	if !w.heard.Scan() {
		t.Fatalf("worker: ended without a word: %v", w.heard.Err())
	}
	return w.heard.Text()
}
