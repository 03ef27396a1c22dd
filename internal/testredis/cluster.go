package testredis

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is a running cluster.
type Cluster struct{ Nodes []*Server } // masters first, then a replica of each, if there are any

// URL returns the cluster's store URL.
func (c *Cluster) URL() string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Addr)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// StartCluster runs masters redis-servers that share the slots evenly, waits
// until each knows all, and stops them when the test ends.
func StartCluster(t testing.TB, masters int) *Cluster {
	t.Helper()
	return startCluster(t, masters, 0, 5*time.Second)
}

// StartReplicatedCluster is StartCluster with a replica for each master. A node
// that is silent for timeout is thought gone.
func StartReplicatedCluster(t testing.TB, masters int, timeout time.Duration) *Cluster {
	t.Helper()
	c := startCluster(t, masters, masters, timeout)
	for i, replica := range c.Nodes[masters:] {
		replica.Must(t, "CLUSTER", "REPLICATE", c.Nodes[i].Must(t, "CLUSTER", "MYID"))
	}
	for i, replica := range c.Nodes[masters:] {
		eventually(t, "the replicas are in step", func() bool {
			return strings.Contains(replica.Must(t, "INFO", "replication"), "master_link_status:up") &&
				strings.Contains(c.Nodes[0].Must(t, "CLUSTER", "NODES"), "slave "+c.Nodes[i].Must(t, "CLUSTER", "MYID"))
		})
	}
	return c
}

const slots = 16384

func startCluster(t testing.TB, masters, others int, timeout time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{}
	var buses []string
	for i := range masters + others {
		port := strconv.Itoa(busPort(t))
		buses = append(buses, port)
		node := Start(t, "cluster-enabled yes", "cluster-config-file nodes.conf", "repl-diskless-sync-delay 0",
			fmt.Sprintf("cluster-node-timeout %d", timeout.Milliseconds()), "cluster-port "+port)
		if i < masters {
			node.Must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		}
		c.Nodes = append(c.Nodes, node)
	}
	for i, node := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		c.Nodes[0].Must(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, node := range c.Nodes {
		eventually(t, "the cluster forms", func() bool {
			info := node.Must(t, "CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters+others))
		})
	}
	return c
}

// busPort returns a free port outside of those that the system gives away, which
// another cluster could be given in between and be met by mistake.
func busPort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 12000 + rand.N(18000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("testredis: no free port for a cluster's bus")
	return 0
}

// Owner returns the node that serves the slot of key now.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	slot, err := strconv.Atoi(c.Nodes[0].Must(t, "CLUSTER", "KEYSLOT", key))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		for _, line := range strings.Split(node.Must(t, "CLUSTER", "NODES"), "\n") {
			if strings.Contains(line, "myself,master") && owns(strings.Fields(line)[8:], slot) {
				return node
			}
		}
	}
	t.Fatalf("testredis: nobody serves slot %d", slot)
	return nil
}

func owns(ranges []string, slot int) bool {
	for _, r := range ranges {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && first <= slot && slot <= last {
			return true
		}
	}
	return false
}

// Move moves a slot from one node to another in the way redis-cli does, and calls
// between before each key goes: then the slot is on neither node whole.
func (c *Cluster) Move(t testing.TB, slot int, from, to *Server, between func()) {
	t.Helper()
	n := strconv.Itoa(slot)
	source, target := from.Must(t, "CLUSTER", "MYID"), to.Must(t, "CLUSTER", "MYID")
	to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", source)
	from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		reply, err := from.Do("CLUSTER", "GETKEYSINSLOT", n, "1")
		if err != nil {
			t.Fatal(err)
		}
		between()
		keys := reply.([]any)
		if len(keys) == 0 {
			break
		}
		from.Must(t, "MIGRATE", host, port, fmt.Sprint(keys[0]), "0", "5000")
	}
	to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", target)
	from.Must(t, "CLUSTER", "SETSLOT", n, "NODE", target)
}
