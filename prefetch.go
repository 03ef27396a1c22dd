//go:build amd64 || arm64

package weir

// prefetch has the processor bring the cache line at address near, for writing, and
// waits for nothing: a line that another core wrote last costs one trip to it so,
// and two where it is read first. The address need not be valid any more. Go has no
// other way to say this: an ordinary load must be complete before a lock is taken,
// and before the clock is read.
//
//go:noescape
func prefetch(address uintptr)
