//go:build !unix

package daemon

import (
	"net"
	"syscall"
)

func waiting(syscall.Conn) net.Conn { return nil }
