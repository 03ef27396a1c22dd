package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// Instances find each other, and miss one that has left or died.
func TestInstancesAreCounted(t *testing.T) {
	server := testredis.Start(t)
	one, two := open(t, server, redisstore.Options{}), open(t, server, redisstore.Options{})
	other := open(t, server, redisstore.Options{Prefix: "other"}).store.Heartbeats()
	defer other.Close()
	a := one.store.Heartbeats()
	defer a.Close()
	b := two.store.Heartbeats()
	until(t, "both count two", func() bool { return a.Instances() == 2 && b.Instances() == 2 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "one is left", func() bool { return a.Instances() == 1 })
	one.do("ZADD", "weir1:{instances}", "9999999999999999", "another")
	until(t, "another is seen", func() bool { return a.Instances() == 2 })
	one.do("ZADD", "weir1:{instances}", "1", "another")
	until(t, "a dead one is not", func() bool { return a.Instances() == 1 })
	if other.Instances() != 1 {
		t.Errorf("another deployment counts %d", other.Instances())
	}
}

// A limit that answers an outage with its share is divided by those who were
// alive when it began.
func TestAShareIsOfTheInstancesAlive(t *testing.T) {
	server := testredis.Start(t)
	store, err := redisstore.Open(server.URL(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	beats := store.Heartbeats()
	defer beats.Close()
	second := open(t, server, redisstore.Options{}).store.Heartbeats()
	defer second.Close()
	until(t, "both are counted", func() bool { return beats.Instances() == 2 })
	l, err := weir.New(weir.Options{Store: store, Instances: beats.Instances})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server.Kill()
	var admitted int
	until(t, "the outage is answered", func() bool {
		d, err := l.Allow(context.Background(), "warm", weir.PerSecond(1e6))
		return err == nil && d.Source == "local"
	})
	for range 10 {
		d, err := l.Allow(context.Background(), "k", weir.Per(6, time.Hour).OnFailure(weir.Share))
		if err != nil || d.Limit != 3 {
			t.Errorf("%+v %v, want a limit of 3", d, err)
		}
		if d.Allowed {
			admitted++
		}
	}
	if admitted != 3 {
		t.Errorf("%d admitted, want half of 6", admitted)
	}
}

func TestASecretIsCommonToAPrefix(t *testing.T) {
	server := testredis.Start(t)
	ctx := context.Background()
	var got [][]byte
	for _, prefix := range []string{"a", "a", "b"} {
		secret, err := open(t, server, redisstore.Options{Prefix: prefix}).store.Common(ctx, "receipts")
		if err != nil || len(secret) != 32 {
			t.Fatal(len(secret), err)
		}
		got = append(got, secret)
	}
	if !bytes.Equal(got[0], got[1]) || bytes.Equal(got[0], got[2]) {
		t.Error("secrets must be the same on one prefix and differ between two")
	}
}

// A batch larger than a flight is decided in its order.
func TestALargeBatchKeepsItsOrder(t *testing.T) {
	h := open(t, testredis.Start(t), redisstore.Options{})
	limit := weir.Per(10, time.Hour)
	var bills []*weir.Bill
	for range 1000 {
		bills = append(bills, bill(limit.Charge("k")))
	}
	h.decide(bills...)
	for i, b := range bills {
		if b.Err != nil || b.Allowed != (i < 10) {
			t.Fatalf("bill %d: %+v %v", i, b.Decision, b.Err)
		}
	}
}

// While the breaker refuses, what instances have in common is not asked for
// either: the answer is the breaker's, even to a caller that could not wait.
func TestTheBreakerRefusesWhatIsCommon(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{Timeout: 100 * time.Millisecond})
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	until(t, "the breaker refuses", func() bool {
		h.allow("k", weir.PerSecond(1))
		return !h.store.Health().Up
	})
	ended, end := context.WithCancel(context.Background())
	end()
	var se *weir.StoreError
	if _, err := h.store.Common(ended, "receipts"); !errors.As(err, &se) || se.Kind == "canceled" {
		t.Errorf("%v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "it admits", func() bool { _, err := h.store.Common(context.Background(), "receipts"); return err == nil })
}
