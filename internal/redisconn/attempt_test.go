package redisconn

import (
	"context"
	"net"
	"testing"
)

// silent takes connections and says nothing.
func silent(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestAnAttemptEndsWithItsConn: what waits for a silent server's first word goes on
// when the Conn is closed, and a connection that was made is left to the client.
func TestAnAttemptEndsWithItsConn(t *testing.T) {
	open, end := context.WithCancel(context.Background())
	var made, waiting attempt
	connect := func(a *attempt) net.Conn {
		conn, err := a.until(open, nil)(context.Background(), silent(t), &net.Dialer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	kept, given := connect(&made), connect(&waiting)
	made.over()
	end()
	if _, err := given.Read(make([]byte, 1)); err == nil {
		t.Error("a silent server said something")
	}
	if _, err := kept.Write([]byte("x")); err != nil {
		t.Errorf("a connection that was made was closed: %v", err)
	}
	if _, err := new(attempt).until(open, nil)(context.Background(), silent(t), &net.Dialer{}, nil); err == nil {
		t.Error("connected after the end")
	}
}
