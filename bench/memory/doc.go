// Package memory measures decisions made in this process: Weir's memory store
// beside other Go libraries and beside the floor, which is the least that any
// such decision has to do.
//
// What is measured is what a caller does: a key comes as a string, the answer
// says whether it is admitted. Two things make such a measurement honest, and
// leaving either out flatters whoever keeps keys in a map:
//
//   - Keys are looked up in random order by strings that are not the ones that
//     were inserted. A map that is asked with the very string it holds finds the
//     key's bytes in the cache, because the caller has just touched them.
//   - Every limiter admits every charge and no balance is ever idle, so that all
//     do the whole work: look up, advance, judge, debit, report.
package memory
