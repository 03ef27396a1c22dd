//go:build race

package faults

// raced says that the race detector is at work.
const raced = true
