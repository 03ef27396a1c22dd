package policyfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/policy"
)

// Regions says which regions share limits. It is off without a Name.
type Regions struct {
	Name     string           // this region's
	Peers    map[string]Store // the other regions and their stores; nothing of this region's own is used for them
	Interval time.Duration
	Lag      time.Duration
}

// String names the regions and never where they are.
func (r Regions) String() string { return r.Name }

// The defaults of Regions.
const (
	regionInterval = 200 * time.Millisecond
	regionLag      = 250 * time.Millisecond
	maxRegions     = 64
)

func (r *reader) regions(n *node, path string, f *File) {
	to := &f.Regions
	to.Interval, to.Lag = regionInterval, regionLag
	given := r.object(n, path, "regions", []field{
		{"name", func(n *node, path string) { to.Name = r.regionName(n, path) }},
		{"peers", func(n *node, path string) {
			to.Peers = map[string]Store{}
			r.entries(n, path, "peers", false, func(name string, k, v *node, path string) {
				if !isRegionName(name) {
					r.fail(k, "%q is no name of a region; use letters, digits, . _ and -", clip(name))
				}
				peer := Store{}
				if !isNull(v) {
					r.store(v, path, &peer)
				}
				if peer.URL == "memory" || isNull(v) {
					r.fail(v, "a peer needs the URL of its store, such as redis://10.2.0.5:6379/0")
				}
				to.Peers[name] = peer
			})
		}},
		{"interval", r.durationTo(&to.Interval, 10*time.Millisecond, 10*time.Second)},
		{"lag", r.durationTo(&to.Lag, time.Millisecond, 10*time.Second)},
	})
	switch _, own := to.Peers[to.Name]; {
	case !given:
		*to = Regions{}
		return
	case r.places[join(path, "name")] == place{}:
		r.fail(n, "regions needs name:, what this region is called")
	case len(to.Peers) == 0:
		r.fail(n, "regions needs peers:, the other regions and the URLs of their stores")
	case len(to.Peers) >= maxRegions:
		r.fail(n, "regions are at most %d", maxRegions)
	case own:
		r.fail(n, "%q is this region; peers names the others", clip(to.Name))
	}
	f.source.Regions = policy.Regions{Count: 1 + len(to.Peers), Interval: to.Interval, Lag: to.Lag}
}

func (r *reader) regionName(n *node, path string) string {
	s, ok := r.scalar(n, path)
	if ok && !isRegionName(s) {
		r.fail(n, "%q is no name of a region; use letters, digits, . _ and -", clip(s))
	}
	return s
}

func isRegionName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

func (r *reader) scope(n *node, path string) policy.Scope {
	word := r.word(n, path, policy.ScopeRegion.String(), policy.ScopeGlobal.String(), policy.ScopeShare.String())
	for _, s := range []policy.Scope{policy.ScopeGlobal, policy.ScopeShare} {
		if word == s.String() {
			return s
		}
	}
	return policy.ScopeRegion
}

// checkRegions finds limits that no regions share, and what does not go with
// regions.
func (r *reader) checkRegions(f *File) {
	at := func(field, format string, args ...any) {
		m := r.place(field)
		r.fail(&node{line: m.line, column: m.column}, format, args...)
	}
	if f.Regions.Name == "" {
		for i, rule := range f.Policy.Rules() {
			if rule.Scope != policy.ScopeRegion {
				at(fmt.Sprintf("limits[%d].scope", i), "scope: %s needs regions:, which says who the others are", rule.Scope)
			}
		}
		return
	}
	if f.MaxOvershoot > 0 {
		at("max_overshoot", "max_overshoot does not go with regions: units on loan would be told late")
	}
}
