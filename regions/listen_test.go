package regions

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// closed is a service that reads no more, and a client for it at its server.
func closed(t *testing.T) (*Service, *testredis.Server, rueidis.Client) {
	t.Helper()
	server := testredis.Start(t)
	s := startService(t, "eu", server, map[string]string{"us": server.URL()}, nil)
	await(t, "the group is there", func() bool {
		reply, err := server.Do("EXISTS", s.key("in"))
		return err == nil && reply == int64(1)
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, server, client
}

// TestALetterIsDoneWithOnce: one that cannot be taken out of the stream stays somebody's
// to finish, and takes up no room when it is finished.
func TestALetterIsDoneWithOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, server, client := closed(t)
	server.Must(t, "XADD", s.key("in"), "1-1", "f", "us", "k", s.o.Store.Fingerprint(), "b", string(encode(nil)))
	server.Must(t, "ACL", "SETUSER", "default", "-xdel")
	if s.read(ctx, client) == nil {
		t.Fatal("a letter that cannot be taken out is no error")
	}
	if pending := server.Must(t, "XPENDING", s.key("in"), group, "-", "+", "9"); !strings.Contains(pending, "1-1") {
		t.Errorf("nobody will finish the letter: %q", pending)
	}
	server.Must(t, "ACL", "SETUSER", "default", "+xdel")
	if err := s.hearAll(ctx, client, []rueidis.XRangeEntry{{ID: "1-1", FieldValues: map[string]string{"f": "us"}}}); err != nil {
		t.Fatal(err)
	}
	if n := server.Must(t, "XLEN", s.key("in")); n != "0" {
		t.Errorf("%s letters are left", n)
	}
	if pending := server.Must(t, "XPENDING", s.key("in"), group, "-", "+", "9"); strings.Contains(pending, "1-1") {
		t.Errorf("the letter is to be finished once more: %q", pending)
	}
}

// TestAStoreThatDebitsNothing is not a stream that cannot be read; letters stay, and the
// fault is over when they are heard.
func TestAStoreThatDebitsNothing(t *testing.T) {
	t.Parallel()
	server, faults := testredis.Start(t), &lines{}
	s := startService(t, "eu", server, map[string]string{"us": testredis.Start(t).URL()}, faults)
	s.faults.mu.Lock()
	s.faults.calm = 0
	s.faults.mu.Unlock()
	server.Must(t, "ACL", "SETUSER", "default", "resetkeys", "~"+s.key("*"))
	c := weir.PerMinute(1000).Charge("k")
	q := c.Limit.Quota()
	taken := s.o.Store.Consumed(&c, &q, &algo.View{}, 1)
	taken.Incarnation = "us"
	letter := string(encode([]redisstore.Consumption{taken}))
	server.Must(t, "XADD", s.key("in"), "*", "f", "us", "k", s.o.Store.Fingerprint(), "b", letter)
	await(t, "it is told", func() bool { return faults.count(undebitable) == 1 })
	if n := server.Must(t, "XLEN", s.key("in")); n != "1" {
		t.Errorf("%s letters are left of one that was not heard", n)
	}
	server.Must(t, "ACL", "SETUSER", "default", "allkeys")
	await(t, "it is heard", func() bool { return s.Stats().Debited == 1 })
	await(t, "the fault is over", func() bool { return faults.count(undebitable+": <nil>") == 1 })
	if faults.count(unreadable) > 0 {
		t.Errorf("the stream is blamed: %q", faults.all)
	}
}

// TestWhatWasLeftIsTakenOverAtOnce: letters that an instance took and did not finish, as
// when its store was away for long, wait for another, and not for a beat for each batch.
func TestWhatWasLeftIsTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	s, server, _ := closed(t)
	const letters = 2000
	left := []string{"XCLAIM", s.key("in"), group, "gone", "0"}
	for i := range letters {
		id := strconv.Itoa(i+1) + "-1"
		server.Must(t, "XADD", s.key("in"), id, "f", "us", "k", s.o.Store.Fingerprint(), "b", string(encode(nil)))
		left = append(left, id)
	}
	server.Must(t, "XREADGROUP", "GROUP", group, "gone", "COUNT", strconv.Itoa(letters), "STREAMS", s.key("in"), ">")
	server.Must(t, append(left, "IDLE", "60000", "JUSTID")...)
	startService(t, "eu", server, map[string]string{"us": server.URL()}, nil)
	await(t, "all are finished", func() bool { return server.Must(t, "XLEN", s.key("in")) == "0" })
}
