package testredis

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is a running cluster of masters without replicas.
type Cluster struct{ Nodes []*Server }

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
	const slots = 16384
	c := &Cluster{}
	var buses []string
	for i := range masters {
		bus, err := freeAddr()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(bus)
		buses = append(buses, port)
		node := Start(t, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 5000", "cluster-port "+port)
		node.Must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		c.Nodes = append(c.Nodes, node)
	}
	for i, node := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		c.Nodes[0].Must(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, node := range c.Nodes {
		deadline := time.After(patience)
		for {
			info := node.Must(t, "CLUSTER", "INFO")
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters)) {
				break
			}
			select {
			case <-deadline:
				t.Fatalf("testredis: the cluster did not form:\n%s", info)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return c
}
