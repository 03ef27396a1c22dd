// Package caddy holds what Weir takes for the same path against what a real
// Caddy serves. It is a module of its own, and beside ./test, because building
// Caddy takes five CPU minutes: `make caddy` runs it and compares with what was
// recorded in identity/testdata/caddy.txt, which the tests of identity read.
package caddy
