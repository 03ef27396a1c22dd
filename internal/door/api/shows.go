package api

import (
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// Shows says how the charges of v appear in response headers.
func Shows(v *gate.Verdict) []headers.Show {
	shows := make([]headers.Show, len(v.Rules))
	for i, rule := range v.Rules {
		shows[i] = headers.Show{Name: rule.Name, Hidden: !v.Shown(i)}
	}
	return shows
}
