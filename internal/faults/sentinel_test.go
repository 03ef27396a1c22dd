package faults

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// failover is what a store may say while there is no primary. What the old one
// had acknowledged and no replica had heard of is lost.
var failover = []string{"timeout", "unreachable", "readonly", "noreplicas", "masterdown", "loading"}

// another waits until the sentinels have another primary than the first. Sentinels
// that a busy machine kept from running for 2 s trust nobody for 30 s after it.
func another(t *testing.T, s *scene) {
	awaitFor(t, 3*time.Minute, "another primary", func() bool { return s.sentinel.Now(t) != s.servers[0] })
}

// promoted makes the clocks of the replicas show another time than the primary's
// and ends the primary.
func promoted(step time.Duration) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		for _, c := range s.sentinel.Clocks[1:] {
			c.Set(t, step)
		}
		s.servers[0].Kill()
	}
}

var sentinels = []fault{
	{name: "Sentinel: primary killed", kinds: failover, loses: some, begin: promoted(0), end: another},
	{name: "Sentinel: primary stopped, and back as a replica", kinds: failover, loses: some,
		begin: func(t *testing.T, s *scene) { must(t, s.servers[0].Pause()); another(t, s) },
		end:   func(t *testing.T, s *scene) { must(t, s.servers[0].Resume()) }},
	{name: "Sentinel: failover on demand", kinds: failover, loses: some,
		begin: func(t *testing.T, s *scene) {
			s.sentinel.Sentinels[0].Must(t, "SENTINEL", "FAILOVER", testredis.Primary)
			another(t, s)
		}},
	{name: "Sentinel: the new primary's clock is 1 h ahead", kinds: failover, loses: some, begin: promoted(time.Hour), end: another},
	{name: "Sentinel: the new primary's clock is 1 h behind", kinds: failover, loses: some, begin: promoted(-time.Hour), end: another},
	{name: "Sentinel: a sentinel is killed", patient: true, hold: either(time.Second, 5*time.Second),
		begin: func(_ *testing.T, s *scene) { s.sentinel.Sentinels[0].Kill() }},
}

// TestSentinel puts every fault on a primary, two replicas and three sentinels
// of its own.
func TestSentinel(t *testing.T) {
	for _, f := range fewer(sentinels, 0) {
		t.Run(label(f.name), func(t *testing.T) {
			t.Parallel()
			six := testredis.StartSentinel(t)
			during(t, f, &scene{url: six.URL(), servers: six.Servers, sentinel: six})
		})
	}
}
