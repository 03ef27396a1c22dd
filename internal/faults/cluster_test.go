package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// nodeTimeout is how long a node of the cluster must be silent before the others
// vote for its replica.
const nodeTimeout = time.Second

// victim is the master that serves the key that firstPong writes.
func victim(t *testing.T, s *scene) *testredis.Server { return s.cluster.Owner(t, written) }

// reshard moves slots that are under load from one master to the next, key by
// key, and leaves each half moved for a while. Nobody may notice.
func reshard(t *testing.T, s *scene) {
	seen, several := make(map[int]bool), either(4, 16)
	if brief() {
		several = 1
	}
	for i, from := range s.cluster.Nodes[:3] {
		reply, err := from.Do("KEYS", "weir1:*=*")
		must(t, err)
		moved := 0
		for _, key := range reply.([]any) {
			slot, err := strconv.Atoi(from.Must(t, "CLUSTER", "KEYSLOT", fmt.Sprint(key)))
			must(t, err)
			if seen[slot] || moved == several {
				continue
			}
			seen[slot] = true
			moved++
			s.cluster.Move(t, slot, from, s.cluster.Nodes[(i+1)%3], func() { halfMoved(t, s) })
		}
		if moved == 0 {
			t.Error("no slot was moved")
		}
	}
}

// halfMoved leaves a slot half moved for a while: the first ones until a call met it
// that has some of its keys on either side, which not every slot has.
func halfMoved(t *testing.T, s *scene) {
	hold(20 * time.Millisecond)
	for range 30 {
		if brief() || said(t, s, "TRYAGAIN") > 0 {
			return
		}
		hold(10 * time.Millisecond)
	}
}

// redirected checks that the nodes did what a moving slot makes them do.
func redirected(t *testing.T, s *scene) {
	for _, word := range []string{"ASK", "TRYAGAIN", "MOVED"} {
		times := said(t, s, word)
		if t.Logf("%s: %d times", word, times); times == 0 && !brief() {
			t.Errorf("no node said %s", word)
		}
	}
}

// said returns how often the masters have said a word.
func said(t *testing.T, s *scene, word string) (times int) {
	for _, node := range s.cluster.Nodes[:3] {
		stats := node.Must(t, "INFO", "errorstats")
		if _, rest, ok := strings.Cut(stats, "errorstat_"+word+":count="); ok {
			rest, _, _ = strings.Cut(rest, "\r")
			n, err := strconv.Atoi(rest)
			must(t, err)
			times += n
		}
	}
	return times
}

var clusters = []fault{
	{name: "Cluster: slots under load move", patient: true, begin: reshard, end: redirected},
	{name: "Cluster: a master killed", kinds: clusterFailover, loses: some,
		begin: func(t *testing.T, s *scene) { victim(t, s).Kill() }},
	{name: "Cluster: a master stopped, and back as a replica", kinds: clusterFailover, loses: some,
		begin: func(t *testing.T, s *scene) {
			gone := victim(t, s)
			must(t, gone.Pause())
			await(t, "a replica is a master", func() bool { return s.promoted(t, gone) })
			s.stop = func() { must(t, gone.Resume()) }
		}, end: stop},
	{name: "Cluster: failover on demand", kinds: clusterFailover, loses: some, orderly: true,
		begin: func(t *testing.T, s *scene) {
			for i, master := range s.cluster.Nodes[:3] {
				if master == victim(t, s) {
					asked := time.Time{} // the nodes give it up after 5 s
					await(t, "the replica is a master", func() bool {
						if time.Since(asked) > 6*time.Second {
							asked = time.Now()
							s.cluster.Nodes[3+i].Must(t, "CLUSTER", "FAILOVER")
						}
						return s.promoted(t, master)
					})
					return
				}
			}
		}},
}

var clusterFailover = []string{"timeout", "unreachable", "clusterdown", "readonly"}

// promoted reports whether the replica of a master has taken its place.
func (s *scene) promoted(t *testing.T, of *testredis.Server) bool {
	for i, master := range s.cluster.Nodes[:3] {
		if master == of {
			role, err := s.cluster.Nodes[3+i].Do("ROLE")
			must(t, err)
			return role.([]any)[0] == "master"
		}
	}
	return false
}

// TestCluster puts every fault on three masters and their replicas of its own.
func TestCluster(t *testing.T) {
	for _, f := range fewer(clusters, 1) {
		t.Run(label(f.name), func(t *testing.T) {
			t.Parallel()
			six := testredis.StartReplicatedCluster(t, 3, nodeTimeout)
			during(t, f, &scene{url: six.URL(), servers: six.Nodes, cluster: six})
		})
	}
}
