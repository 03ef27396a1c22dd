//go:build amd64 || arm64

package weir

// prefetch has the processor bring the cache line at address near and waits for
// nothing. The address need not be valid any more. Go has no other way to say this:
// an ordinary load must be complete before a lock is taken, and before the clock is
// read.
//
//go:noescape
func prefetch(address uintptr)
