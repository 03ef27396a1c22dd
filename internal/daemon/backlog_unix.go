//go:build unix

package daemon

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// waiting returns a connection that waits to be accepted, or nil at once if there
// is none. A listener's own Accept with a deadline that has passed does not look.
func waiting(l syscall.Conn) net.Conn {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	fd, failed := -1, error(syscall.EINTR)
	err = raw.Control(func(listener uintptr) {
		syscall.ForkLock.RLock() // nobody is started with it
		defer syscall.ForkLock.RUnlock()
		for errors.Is(failed, syscall.EINTR) || errors.Is(failed, syscall.ECONNABORTED) {
			fd, _, failed = syscall.Accept(int(listener))
		}
		if failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err != nil || failed != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	conn, err := net.FileConn(file) // on a descriptor of its own
	if err != nil {
		return nil
	}
	return conn
}
