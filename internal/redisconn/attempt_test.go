package redisconn

import (
	"context"
	"io"
	"net"
	"testing"
)

// echoing takes connections and sends back what they say, so that one that says
// nothing hears nothing.
func echoing(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// TestAnAttemptEndsWithItsConn: what waits for a silent server's first word goes on
// when the Conn is closed, and a connection that was made is left to the client.
func TestAnAttemptEndsWithItsConn(t *testing.T) {
	open, end := context.WithCancel(context.Background())
	var made, waiting attempt
	addr := echoing(t)
	connect := func(a *attempt) net.Conn {
		conn, err := a.until(open, nil)(context.Background(), addr, &net.Dialer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	kept, given := connect(&made), connect(&waiting)
	made.over()
	if len(made.spared) != 1 || made.spared[0]() {
		t.Error("a connection that was made would still be closed with the Conn")
	}
	end()
	if _, err := given.Read(make([]byte, 1)); err == nil {
		t.Error("a server that was told nothing said something")
	}
	if _, err := kept.Write([]byte("x")); err != nil {
		t.Errorf("a connection that was made was closed: %v", err)
	}
	if _, err := io.ReadFull(kept, make([]byte, 1)); err != nil {
		t.Errorf("a connection that was made no longer hears its server: %v", err)
	}
	if _, err := new(attempt).until(open, nil)(context.Background(), addr, &net.Dialer{}, nil); err == nil {
		t.Error("connected after the end")
	}
}

// TestALateConnectionIsTheClients: what connects when the attempt is over is not
// closed with the Conn.
func TestALateConnectionIsTheClients(t *testing.T) {
	open, end := context.WithCancel(context.Background())
	defer end()
	var a attempt
	a.over()
	conn, err := a.until(open, nil)(context.Background(), echoing(t), &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if len(a.spared) != 0 {
		t.Error("it would be closed")
	}
}
