package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"testing"
	"time"
)

// 50,000 keys a second that nobody has, from 1,000 networks, for 20 s.
func TestStrangersDoNotReachTheDirectory(t *testing.T) {
	var now time.Time
	d := &counter{known: idOf("k")}
	r, l := house(t, d, LookupOptions{Now: func() time.Time { return now }})
	resolve(t, r, withKey("k"))
	const seconds, perSecond, networks = 20, 50_000, 1000
	call := Call{Header: Fields{"X-Api-Key": {""}}}
	values := call.Header.(Fields)["X-Api-Key"]
	unresolved, mostUnknown, mostNetworks := 0, 0, 0
	for i := range seconds * perSecond {
		now = now.Add(time.Second / perSecond)
		values[0] = "stranger-" + strconv.Itoa(i)
		call.Peer = netip.AddrFrom4([4]byte{198, 18, byte(i % networks >> 8), byte(i % networks)})
		switch c := resolve(t, r, &call); c.Key {
		case KeyUnresolved:
			unresolved++
		case KeyUnknown:
		default:
			t.Fatalf("%+v", c)
		}
		if i%500 == 0 {
			if c := resolve(t, r, withKey("k")); !c.Known() {
				t.Fatalf("the known key: %+v", c)
			}
			mostUnknown = max(mostUnknown, l.Counts().Unknown)
			mostNetworks = max(mostNetworks, len(l.budget.networks))
		}
	}
	counts := l.Counts()
	t.Logf("%d strangers: %d looked up, %d not; at most %d unknown keys and %d networks kept", seconds*perSecond, d.strangers, unresolved, mostUnknown, mostNetworks)
	if limit := 500*seconds + 500; d.strangers > limit || d.strangers < 500*seconds {
		t.Errorf("%d look-ups; the budget is %d", d.strangers, limit)
	}
	if counts.Refused != uint64(unresolved) || mostUnknown > 1500 || mostNetworks > 2000 || counts.Known != 1 {
		t.Errorf("%+v, at most %d unknown and %d networks", counts, mostUnknown, mostNetworks)
	}
}

// counter is a directory of one key.
type counter struct {
	known     string
	strangers int
}

func (c *counter) APIKey(_ context.Context, id string) (KeyRecord, bool, error) {
	if id == c.known {
		return KeyRecord{}, true, nil
	}
	c.strangers++
	return KeyRecord{}, false, nil
}

func (c *counter) Tenant(context.Context, string) (TenantRecord, bool, error) {
	return TenantRecord{}, false, nil
}

func TestBudget(t *testing.T) {
	b := newBudget(5, 12)
	one, two := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	take := func(at time.Duration, network netip.Prefix, tries, want int) {
		t.Helper()
		got := 0
		for range tries {
			if b.take(int64(at), network) {
				got++
			}
		}
		if got != want {
			t.Errorf("%v at %v: %d of %d, want %d", network, at, got, tries, want)
		}
	}
	take(0, one, 100, 5)
	take(0, two, 100, 5)
	take(0, netip.Prefix{}, 100, 2) // the instance has no more
	take(199*time.Millisecond, one, 100, 0)
	take(200*time.Millisecond, one, 100, 1)
	take(200*time.Millisecond, two, 100, 1)
	take(time.Hour, one, 100, 5)
	take(time.Hour+time.Second, one, 100, 5)
	// Networks that come once are not kept.
	for i := range 10_000 {
		take(2*time.Hour+time.Duration(i)*100*time.Millisecond, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32), 1, 1)
		if len(b.networks) > 4*12 {
			t.Fatalf("%d networks kept", len(b.networks))
		}
	}
}

// Who sets a bound that is none is not answered by a panic.
func TestBudgetWithoutBound(t *testing.T) {
	b := newBudget(math.MaxInt, math.MaxInt)
	for i := range 3 {
		if !b.take(int64(i), netip.MustParsePrefix("192.0.2.0/24")) {
			t.Error("refused")
		}
	}
}

func TestKnownKeysAreBounded(t *testing.T) {
	var now time.Time
	keys := make(map[string]KeyRecord)
	for i := range 30 {
		keys[fmt.Sprint("k", i)] = KeyRecord{Tenant: fmt.Sprint("t", i)}
	}
	d := &ledger{keys: keys}
	r, l := house(t, d, LookupOptions{MaxKnown: 10, PerNetwork: 1000, PerInstance: 1000, Now: func() time.Time { return now }})
	for i := range 300 {
		now = now.Add(20 * time.Millisecond)
		if c := resolve(t, r, withKey(fmt.Sprint("k", i%30))); !c.Known() || c.Tenant != fmt.Sprint("t", i%30) {
			t.Fatalf("%+v", c)
		}
	}
	if n, m := l.Counts().Known, len(l.tenants.kept); n != 10 || m != 10 {
		t.Errorf("%d keys and %d tenants kept", n, m)
	}
	var bad *ConfigError
	if _, err := NewLookups(d, LookupOptions{MaxKnown: -1}); !errors.As(err, &bad) {
		t.Errorf("negative bound: %v", err)
	}
}
