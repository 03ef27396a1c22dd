package report

import (
	"fmt"
	"strings"
)

// Aim is a figure that was promised.
type Aim struct {
	What  string
	Got   float64
	Bound float64
	Least bool // Got must be at least Bound, else at most
	Unit  string
}

// Met reports whether the promise is kept.
func (a Aim) Met() bool {
	if a.Least {
		return a.Got >= a.Bound
	}
	return a.Got <= a.Bound
}

func (a Aim) row() []string {
	sign, met := "≤", "yes"
	if a.Least {
		sign = "≥"
	}
	if !a.Met() {
		met = "**no**"
	}
	return []string{a.What, number(a.Got) + a.Unit, sign + " " + number(a.Bound) + a.Unit, met}
}

// Aims writes the table of promises.
func Aims(aims []Aim) string {
	t := Table{Head: []string{"promise", "measured", "bound", "kept"}, Numbers: []bool{false, true, true, false}}
	for _, a := range aims {
		t.Rows = append(t.Rows, a.row())
	}
	return t.String()
}

// Missed returns the promises that are not kept, a line each.
func Missed(aims []Aim) string {
	var b strings.Builder
	for _, a := range aims {
		if !a.Met() {
			fmt.Fprintln(&b, strings.Join(a.row()[:3], "  "))
		}
	}
	return b.String()
}

// number writes x with three digits that count, and whole from a hundred up.
func number(x float64) string {
	switch {
	case x >= 100 || x == float64(int64(x)):
		return thousands(int64(x + 0.5))
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// thousands writes n with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
