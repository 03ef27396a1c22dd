package directory

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/policy"
)

// TestASwitchOutlivesAnotherOfTheSameMoment: who switches one rule does not take away
// what somebody else has just switched, where a switch of that rule had ended before.
func TestASwitchOutlivesAnotherOfTheSameMoment(t *testing.T) {
	server := testredis.Start(t)
	way := testredis.StartProxy(t, server.Addr)
	far, err := Open(way.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, redis := open(t, server, Options{}), operate(t, server)
	redis.do("HSET", "weir:modes", "login", `{"mode":"shadow","until":1,"by":"ann"}`)
	if _, err := far.Switches(t.Context()); err != nil { // connects
		t.Fatal(err)
	}
	way.Delay(200 * time.Millisecond)
	before, done := redis.calls("time"), make(chan error, 1)
	go func() {
		done <- far.SetSwitch(t.Context(), Switch{Rule: "search", Mode: policy.Shadow, Left: time.Hour, By: "ann"})
	}()
	until(t, func() string {
		if redis.calls("time") == before {
			return "it has not asked"
		}
		return ""
	})
	if err := near.SetSwitch(t.Context(), Switch{Rule: "login", Mode: policy.Shadow, Left: time.Hour, By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	list, err := near.Switches(t.Context())
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestASwitchLastsADayAtMost, whatever somebody wrote by hand.
func TestASwitchLastsADayAtMost(t *testing.T) {
	server := testredis.Start(t)
	d, redis := open(t, server, Options{}), operate(t, server)
	for _, until := range []string{"9999999999999", "9223372036854775807", "1764460800000000000"} {
		redis.do("HSET", "weir:modes", "login", `{"mode":"shadow","until":`+until+`,"by":"ann"}`)
		if list, err := d.Switches(t.Context()); err != nil || len(list) != 1 || list[0].Left != Longest {
			t.Errorf("%s: %+v, %v", until, list, err)
		}
	}
}

// TestASwitchFollowsTheName to the server that it leads to after a failover, though the
// one before still answers, as a replica.
func TestASwitchFollowsTheName(t *testing.T) {
	old, next := testredis.Start(t), testredis.Start(t)
	way := testredis.StartProxy(t, old.Addr)
	d, err := Open(way.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	host, _, _ := strings.Cut(next.Addr, ":")
	way.Lead(next.Addr)
	old.Must(t, "REPLICAOF", host, "1") // nobody is there: only that it refuses writes counts
	until(t, func() string {
		if err := d.SetSwitch(t.Context(), Switch{Rule: "login", Mode: policy.Shadow, Left: time.Hour}); err != nil {
			return err.Error()
		}
		return ""
	})
}
