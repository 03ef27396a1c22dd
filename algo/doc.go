// Package algo holds the rate-limiting algorithms as pure steps over small
// states: no clock, no lock, no store, no allocation in a decision.
//
// A decision has two halves. Advance brings a stored state to a time and says,
// in a View, how things stand; Fits and the Charge functions judge and debit. They hold
// no 128-bit work for the limit a state was charged under, so a store may run
// them under its lock. Report turns the View into remaining, retry and reset
// afterwards, outside any lock, and for Redis in the process that asked.
//
// # Arithmetic
//
// All times are int64 microseconds since the Unix epoch, all amounts int64
// units. A limit of N units per Period microseconds moves one unit every
// Period/N microseconds, which is rarely whole. Instants are therefore kept as
// a whole microsecond and a Phase, a fraction in 1/N of a microsecond with
// 0 <= Phase < N. With that base every quantity is an exact integer:
//
//   - a cost c takes c*Period/N microseconds: quotient and remainder of a
//     128-bit product, at most MaxUnits*MaxPeriod = 3.2e22 < 2^75;
//   - the bounds of Check keep Capacity*Period/N within MaxFill, so the quotient
//     is below 2^49 and the division cannot overflow;
//   - sums and comparisons of instants need an addition and a carry.
//
// Nothing is rounded until Report, where a wait is rounded up to the next
// microsecond (waiting less would be refused) and a remaining amount down to
// whole units (promising more would be refused). A year at any rate ends on the
// right token because no error is ever made that could add up.
//
// Rejected: floats (drift), a coarser tick (1/s at 1 ns ticks overflows, at 1 ms
// ticks 3 per 333 ms is not representable), tokens as whole plus fraction in
// 1/Period units (needs a division for every elapsed time, under the lock).
package algo
