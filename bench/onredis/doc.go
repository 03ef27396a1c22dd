// Package onredis measures checks decided by one Redis: Weir's store beside the
// limiters that Go programs use today, all in one run on one server, each with
// the same callers and keys.
//
// Every limiter admits every check (the limits are far away), so that all do the
// whole work: read, judge, write, answer. All go-redis clients have the same
// pool. Weir is strict here: no deny cache, no leases, every check is decided by
// Redis.
package onredis
