package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/redisconn"
)

// Which node of a cluster serves which group of keys. Decisions do not need it:
// the client finds the node of a key. It is for what is to be done once a node.

const slots = 16384

// slotOf returns the slot of a group: its number stands between the braces, so it
// alone is hashed.
func slotOf(group int) int { return int(crc16(strconv.Itoa(group))) % slots }

// crc16 is the one of Redis Cluster (XMODEM).
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// owners returns the address of the primary of every group, "" where none is.
func (s *Store) owners(ctx context.Context) (owners [groups]string, err error) {
	c, ok := s.scripter.(connScripter)
	if !ok {
		return owners, errors.New("the client of a cluster is our own")
	}
	client, err := c.conn.Client()
	if err != nil {
		return owners, err
	}
	ranges, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return owners, err
	}
	var serves [slots]string
	for i := range ranges {
		if err := fillRange(&serves, &ranges[i]); err != nil {
			return owners, err
		}
	}
	for g := range owners {
		owners[g] = serves[slotOf(g)]
	}
	return owners, nil
}

// fillRange reads one entry of CLUSTER SLOTS: first, last, then the primary as
// host, port and more.
func fillRange(serves *[slots]string, entry *rueidis.RedisMessage) error {
	fields, err := entry.ToArray()
	if err != nil || len(fields) < 3 {
		return errors.Join(errReply, err)
	}
	first, err1 := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	primary, err3 := fields[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if first < 0 || last >= slots || len(primary) < 2 {
		return errReply
	}
	host, _ := primary[0].ToString() // null where the node does not know its own
	port, err := primary[1].AsInt64()
	if err != nil {
		return err
	}
	for slot := first; slot <= last; slot++ {
		serves[slot] = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	}
	return nil
}

// sentinel reports whether the server is found through Sentinel.
func (s *Store) sentinel() bool {
	c, ok := s.scripter.(connScripter)
	return ok && c.conn.Topology() == redisconn.Sentinel
}
