package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/doorcost"
)

func TestMain(m *testing.M) { doorcost.Main(m, func(string) { serveConstant() }) }

// serveConstant serves this very door, in which CL.THROTTLE always says the same.
func serveConstant() {
	constant := commands["cl.throttle"]
	constant.run = func(_ *conn, b *batch, _ [][]byte) { b.raw("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n") }
	commands["cl.throttle"] = constant
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := New(Options{})
	go func() { _ = s.Serve(l) }()
	doorcost.Ready(l.Addr().String())
	_ = s.Shutdown(context.Background())
}

// TestCost is RESP at pipeline 16.
func TestCost(t *testing.T) {
	door := func(t *testing.T) *doorcost.Server {
		return doorcost.Weir(t, "resp", "--http", "off", "--admin", "off", "--resp", "127.0.0.1:0")
	}
	most := 1.2
	if !doorcost.Long() {
		most = 3 // short rounds on a busy machine
	}
	doorcost.Compare(t, "CL.THROTTLE at pipeline 16", door, doorcost.Constant, doorcost.Scale(800_000), most, func(t *testing.T, addr string, calls int) {
		const clients, pipeline, keys = 8, 16, 10_000
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				replies := bufio.NewReaderSize(conn, 64<<10)
				var b strings.Builder
				for round := range calls / clients / pipeline {
					b.Reset()
					for i := range pipeline {
						key := fmt.Sprintf("user:%d", (round*pipeline+i)*31%keys+c)
						fmt.Fprintf(&b, "*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n$4\r\n9999\r\n$4\r\n9999\r\n$2\r\n60\r\n", len(key), key)
					}
					if _, err := io.WriteString(conn, b.String()); err != nil {
						t.Error(err)
						return
					}
					for range pipeline * 6 {
						if _, err := replies.ReadSlice('\n'); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		all.Wait()
	})
}

// TestCrowd has idle and slow connections at the door.
func TestCrowd(t *testing.T) {
	door := doorcost.Weir(t, "resp", "--http", "off", "--admin", "off", "--resp", "127.0.0.1:0")
	conn, replies := dial(t, door.Addr)
	must(t, conn.SetDeadline(time.Time{}))
	doorcost.Crowd(t, door, "*5\r\n$11\r\nCL.THROTTLE\r\n$4", func() error {
		if got := send(t, conn, replies, "CL.THROTTLE", "k", "99999", "99999", "1"); !strings.HasPrefix(got, "*5\r\n:0\r\n") {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}
