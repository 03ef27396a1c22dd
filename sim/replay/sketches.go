package replay

import (
	"strings"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// sketches keeps what the policy says of the requests of a log by method, host
// and path. A log whose requests are all different is better off without, which
// is found out.
type sketches struct {
	gate         *gate.Gate
	known        map[target]*policy.Sketch
	hits, misses int
	off          bool
}

type target struct{ method, host, path string }

const maxSketches = 1 << 13

func newSketches(g *gate.Gate) *sketches {
	return &sketches{gate: g, known: map[target]*policy.Sketch{}}
}

// of returns the sketch of a request, or nil.
func (s *sketches) of(r *accesslog.Record) *policy.Sketch {
	if s.off {
		return nil
	}
	at := target{r.Method, r.Host, r.Path}
	if sketch, ok := s.known[at]; ok {
		s.hits++
		return sketch
	}
	if s.misses++; len(s.known) == maxSketches {
		s.off = s.hits < s.misses
		s.hits, s.misses = 0, 0
		clear(s.known)
	}
	at = target{strings.Clone(r.Method), strings.Clone(r.Host), strings.Clone(r.Path)}
	sketch := s.gate.Sketch(&identity.Call{Method: at.method, Host: at.host, Path: at.path})
	s.known[at] = sketch
	return sketch
}
