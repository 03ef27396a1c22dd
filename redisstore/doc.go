// Package redisstore keeps balances in Redis or Valkey: single, under Sentinel
// or in a Cluster.
//
//	store, err := redisstore.Open("redis://127.0.0.1:6379/0", redisstore.Options{})
//	l, err := weir.New(weir.Options{Store: store})
//
// Concurrent bills are gathered into flights (internal/batch); a flight is one
// call of one script (lua/), which reads every key, decides every bill in turn
// on the server's own clock and writes each changed key once, with a time to
// live. The script only moves states; remaining, retry and reset are worked out
// here, by package algo, from the states it answers with.
//
//	bills ─ request: keys and arguments, encoded ─ queue ─ flight ─ script
//	bills ◀ Settle ◀ outcomes ◀──────────────────────────── reply ◀──┘
//
// A failure is a *weir.StoreError in the bill; the Limiter turns it into the
// answer that the limits state. Nothing is sent twice after an unknown outcome.
//
// Redis 6.2 is the oldest that is supported. An ACL user needs EVALSHA, EVAL,
// TIME, MGET, GET, GETRANGE, EXISTS, SET, SETRANGE and DEL on {prefix}*, PING, for a
// database other than 0 SELECT, where instances are counted ZADD, ZREM,
// ZREMRANGEBYSCORE, ZCARD and PEXPIRE, and where losses are watched INFO (without it,
// evictions and restarts go unseen, and flights do not keep a slow server's pace)
// and, in a cluster, CLUSTER SLOTS. Package directory says what look-ups and modes
// need.
package redisstore
