package testredis

import (
	"bufio"
	"fmt"
	"io"
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
		node.must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		c.Nodes = append(c.Nodes, node)
	}
	for i, node := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		c.Nodes[0].must(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, node := range c.Nodes {
		deadline := time.After(patience)
		for {
			info := node.must(t, "CLUSTER", "INFO")
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

// must sends one command over a connection of its own and returns the reply, for
// commands that answer with a simple or a bulk string.
func (s *Server) must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.command(args...)
	if err != nil {
		t.Fatalf("testredis: %v: %v", args, err)
	}
	return reply
}

func (s *Server) command(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return "", fmt.Errorf("%s", line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", err
		}
		bulk := make([]byte, n)
		_, err = io.ReadFull(r, bulk)
		return string(bulk), err
	}
	return line, nil
}
