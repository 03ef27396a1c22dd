package suggest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Policy returns a policy to begin with. What was found stands in its comments,
// so that the text is both the report and a file that `weir policy check`
// passes.
func (r *Report) Policy() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# A policy to begin with, from %d requests of %d callers.\n", r.Requests, r.Routes[0].Callers)
	b.WriteString("# Run the logs through it with weir replay, then try it live with weir serve --shadow.\n#\n")
	r.comment(&b)
	if r.Crowded > 0 {
		fmt.Fprintf(&b, "#\n# %d requests are not in the numbers of their routes: there were too many routes and callers.\n", r.Crowded)
	}
	b.WriteString("\nlimits:\n")
	if r.Requests == 0 {
		b.Truncate(b.Len() - 1)
		b.WriteString(" []\n")
		return b.Bytes()
	}
	all := &r.Routes[0]
	// The minute stops who takes much at once, the day who takes much for long.
	rule(&b, "per-caller", "", all, 1, 1)
	rule(&b, "per-caller-day", "", all, 3, 0)
	names := map[string]bool{}
	for i := 1; i < len(r.Routes) && len(names) < 3; i++ {
		route := &r.Routes[i]
		// A route that everybody is on is limited by the rules above.
		if route.Requests*20 < r.Requests || route.Requests*10 > 9*r.Requests || route.Callers < 20 {
			continue
		}
		name := ruleName(route.Route)
		if !names[name] {
			names[name] = true
			rule(&b, name, route.Route, route, 1, 1)
		}
	}
	return b.Bytes()
}

// rule writes a rule of a period and a target.
func rule(b *bytes.Buffer, name, path string, u *RouteUse, period, target int) {
	l := u.Periods[period].Limits[target]
	fmt.Fprintf(b, "  - name: %s\n", name)
	if path != "" {
		fmt.Fprintf(b, "    match: {paths: [%s]", strconv.Quote(path))
		for i, other := range u.apart {
			if i == 0 {
				b.WriteString(", not: {paths: [")
			} else {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Quote(other))
		}
		if len(u.apart) > 0 {
			b.WriteString("]}")
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(b, "    key: [ip]\n    limit: %s  # refuses %d of %d callers something, %s of the requests\n",
		l.Limit, l.Callers, u.Callers, percent(l.Refused, u.Requests))
}

// ruleName makes a rule's name of a pattern.
func ruleName(pattern string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			return c
		case c == '/':
			return '-'
		case c == '*':
			return 'x'
		}
		return '_'
	}, pattern)
	if pattern == "/" {
		name = "-root"
	}
	return "route" + name[:min(len(name), 50)]
}

// comment writes the tables.
func (r *Report) comment(b *bytes.Buffer) {
	for i := range r.Routes {
		u := &r.Routes[i]
		if i == 0 {
			b.WriteString("# All requests: what a caller uses at most in one period, and limits by whom they touch.\n")
		} else {
			fmt.Fprintf(b, "#\n# %s: %d requests of %d callers\n", strconv.Quote(u.Route), u.Requests, u.Callers)
		}
		var table bytes.Buffer
		t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
		// A buffer takes everything.
		_, _ = fmt.Fprint(t, "period\tp50\tp90\tp99\tp99.9\tmost")
		for _, target := range targets {
			_, _ = fmt.Fprintf(t, "\tfor %s\tcallers\trefused", target.name)
		}
		_, _ = fmt.Fprintln(t)
		for _, p := range u.Periods {
			_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d", p.Period, p.P50, p.P90, p.P99, p.P999, p.Max)
			for _, l := range p.Limits {
				_, _ = fmt.Fprintf(t, "\t%d/%s\t%d\t%s", l.N, p.Period, l.Callers, percent(l.Refused, u.Requests))
			}
			_, _ = fmt.Fprintln(t)
		}
		_ = t.Flush()
		for line := range strings.Lines(table.String()) {
			b.WriteString("#   " + strings.TrimRight(line, " \n") + "\n")
		}
	}
}

// percent spells n of all; what is little is not nothing.
func percent(n, all int64) string {
	switch {
	case n == 0 || all == 0:
		return "0 %"
	case 10_000*n < all:
		return "<0.01 %"
	}
	return strconv.FormatFloat(100*float64(n)/float64(all), 'f', 2, 64) + " %"
}
