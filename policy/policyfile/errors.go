package policyfile

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a file and where it stands.
type Error struct {
	File         string
	Line, Column int // from 1
	Problem      string
}

// Error returns FILE:LINE:COLUMN: what is wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}

// Errors is everything that is wrong with a file, in the order of the file.
type Errors []*Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors is how many faults are reported at once: a file that is wrong from
// end to end is most likely no policy file.
const maxErrors = 20

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return e[:min(len(e), maxErrors)]
}

// nearest returns the word closest to s, or "" if none is close enough to be
// what was meant.
func nearest(s string, words []string) string {
	best, fewest := "", 1+len(s)/3
	for _, w := range words {
		if plain(w) == plain(s) {
			return w
		}
		if d := edits(s, w); d <= fewest && d < len(w) {
			if d < fewest || best == "" {
				best, fewest = w, d
			}
		}
	}
	return best
}

// plain drops what people spell differently: case, dashes, underscores, plurals.
func plain(s string) string {
	return strings.TrimSuffix(strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s)), "s")
}

// edits is the number of letters to insert, drop, change or swap with their
// neighbour to make a of b.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before, last, row [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// didYouMean returns the end of a message about an unknown word.
func didYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf("; did you mean %q?", w)
	}
	return "; use " + either(words)
}

// either lists words for a sentence.
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
