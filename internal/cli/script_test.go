package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirhq/weir/internal/cli"
	"github.com/weirhq/weir/internal/testredis"
)

// The test binary is weir itself when it is called so: see testscript.Main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"weir": func() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the transcripts in testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			vectors, err := os.ReadFile("../../verify/vectors/single.jsonl")
			if err != nil {
				return err
			}
			env.Setenv("NOTUTF8", "a\xff")
			env.Setenv("WEIR_ADMIN", "off") // its port is one for the whole machine
			return os.WriteFile(env.Getenv("WORK")+"/single.jsonl", vectors, 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "signal": signal, "port": port, "awaits": awaits, "becomes": becomes, "listens": listens, "redis": redis, "post": post, "lasting": lasting,
		},
	})
}

// exits runs a command and compares its exit code: exits CODE weir ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if ended, ok := err.(interface{ ExitCode() int }); ok {
		code = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got := fmt.Sprint(code); got != args[0] {
		ts.Fatalf("exit code %s, not %s", got, args[0])
	}
}

// signal sends a signal to what was started last: signal TERM|HUP
func signal(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.BackgroundCmds()
	number, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	if !ok || len(running) == 0 {
		ts.Fatalf("no signal %s, or nobody to send it to", args[0])
	}
	ts.Check(running[len(running)-1].Process.Signal(number))
}

// port sets a variable to a free port: port NAME
func port(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, number, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], number)
}

// patiently calls try until it returns "", and fails with what it returned last
// when its time is over.
func patiently(ts *testscript.TestScript, try func() string) {
	over := time.After(20 * time.Second)
	for {
		last := try()
		if last == "" {
			return
		}
		select {
		case <-over:
			ts.Fatalf("waited in vain: %s", last)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaits waits until a GET is answered with a status and some text:
// awaits STATUS URL [TEXT]
func awaits(ts *testscript.TestScript, _ bool, args []string) {
	patiently(ts, func() string {
		w, err := http.Get(args[1])
		if err != nil {
			return err.Error()
		}
		return answered(w, append([]string{args[0]}, args[2:]...))
	})
}

// becomes waits until a POST is answered with some text: becomes URL BODY TEXT
func becomes(ts *testscript.TestScript, _ bool, args []string) {
	patiently(ts, func() string {
		w, err := http.Post(args[0], "application/json", strings.NewReader(args[1]))
		if err != nil {
			return err.Error()
		}
		return answered(w, args[2:])
	})
}

// answered returns "" if the answer holds all of texts, else the answer.
func answered(w *http.Response, texts []string) string {
	body, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		return err.Error()
	}
	got := fmt.Sprintf("%d %s", w.StatusCode, body)
	for _, text := range texts {
		if !strings.Contains(got, text) {
			return got
		}
	}
	return ""
}

// listens waits until somebody accepts on a unix socket: listens PATH
func listens(ts *testscript.TestScript, _ bool, args []string) {
	patiently(ts, func() string {
		c, err := net.Dial("unix", args[0])
		if err != nil {
			return err.Error()
		}
		ts.Check(c.Close())
		return ""
	})
}

// post sends a JSON body and prints status and answer: post URL BODY
func post(ts *testscript.TestScript, _ bool, args []string) {
	w, err := http.Post(args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	body, err := io.ReadAll(w.Body)
	ts.Check(err)
	ts.Check(w.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d %s", w.StatusCode, body)
	ts.Check(err)
}

// redis starts a server of the script's own: redis URL-NAME
func redis(ts *testscript.TestScript, _ bool, args []string) {
	s, err := testredis.Run(testredis.Redis)
	ts.Check(err)
	ts.Defer(s.Stop)
	ts.Setenv(args[0], s.URL())
	ts.Setenv("ADDR", s.Addr)
}

// lasting fails if a server keeps a key that does not expire: lasting URL
func lasting(ts *testscript.TestScript, _ bool, args []string) {
	option, err := rueidis.ParseURL(args[0])
	ts.Check(err)
	option.DisableCache, option.ForceSingleClient = true, true
	client, err := rueidis.NewClient(option)
	ts.Check(err)
	defer client.Close()
	ctx := context.Background()
	keys, err := client.Do(ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	ts.Check(err)
	for _, key := range keys {
		left, err := client.Do(ctx, client.B().Pttl().Key(key).Build()).AsInt64()
		ts.Check(err)
		if left == -1 {
			ts.Fatalf("%s stays for ever", key)
		}
	}
}
