package rlsconfig

import (
	"fmt"
	"strings"
)

// Error is one fault and where it stands.
type Error struct {
	File         string
	Line, Column int // from 1
	Problem      string
}

// Error returns FILE:LINE:COLUMN: what is wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}

// Errors is what is wrong with a directory, by file and in their order.
type Errors []*Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors is how many faults of one file are told: one that is wrong from end
// to end is most likely no such file.
const maxErrors = 20

// meant returns the end of a message about an unknown key.
func meant(key string, keys []string) string {
	plain := func(s string) string {
		return strings.TrimSuffix(strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s)), "s")
	}
	for _, k := range keys {
		if plain(k) == plain(key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return "; the keys here are " + strings.Join(keys, ", ")
}

// clip shortens text from a file for a message.
func clip(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
