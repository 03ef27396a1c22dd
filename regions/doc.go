// Package regions makes one limit of the limits of several regions, each with a
// Redis of its own, without a trip between regions on any request.
//
//	Limiter ─▶ Layer ─▶ this region's store          decides, here and now
//	             │ what was debited
//	             ▼
//	          Exchange ──Tell──▶ counters here        cumulative, by balance
//	             │ every interval, changed keys
//	             ▼
//	          XADD ─▶ a stream in each peer's Redis   «in»
//
//	«in» here ─▶ Exchange ──Hear──▶ balances here     debited by the difference
//
// What travels is never "3 more" but "in all, 120 since this counter began", so
// that a message that comes twice, late or not at all does no harm: the next one
// says everything. A counter that begins anew says so by its incarnation. What a
// peer has not acknowledged stays to be sent, once a key, whatever happened to it
// meanwhile; so after a partition every key changed since is sent again, and a
// long one costs memory by the keys that changed, not by how often.
//
// # What is promised
//
// Until news arrives a region knows nothing of the others, so each may admit what
// it holds and what flows in meanwhile. With R regions, at most
//
//	(R−1) · (capacity + rate · (interval + lag))
//
// is admitted beyond the limit. It is paid back: a balance may be overdrawn by as
// much, so the long-run rate is the limit's. A window keeps that debt until its
// period ends.
//
// A peer that has not acknowledged a change for 2·(interval + lag) is cut off, also
// where it acknowledges others. What it takes is then guessed to be as much as is
// taken here, which leaves each of R regions cut off from each other with an R-th of
// the rate; what was guessed is set off against what is heard later. So a partition
// costs the same bound once more, however long it is.
//
// # Clocks
//
// No instant of one region is compared with another's. Ages are taken on one
// clock; a window's period is named by its start, and one that has not begun here
// waits until it has.
//
// # What is lost
//
// An instance that dies has not told what it took in its last interval, and what it
// heard of a period that has not begun here is lost until its key changes again there:
// it keeps that in its memory, since a clock an hour apart would fill the stream. Units
// whose debit has an unknown outcome are not told. A reset or a block is this region's
// own.
package regions
