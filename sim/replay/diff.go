package replay

import (
	"cmp"
	"slices"
	"strings"
)

// Diff is what changes for callers when one policy takes the place of another. A
// caller is an address, cut as Options says, or a name.
type Diff struct {
	Requests     int64 `json:"requests"`
	SkippedLines int64 `json:"skipped_lines"`
	Old          Side  `json:"old"`
	New          Side  `json:"new"`
	// NewlyRefused callers are refused something under the new policy and
	// nothing under the old; Denied is how much. NewlyAdmitted are the reverse.
	NewlyRefused  []Caller `json:"newly_refused"`
	NewlyAdmitted []Caller `json:"newly_admitted"`
}

// Side is one policy of a Diff.
type Side struct {
	Denied        int64 `json:"denied"`
	CallersDenied int64 `json:"callers_denied"`
}

// Compare compares two runs that were given the same requests, with
// Options.Clients and the same prefixes.
func Compare(was, is *Run) *Diff {
	return &Diff{
		Requests: is.requests, Old: side(was), New: side(is),
		NewlyRefused: without(is.clients, was.clients), NewlyAdmitted: without(was.clients, is.clients),
	}
}

func side(run *Run) Side { return Side{run.denied, int64(len(run.clients))} }

// without returns the clients of a that are not in b, the most refused first.
func without(a, b map[string]int64) []Caller {
	list := []Caller{}
	for key, denied := range a {
		if _, both := b[key]; !both {
			list = append(list, Caller{key, denied})
		}
	}
	slices.SortFunc(list, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
	return list
}
