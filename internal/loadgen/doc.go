// Package loadgen puts a load of checks on whatever decides them, and says what
// came of it: throughput, latency, and which side could do no more.
//
// In a closed loop every client asks again as soon as it is answered: that finds
// the most that can be had. In an open loop checks start at a given rate whether
// or not the ones before are answered, and latency counts from when a check was
// meant to start, so that a stall is seen by all who would have come meanwhile
// and not by the one that was in it.
package loadgen
