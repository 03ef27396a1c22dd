package policy

import (
	"strconv"
	"strings"

	"github.com/weirhq/weir"
)

// Faults is everything that Compile found wrong. Each names its field as a path
// such as limits[2].match.paths[0] or exempt[0].hosts[1].
type Faults []*weir.InputError

// Error returns the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

type faults struct{ list Faults }

func (f *faults) add(field, problem string) {
	f.list = append(f.list, &weir.InputError{Field: field, Problem: problem})
}

// quoted puts what is wrong before what is wrong with it.
func quoted(s, problem string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strconv.Quote(s) + " " + problem
}

func (f *faults) addAt(field string, i int, problem string) {
	f.add(field+"["+strconv.Itoa(i)+"]", problem)
}
