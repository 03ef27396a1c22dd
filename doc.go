// Package weir limits how much callers may do: it answers, exactly and at once,
// whether this caller may do this now, and if not, when.
//
//	l, err := weir.New(weir.Options{})                        // in memory
//	d, err := l.Allow(ctx, "user:42", weir.PerMinute(100))
//	if !d.Allowed { /* refuse; d.RetryAfter says for how long */ }
//
// A Limiter decides bills. A Charge is a key, a Limit and a cost; a Bill is
// charges decided together, all debited or none; a Decision is the answer. Which
// verb you want:
//
//   - Allow and AllowN: one key under one or more limits;
//   - Take: several keys, each with its limit, as one bill;
//   - Peek: what would Take answer;
//   - Decide: many bills in one call, kept and reused, with receipts;
//   - Wait: sleep until it fits;
//   - Refund, Reset, Block: give back, forget, refuse.
//
// An error means bad input, a dead context or a closed Limiter. A store that
// failed is not an error: the Decision is then the answer that the limit states
// for that case (see Failure), and Bill.Err says why.
//
// Balances live in memory (NewMemory) or in a shared store such as the one of
// package redisstore. Decisions cost no allocation in memory.
package weir
