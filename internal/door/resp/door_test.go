package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

func dial(t testing.TB, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn, bufio.NewReader(conn)
}

func TestTake(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_700_000_000_000_000)
	conn, replies := dial(t, serve(t, &clock, Options{}))
	for _, c := range []struct{ args, want string }{
		{"k 3/min", "1 3 2 0 20000 0"},
		{"k 3/min cost 2", "1 3 0 0 60000 0"},
		{"k 3/min", "0 3 0 20000 60000 0"},
		{"k 3/min COST 0", "1 3 0 0 60000 0"},
		{"k 3/min COST 4", "0 3 0 -1 60000 0"},
		{"q 1/s|algorithm=leaky_bucket|burst=1", "1 2 1 0 1000 0"},
		{"q 1/s|algorithm=leaky_bucket|burst=1", "1 2 0 0 2000 1000"},
		{"k unlimited", "1 null null 0 0 0"},
		{"k 3/Min", "-ERR "},
		{"k 3/min COST x", "-ERR COST takes"},
		{"k 3/min COST -1", "-ERR COST takes"},
		{"k 3/min PRICE 1", "-ERR syntax"},
		{"k 3/min 1", "-ERR syntax"},
		{"k", "-ERR wrong number of arguments for 'weir.take' command"},
		{" 3/min", "-ERR the key is empty"},
		{strings.Repeat("k", 1025) + " 3/min", "-ERR the key is longer than 1024 bytes"},
	} {
		words := strings.Split(c.args, " ")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "|", " ")
		}
		got := send(t, conn, replies, append([]string{"weir.take"}, words...)...)
		if strings.HasPrefix(c.want, "-") {
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%.40s: %q, want %s", c.args, got, c.want)
			}
			continue
		}
		plain := strings.Join(strings.Fields(strings.NewReplacer("*6\r\n", "", ":", "", "$-1", "null").Replace(got)), " ")
		if plain != c.want {
			t.Errorf("%s: %s, want %s", c.args, plain, c.want)
		}
	}
}

// TestPipeline has commands of every kind in one write, answered in their order.
// The decisions are asked for in one call.
func TestPipeline(t *testing.T) {
	store := &counting{Store: weir.NewMemory(weir.MemoryOptions{})}
	l, err := weir.New(weir.Options{Store: store})
	must(t, err)
	conn, replies := dial(t, serve(t, nil, Options{Limiter: l}))
	var all, want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&all, "CL.THROTTLE k 99 1 86400\r\nECHO %d\r\nWEIR.TAKE k 100/day\r\nNONE\r\n", i)
		fmt.Fprintf(&want, "*5 :0 :100 :%d|$%d %d|*6 :1 :100 :%d|-ERR unknown|", 99-i, len(fmt.Sprint(i)), i, 99-i)
	}
	_, err = io.WriteString(conn, all.String())
	must(t, err)
	var got strings.Builder
	for range 400 {
		words := strings.Fields(reply(t, replies))
		switch words[0] {
		case "*5", "*6":
			words = words[:4]
		case "-ERR":
			words = words[:2]
		}
		got.WriteString(strings.Join(words, " ") + "|")
	}
	if got.String() != want.String() {
		t.Errorf("got  %s\nwant %s", got.String(), want.String())
	}
	// 200 bills in 15 KB: what is read at once is decided at once.
	if calls, most := store.calls.Load(), store.most.Load(); calls > 20 || most < 40 {
		t.Errorf("%d calls of the store, %d bills at most", calls, most)
	}
}

// counting is a store that counts its calls.
type counting struct {
	weir.Store
	calls, most atomic.Int64
}

func (c *counting) Apply(ctx context.Context, bills []*weir.Bill) {
	c.calls.Add(1)
	c.most.Store(max(c.most.Load(), int64(len(bills))))
	c.Store.Apply(ctx, bills)
}

func TestAuth(t *testing.T) {
	addr := serve(t, nil, Options{Token: "secret"})
	for _, c := range []struct{ sent, want string }{
		{"PING", "-NOAUTH"},
		{"CL.THROTTLE k 1 1 1", "-NOAUTH"},
		{"NONE", "-NOAUTH"},
		{"HELLO 3", "-NOAUTH"},
		{"AUTH wrong|PING", "-WRONGPASS|-NOAUTH"},
		{"AUTH secret|PING", "+OK|+PONG"},
		{"AUTH default secret|PING", "+OK|+PONG"},
		{"AUTH somebody secret|PING", "-WRONGPASS|-NOAUTH"},
		{"HELLO 2 AUTH default wrong|PING", "-WRONGPASS|-NOAUTH"},
		{"HELLO 3 AUTH default secret SETNAME n|CLIENT GETNAME", "%7|$1"},
		{"HELLO 2 SETNAME", "-ERR Syntax error in HELLO option"},
		{"QUIT", "+OK"},
	} {
		conn, replies := dial(t, addr)
		for i, command := range strings.Split(c.sent, "|") {
			got := send(t, conn, replies, strings.Fields(command)...)
			if want := strings.Split(c.want, "|")[i]; !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %s", command, got, want)
			}
		}
	}
	conn, replies := dial(t, serve(t, nil, Options{}))
	if got := send(t, conn, replies, "AUTH", "x"); !strings.HasPrefix(got, "-ERR AUTH <password> called without") {
		t.Errorf("a password where none is asked for: %q", got)
	}
}

