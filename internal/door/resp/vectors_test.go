package resp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// serve opens a door over a memory store on a clock that tests set, in
// microseconds, or on the real one for nil.
func serve(t testing.TB, clock *atomic.Int64, o Options) string {
	t.Helper()
	var store weir.Store
	if clock != nil {
		store = weir.NewMemory(weir.MemoryOptions{Now: clock.Load})
	}
	if o.Limiter == nil {
		l, err := weir.New(weir.Options{Store: store})
		must(t, err)
		o.Limiter = l
	}
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, s.Shutdown(ctx))
		must(t, <-ended)
		must(t, o.Limiter.Close())
	})
	return l.Addr().String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vector is one recorded exchange, or a conversation of CL.THROTTLE.
type vector struct {
	ID, Kind, Name, Reply string
	Send                  []string
	Closed                bool `json:"connection_closed"`
	Args                  []string
	ErrorContains         *string `json:"error_contains"`
	Steps                 []struct {
		At    int64 `json:"t_ms"`
		Args  []string
		Reply [5]int64
	}
}

// differs lists the vectors in which the door is meant to answer otherwise, from
// which step on, and why.
var differs = map[string]struct {
	from int
	why  string
}{
	"resp-025":      {0, "the door knows CL.THROTTLE"},
	"clthrottle-05": {1, "a changed limit keeps tokens, not an instant"},
	"clthrottle-07": {1, "a negative quantity is an error"},
}

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/vectors.jsonl")
	must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	kinds := map[string]int{}
	for lines.Scan() {
		var v vector
		must(t, json.Unmarshal(lines.Bytes(), &v))
		kinds[v.Kind]++
		t.Run(v.ID+" "+v.Name, func(t *testing.T) {
			switch v.Kind {
			case "resp_protocol":
				v.protocol(t)
			case "cl_throttle":
				v.throttle(t)
			default:
				v.refused(t)
			}
		})
	}
	if kinds["resp_protocol"] < 20 || kinds["cl_throttle"] < 4 || len(kinds) != 4 {
		t.Errorf("read %v", kinds)
	}
}

// varies is what is another in every HELLO.
var varies = regexp.MustCompile(`\$[0-9]+\r\n7\.[0-9.]+\r\n|id\r\n:[0-9]+\r\n`)

func (v *vector) protocol(t *testing.T) {
	if _, other := differs[v.ID]; other {
		return
	}
	conn, err := net.Dial("tcp", serve(t, nil, Options{}))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	for _, part := range v.Send {
		_, err := conn.Write(latin1(part))
		must(t, err)
	}
	if !v.Closed { // then the door still answers, and what comes before is its reply
		_, err := io.WriteString(conn, "*2\r\n$4\r\nECHO\r\n$5\r\n-end-\r\n")
		must(t, err)
		must(t, conn.(*net.TCPConn).CloseWrite())
	}
	got, err := io.ReadAll(conn)
	must(t, err)
	want := string(latin1(v.Reply))
	if !v.Closed {
		want += "$5\r\n-end-\r\n"
	}
	if varies.ReplaceAllString(string(got), "?") != varies.ReplaceAllString(want, "?") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// latin1 undoes what JSON makes of bytes.
func latin1(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		out = append(out, byte(r))
	}
	return out
}

func (v *vector) throttle(t *testing.T) {
	var clock atomic.Int64
	conn, err := net.Dial("tcp", serve(t, &clock, Options{}))
	must(t, err)
	defer conn.Close()
	replies := bufio.NewReader(conn)
	for i, step := range v.Steps {
		if other, is := differs[v.ID]; is && i >= other.from {
			break
		}
		clock.Store(1_700_000_000_000_000 + step.At*1000)
		got := send(t, conn, replies, append([]string{"CL.THROTTLE"}, step.Args...)...)
		want := fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", step.Reply[0], step.Reply[1], step.Reply[2], step.Reply[3], step.Reply[4])
		if got != want {
			t.Fatalf("step %d: got %q\nwant %q", i, got, want)
		}
	}
}

func (v *vector) refused(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, nil, Options{}))
	must(t, err)
	defer conn.Close()
	got := send(t, conn, bufio.NewReader(conn), append([]string{"CL.THROTTLE"}, v.Args...)...)
	if !strings.HasPrefix(got, "-Cell error: ") {
		t.Fatalf("got %q", got)
	}
	if want := v.ErrorContains; want != nil && *want != "same usage error" && !strings.Contains(got, *want) {
		t.Errorf("got %q, want %s", got, *want)
	}
}

// send sends a command and returns the reply as it stands on the wire.
func send(t testing.TB, conn net.Conn, replies *bufio.Reader, args ...string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := io.WriteString(conn, b.String())
	must(t, err)
	return reply(t, replies)
}

func reply(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	must(t, err)
	n := 0
	switch line[0] {
	case '*', '%', '$', '=':
		_, err := fmt.Sscanf(line[1:], "%d", &n)
		must(t, err)
	}
	out := line
	switch line[0] {
	case '%':
		n *= 2
		fallthrough
	case '*':
		for range n {
			out += reply(t, r)
		}
	case '$', '=':
		if n >= 0 {
			rest := make([]byte, n+2)
			_, err := io.ReadFull(r, rest)
			must(t, err)
			out += string(rest)
		}
	}
	return out
}
