package resp

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// served is a connection that the door serves, in the bubble of synctest.
func served(t *testing.T) (*conn, net.Conn, *bufio.Reader) {
	s := New(Options{})
	client, server := net.Pipe()
	c := &conn{Conn: server, server: s, id: 1, proto: 2, trusted: true}
	s.add(c)
	go c.serve()
	t.Cleanup(func() { _ = client.Close() })
	return c, client, bufio.NewReader(client)
}

// TestPipelineThatNeverPauses: a client that always has a command under way sends each
// of them in time, however long it goes on.
func TestPipelineThatNeverPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, replies := served(t)
		sent := "PI"
		for i := range 6 {
			if _, err := io.WriteString(client, sent); err != nil {
				t.Fatalf("after %d commands: %v", i, err)
			}
			if i > 0 {
				if reply, err := replies.ReadString('\n'); err != nil || reply != "+PONG\r\n" {
					t.Fatalf("command %d: %q, %v", i, reply, err)
				}
			}
			<-time.After(wholeWithin * 2 / 3)
			sent = "NG\r\nPI"
		}
	})
}

// TestCommandThatNeverEnds: one command has its time once, however its bytes are
// spread, and a client between two may be silent.
func TestCommandThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, replies := served(t)
		if _, err := io.WriteString(client, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		if reply, err := replies.ReadString('\n'); err != nil || reply != "+PONG\r\n" {
			t.Fatalf("%q, %v", reply, err)
		}
		<-time.After(10 * wholeWithin)
		began := time.Now()
		for range 10 {
			if _, err := io.WriteString(client, "P"); err != nil {
				break
			}
			<-time.After(wholeWithin / 4)
		}
		if took := time.Since(began); took < wholeWithin || took > wholeWithin*3/2 {
			t.Errorf("it was cut off after %s", took)
		}
	})
}

// TestMemoryOfAConnection: what a client leaves behind of long texts is bounded.
func TestMemoryOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client, replies := served(t)
		for i := range mostSpelled {
			text := strings.Repeat("x", 60<<10) + string(rune('a'+i%26)) + string(rune('a'+i/26))
			go io.WriteString(client, "WEIR.TAKE k "+text+"\r\n")
			if reply, err := replies.ReadString('\n'); err != nil || reply[0] != '-' {
				t.Fatalf("%q, %v", reply, err)
			}
		}
		go io.WriteString(client, "HELLO 2 SETNAME "+strings.Repeat("n", 60<<10)+"\r\nPING\r\n")
		for reply := ""; reply != "+PONG\r\n"; {
			var err error
			if reply, err = replies.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		kept := len(c.name)
		for text := range c.limits {
			kept += len(text)
		}
		if kept > 64<<10 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// TestNameOfAClient: a name is one word, whichever command tells it.
func TestNameOfAClient(t *testing.T) {
	conn, replies := dial(t, serve(t, nil, Options{}))
	for _, command := range [][]string{{"CLIENT", "SETNAME", "a b"}, {"HELLO", "3", "SETNAME", "a b"}, {"HELLO", "3", "SETNAME", "a\nid=7"}} {
		if got := send(t, conn, replies, command...); !strings.HasPrefix(got, "-"+badName) {
			t.Errorf("%q: %q", command, got)
		}
	}
}
