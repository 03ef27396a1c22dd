package faults

import (
	"strconv"
	"strings"
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
// and ends the primary, once the replicas live by that time: one that loses its
// primary by the old time and is asked since when by the new says that it has been
// alone for the length of the step, and no sentinel promotes that one.
func promoted(step time.Duration) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		for i, c := range s.sentinel.Clocks[1:] {
			c.Set(t, step)
			awaitFor(t, time.Minute, "a replica lives by its clock", func() bool {
				return within(s.servers[1+i].Must(t, "INFO", "server"), time.Now().Add(step), time.Minute)
			})
		}
		s.servers[0].Kill()
	}
}

// within reports whether the time that a server works with is t, give or take by.
func within(info string, t time.Time, by time.Duration) bool {
	_, rest, found := strings.Cut(info, "server_time_usec:")
	text, _, _ := strings.Cut(rest, "\r\n")
	us, err := strconv.ParseInt(text, 10, 64)
	return found && err == nil && time.UnixMicro(us).Sub(t).Abs() < by
}

var sentinels = []fault{
	{name: "Sentinel: primary killed", kinds: failover, loses: some, begin: promoted(0), end: another},
	{name: "Sentinel: primary stopped, and back as a replica", kinds: failover, loses: some,
		begin: func(t *testing.T, s *scene) { must(t, s.servers[0].Pause()); another(t, s) },
		end:   func(t *testing.T, s *scene) { must(t, s.servers[0].Resume()) }},
	{name: "Sentinel: failover on demand", kinds: failover, loses: some, orderly: true,
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
