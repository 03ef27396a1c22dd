package daemon

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The kernel completes connections before anybody accepts them, and resets those
// that still wait when a listener is closed: to their clients, requests that were
// sent and lost. So a door at its end first accepts until none is left, and
// closes in the same breath. A connection that comes between the two is lost all
// the same; nothing can be done about those few microseconds.

const (
	nobodyFor  = 2 * time.Millisecond // twice nobody for so long, and the backlog is empty
	longestEnd = time.Second          // however busy it is
)

// backlog is a listener whose backlog can be emptied.
type backlog struct {
	deadlined
	end   atomic.Int64  // when leaving ends at the latest, in Unix nanoseconds; 0 before it begins
	empty chan struct{} // closed when nobody waits any more
	told  chan struct{} // closed by Close
	close func() error
	tell  func()
}

// deadlined is what TCP and unix listeners are.
type deadlined interface {
	net.Listener
	syscall.Conn
	SetDeadline(time.Time) error
}

func newBacklog(l deadlined) *backlog {
	b := &backlog{deadlined: l, empty: make(chan struct{}), told: make(chan struct{}), close: sync.OnceValue(l.Close)}
	b.tell = sync.OnceFunc(func() { close(b.told) })
	return b
}

// leave has Accept return whoever waits and close the listener, and returns when
// it has. Close is still to be called.
func (b *backlog) leave() {
	b.end.Store(time.Now().Add(longestEnd).UnixNano())
	if b.SetDeadline(time.Now()) != nil { // wakes Accept
		return // closed already
	}
	limit := time.NewTimer(2 * longestEnd)
	defer limit.Stop()
	select {
	case <-b.empty:
	case <-b.told:
	case <-limit.C: // nobody accepts
	}
}

// Close implements net.Listener.
func (b *backlog) Close() error {
	b.tell()
	return b.close()
}

// Accept implements net.Listener. A listener that has left accepts no more and
// waits for Close, so that its server ends when it is told to.
func (b *backlog) Accept() (net.Conn, error) {
	if b.end.Load() == 0 {
		conn, err := b.deadlined.Accept()
		if err == nil || b.end.Load() == 0 {
			return conn, err
		}
	}
	for quiet := 0; quiet < 2 && time.Now().UnixNano() < b.end.Load(); quiet++ {
		if b.SetDeadline(time.Now().Add(nobodyFor)) != nil {
			break
		}
		conn, err := b.deadlined.Accept()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	// On a busy machine a deadline is told late, and over whoever came meanwhile.
	if time.Now().UnixNano() < b.end.Load() {
		if conn := waiting(b.deadlined); conn != nil {
			return conn, nil
		}
	}
	err := b.close()
	select {
	case <-b.empty:
	default:
		close(b.empty) // by the one goroutine that accepts
	}
	<-b.told
	return nil, errors.Join(net.ErrClosed, err)
}

// doorListener is a listener as a door serves it, and what lies at its bottom.
type doorListener struct {
	net.Listener
	backlog *backlog
}
