// Package prefetch has the processor bring memory near before it is needed: some
// lines of it at once, where each by itself would be waited for.
package prefetch
