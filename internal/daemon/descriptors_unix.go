//go:build unix

package daemon

import "syscall"

// descriptors returns how many files this process may have open. Go has raised
// the soft limit to the hard one at the start.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unknownDescriptors
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on FreeBSD
}
