package replay

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Unseen says, for people, which rules hang on something that access logs do
// not tell: such rules count by address in a replay, or never match. Exempt entries
// and match.not hang on it too, and then never hold.
func Unseen(p *policy.Policy) []string {
	var notes []string
	for i, c := range p.Exemptions() {
		if what := unseen(&c); what != "" {
			notes = append(notes, fmt.Sprintf("a log does not tell %s, so exempt[%d] exempts nobody here", what, i))
		}
	}
	for _, r := range p.Rules() {
		for _, part := range r.Key {
			if seen(part) {
				continue
			}
			does := "counts by address here"
			switch r.OnMissing {
			case policy.Skip:
				does = "never applies here"
			case policy.Deny:
				does = "refuses everything here"
			}
			notes = append(notes, fmt.Sprintf("a log does not tell %s, so rule %q %s", part, r.Name, does))
			break
		}
		if what := unseen(&r.Match); what != "" {
			notes = append(notes, fmt.Sprintf("a log does not tell %s, so rule %q never matches here", what, r.Name))
		}
		if what := unseen(&r.Not); what != "" {
			notes = append(notes, fmt.Sprintf("a log does not tell %s, so match.not of rule %q excludes nobody here", what, r.Name))
		}
	}
	return notes
}

// unseen names what conditions ask for and a log does not tell, if anything.
func unseen(c *policy.Conditions) string {
	if len(c.Tenants)+len(c.Plans) > 0 {
		return "tenants and plans"
	}
	for _, h := range c.Headers {
		if !logged(h.Name) {
			return "header " + h.Name
		}
	}
	return ""
}

func seen(part identity.Part) bool {
	name := strings.TrimPrefix(part.String(), "fold:")
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		return logged(header)
	}
	switch name {
	case "ip", "route", "path", "method", "host", "all":
		return true
	}
	return strings.HasPrefix(name, "query:") || strings.HasPrefix(name, "ip/")
}

func logged(header string) bool {
	switch header {
	case "User-Agent", "Referer", "X-Forwarded-For":
		return true
	}
	return false
}
