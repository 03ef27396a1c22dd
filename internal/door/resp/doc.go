// Package resp is the door for Redis clients: CL.THROTTLE as redis-cell has it,
// WEIR.TAKE, and what clients say when they connect.
//
// A connection is one goroutine. What it has read is cut into commands
// (parser.go) until nothing whole is left; those that ask for a decision become
// bills, and all of them are decided in one call (batch.go); the replies go out
// in the order of the commands, in one write:
//
//	│*5 CL.THROTTLE…│*1 PING│*3 WEIR.TAKE…│*5 CL.THR   the buffer; the rest is still to come
//	   bill 0           text     bill 1                  ops, in order
//	   Decide(bill 0, bill 1)
//	   [0 16 15 -1 2]   +PONG    [1 5 4 0 …]             one write
//
// What belongs to a batch comes from a pool, so that an idle connection holds no
// more than its goroutine and 4 KiB to read into. A command has bounds, and one
// that has begun must be whole in time.
package resp
