//go:build !race

package faults

// raced says that the race detector is at work. Then a part of the suite runs at a
// tenth of the load and no times are held against anything: it looks for races.
const raced = false
