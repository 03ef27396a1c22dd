// Package rlsconfig reads the configuration of envoyproxy/ratelimit as it stands,
// and says which rule a descriptor falls under. It charges nothing.
//
// A file is read in two steps: tree.go makes nodes with places of the YAML, by
// the rules of the reader that server uses (YAML 1.1, text as written); the
// others walk them and say every fault with its place. What that server passes
// over in silence, such as a key on the wrong level, is a fault here.
package rlsconfig
