// Package report writes measurements down: tables, a chart, which promises are
// kept, and on what machine and commit all that was found.
package report

import "strings"

// Table is a table in Markdown.
type Table struct {
	Head    []string
	Numbers []bool // which columns are aligned to the right
	Rows    [][]string
}

// String returns the table's text.
func (t Table) String() string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.Head)
	rule := make([]string, len(t.Head))
	for i := range rule {
		rule[i] = "---"
		if t.Numbers[i] {
			rule[i] = "---:"
		}
	}
	line(rule)
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Number writes a measured value as all tables do.
func Number(x float64) string { return number(x) }
