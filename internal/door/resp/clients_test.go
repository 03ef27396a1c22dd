package resp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Clients that people have, as they are delivered: none is told that this is no
// Redis.

func TestGoRedis(t *testing.T) {
	addr := serve(t, nil, Options{})
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, ClientName: "tests"})
		ctx := context.Background()
		must(t, client.Ping(ctx).Err())
		pipe := client.Pipeline()
		var replies []*redis.Cmd
		for range 4 {
			replies = append(replies, pipe.Do(ctx, "CL.THROTTLE", fmt.Sprint("go", protocol), 2, 1, 3600))
		}
		_, err := pipe.Exec(ctx)
		must(t, err)
		for i, want := range []string{"[0 3 2 -1 3600]", "[0 3 1 -1 7200]", "[0 3 0 -1 10800]", "[1 3 0 3600 10800]"} {
			got, err := replies[i].Slice()
			if err != nil || !near(fmt.Sprint(got), want) {
				t.Errorf("RESP%d, reply %d: %v, %v", protocol, i, got, err)
			}
		}
		must(t, client.Close())
	}
}

func TestRueidis(t *testing.T) {
	addr := serve(t, nil, Options{Token: "secret"})
	for _, old := range []bool{false, true} {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, Password: "secret", AlwaysRESP2: old, DisableCache: old,
		})
		must(t, err)
		ctx := context.Background()
		got, err := client.Do(ctx, client.B().Arbitrary("WEIR.TAKE").Keys(fmt.Sprint("r", old)).Args("5/hour", "COST", "2").Build()).AsIntSlice()
		if err != nil || fmt.Sprint(got[:3]) != "[1 5 3]" {
			t.Errorf("RESP2 %v: %v, %v", old, got, err)
		}
		info, err := client.Do(ctx, client.B().Info().Build()).ToString()
		if err != nil || !strings.Contains(info, "server_name:weir") {
			t.Errorf("RESP2 %v: INFO is %q, %v", old, info, err)
		}
		client.Close()
	}
}

// near compares replies but for a second that has passed in between.
func near(got, want string) bool {
	a, b := strings.Fields(strings.Trim(got, "[]")), strings.Fields(strings.Trim(want, "[]"))
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y int64
		_, err1 := fmt.Sscan(a[i], &x)
		_, err2 := fmt.Sscan(b[i], &y)
		if err1 != nil || err2 != nil || x > y || y-x > 30 || i < 3 && x != y {
			return false
		}
	}
	return true
}

// run runs a command of the system for at most five minutes: npm may be slow.
func run(t *testing.T, dir, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestRedisCLI(t *testing.T) {
	host, port, _ := strings.Cut(serve(t, nil, Options{}), ":")
	for _, protocol := range []string{"-2", "-3"} {
		out := run(t, "", "PING\nCL.THROTTLE cli"+protocol+" 15 30 60\nWEIR.TAKE k \"5/min name=cli\" COST 0\nSELECT 0\nCOMMAND COUNT\nNONE\n", "redis-cli", "-h", host, "-p", port, protocol)
		for _, want := range []string{"PONG\n", "0\n16\n15\n-1\n2\n", "1\n5\n5\n0\n0\n0\n", "OK\n", "12\n", "ERR unknown command"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q lacks %q", protocol, out, want)
			}
		}
	}
}

func TestRedisBenchmark(t *testing.T) {
	host, port, _ := strings.Cut(serve(t, nil, Options{}), ":")
	out := run(t, "", "", "redis-benchmark", "-h", host, "-p", port, "-n", "4000", "-c", "10", "-P", "16", "-r", "100", "-q",
		"CL.THROTTLE", "key:__rand_int__", "15", "30", "60")
	if !strings.Contains(out, "requests per second") {
		t.Errorf("%s", out)
	}
}

func TestNodeRedis(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/node")))
	run(t, dir, "", "npm", "ci", "--prefer-offline", "--no-progress", "--no-audit", "--no-fund")
	lines := strings.Split(strings.TrimSpace(run(t, dir, "", "node", "client.mjs", serve(t, nil, Options{}))), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, `[[0,16,15,-1,2],[1,16,15,-1,`) || !strings.Contains(line, `],[1,10,6,0,`) || !strings.HasSuffix(line, `,"PONG","hello"]`) {
			t.Errorf("%s", line)
		}
	}
}