// TestClosed has limits without their store.
func TestClosed(t *testing.T) {
	l, err := weir.New(weir.Options{Store: lost{}})
	must(t, err)
	conn, replies := dial(t, serve(t, nil, Options{Limiter: l}))
	for limit, want := range map[string]string{"5/min on_store_failure=closed": ":0", "5/min on_store_failure=open": ":1", "5/min": ":1"} {
		if got := strings.Fields(send(t, conn, replies, "WEIR.TAKE", "k", limit)); got[1] != want {
			t.Errorf("%s: %v", limit, got)
		}
	}
}

type lost struct{}

func (lost) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: true, Err: errors.New("no route")}
	}
}
func (lost) Caps() weir.Caps { return weir.Caps{Source: "redis", Verbs: []algo.Verb{algo.Take}} }
func (lost) Close() error    { return nil }

// TestBounds sends what no client has reason to send.
func TestBounds(t *testing.T) {
	addr := serve(t, nil, Options{})
	for name, c := range map[string]struct{ sent, want string }{
		"a bulk too large":       {"*1\r\n$1000000000\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		"too many arguments":     {"*1000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		"a command too large":    {"*9\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("a", 60000)+"\r\n", 3), "-ERR Protocol error: too big command\r\n"},
		"a line without end":     {strings.Repeat("a", 70_000), "-ERR Protocol error: too big inline request\r\n"},
		"a count without end":    {"*" + strings.Repeat("1", 100), "-ERR Protocol error: invalid multibulk length\r\n"},
		"no bulk":                {"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
		"commands before a flaw": {"PING\r\n*x\r\n", "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
	} {
		conn, replies := dial(t, addr)
		_, _ = io.WriteString(conn, c.sent) // the door may be gone before all is written
		_ = conn.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(replies)
		if string(got) != c.want && !(len(c.sent) > 64<<10 && strings.HasPrefix(c.want, string(got))) {
			t.Errorf("%s: %.200q, want %q", name, got, c.want)
		}
	}
}

// TestShutdown has a client that waits, one in the middle of a command, and one
// that has just asked.
func TestShutdown(t *testing.T) {
	l, err := weir.New(weir.Options{})
	must(t, err)
	s := New(Options{Limiter: l})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	idle, fromIdle := dial(t, listener.Addr().String())
	if got := send(t, idle, fromIdle, "PING"); got != "+PONG\r\n" {
		t.Fatal(got)
	}
	half, _ := dial(t, listener.Addr().String())
	_, err = io.WriteString(half, "*2\r\n$4\r\nPI")
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(t, s.Shutdown(ctx))
	must(t, <-ended)
	if _, err := fromIdle.ReadByte(); err != io.EOF {
		t.Errorf("an idle client reads %v", err)
	}
	must(t, l.Close())
}

func FuzzParser(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"), 3)
	f.Add([]byte("PING \"a\\x41\" 'b'\r\n*0\r\n*2\r\n$0\r\n\r\n$1\r\na\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		whole, wholeErr := parseAll(data, len(data))
		parts, partsErr := parseAll(data, max(1, min(step, len(data))))
		if whole != parts || fmt.Sprint(wholeErr) != fmt.Sprint(partsErr) {
			t.Fatalf("at once %s %v\nin parts %s %v", whole, wholeErr, parts, partsErr)
		}
	})
}

// parseAll feeds data in steps and returns the commands as text.
func parseAll(data []byte, step int) (out string, err error) {
	var p parser
	var buf []byte
	for at := 0; at < len(data); at += step {
		buf = append(buf, data[at:min(at+step, len(data))]...)
		for {
			args, n, err := p.next(buf)
			if err != nil {
				return out, err
			}
			if n == 0 {
				break
			}
			out += fmt.Sprintf("%q;", args)
			buf = append([]byte(nil), buf[n:]...)
		}
	}
	return out, nil
}

// TestIntegers of every length, and at the ends of what is written without strconv.
func TestIntegers(t *testing.T) {
	for n := int64(1); n > 0 && n <= math.MaxInt64/10; n *= 10 {
		for _, n := range [...]int64{n - 1, n, n + 1, -n, 9 * n, math.MaxUint32 - 1 + n, math.MinInt64 + n} {
			if got, want := string(appendInteger([]byte("+OK\r\n"), n)), fmt.Sprintf("+OK\r\n:%d\r\n", n); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}
