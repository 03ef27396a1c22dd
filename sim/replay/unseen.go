package replay

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Unseen says, for people, which rules hang on something that access logs do
// not tell: such rules count by address in a replay, or never match.
func Unseen(p *policy.Policy) []string {
	var notes []string
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
		if len(r.Match.Tenants)+len(r.Match.Plans) > 0 {
			notes = append(notes, fmt.Sprintf("a log does not tell tenants and plans, so rule %q never matches here", r.Name))
		}
		for _, h := range r.Match.Headers {
			if !logged(h.Name) {
				notes = append(notes, fmt.Sprintf("a log does not tell header %s, so rule %q never matches here", h.Name, r.Name))
				break
			}
		}
	}
	return notes
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
