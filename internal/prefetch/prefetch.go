//go:build amd64 || arm64

package prefetch

// Read brings the cache line at address near and waits for nothing. The address need
// not be valid any more. Go has no other way to say this: an ordinary load must be
// complete before a lock is taken, and before the clock is read.
//
//go:noescape
func Read(address uintptr)

// Write is Read for what will be written: a line that another core wrote last costs
// one trip to it so, and two where it is read first. It takes the line from a core
// that may be in the middle of using it, so it is for lines of which that is unlikely.
//
//go:noescape
func Write(address uintptr)
