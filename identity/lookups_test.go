package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ledger is a Directory that keeps its records in maps, counts what it is asked,
// and may be slow or out.
type ledger struct {
	mu      sync.Mutex
	keys    map[string]KeyRecord // by the key itself
	tenants map[string]TenantRecord
	delay   time.Duration
	err     error
	asked   []string
}

func (l *ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *ledger) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

func (l *ledger) wait(ctx context.Context, question string) error {
	l.mu.Lock()
	l.asked = append(l.asked, question)
	delay, err := l.delay, l.err
	l.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (l *ledger) APIKey(ctx context.Context, id string) (KeyRecord, bool, error) {
	if err := l.wait(ctx, "key "+id); err != nil {
		return KeyRecord{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, record := range l.keys {
		if idOf(key) == id {
			return record, true, nil
		}
	}
	return KeyRecord{}, false, nil
}

func (l *ledger) Tenant(ctx context.Context, id string) (TenantRecord, bool, error) {
	if err := l.wait(ctx, "tenant "+id); err != nil {
		return TenantRecord{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	record, ok := l.tenants[id]
	return record, ok, nil
}

func idOf(key string) string {
	sum := hashKey(key)
	return hex.EncodeToString(sum[:])
}

func lookups(t testing.TB, d Directory, o LookupOptions) *Lookups {
	t.Helper()
	l, err := NewLookups(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func withKey(key string) *Call {
	return &Call{Peer: netip.MustParseAddr("192.0.2.1"), Header: Fields{"X-Api-Key": {key}}}
}

func resolve(t testing.TB, r *Resolver, call *Call) Caller {
	t.Helper()
	c, err := r.Resolve(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// house makes a resolver whose keys are all in the directory.
func house(t testing.TB, d Directory, o LookupOptions) (*Resolver, *Lookups) {
	t.Helper()
	l := lookups(t, d, o)
	return resolver(t, Config{APIKeys: APIKeys{Header: "X-API-Key", Lookups: l}}), l
}

// pass lets virtual time go by; it is called in bubbles alone.
func pass(d time.Duration) { <-time.After(d) }

func TestAnswersAreCachedAndChangesSeenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &ledger{keys: map[string]KeyRecord{"k": {Tenant: "acme"}}, tenants: map[string]TenantRecord{"acme": {Plan: "pro", Limits: map[string]string{"r": "1/s"}}}}
		r, _ := house(t, d, LookupOptions{})
		// Asked without a pause, so that no question is ever the first in a while.
		for range 100 {
			c := resolve(t, r, withKey("k"))
			if c.Key != KeyKnown || c.APIKey != idOf("k") || c.Tenant != "acme" || c.Plan != "pro" || c.Limits["r"] != "1/s" {
				t.Fatalf("%+v", c)
			}
		}
		if n := d.questions(); n != 2 {
			t.Errorf("%d questions for 100 requests, want one for the key and one for the tenant", n)
		}
		within := func(what string, change func(), seen func(Caller) bool) {
			t.Helper()
			d.set(change)
			begin := time.Now()
			for !seen(resolve(t, r, withKey("k"))) {
				if pass(10 * time.Millisecond); time.Since(begin) > time.Second {
					t.Fatalf("%s: not in force after a second", what)
				}
			}
			t.Logf("%s: in force after %v", what, time.Since(begin))
		}
		within("another plan", func() { d.tenants["acme"] = TenantRecord{Plan: "free"} }, func(c Caller) bool { return c.Plan == "free" && c.Limits == nil })
		within("disabled", func() { d.keys["k"] = KeyRecord{Tenant: "acme", Disabled: true} }, func(c Caller) bool { return c.Disabled() && c.Tenant == "acme" })
		within("revoked", func() { delete(d.keys, "k") }, func(c Caller) bool { return c.Key == KeyUnknown && c.APIKey == "" && c.Tenant == "" })
		within("given again", func() { d.keys["k"] = KeyRecord{} }, func(c Caller) bool { return c.Known() && c.Plan == "" })
		within("tenant gone", func() { d.keys["k"] = KeyRecord{Tenant: "acme"}; d.tenants = nil }, func(c Caller) bool { return c.Tenant == "acme" && c.Plan == "" })
	})
}

func TestOneAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &ledger{keys: map[string]KeyRecord{"k": {}}, delay: 20 * time.Millisecond}
		r, _ := house(t, d, LookupOptions{})
		crowd := func(want time.Duration) {
			t.Helper()
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					begin := time.Now()
					if c := resolve(t, r, withKey("k")); !c.Known() || time.Since(begin) > want {
						t.Errorf("%v after %v", c.Key, time.Since(begin))
					}
				})
			}
			wg.Wait()
		}
		crowd(20 * time.Millisecond)
		if n := d.questions(); n != 1 {
			t.Fatalf("%d questions, want 1", n)
		}
		// When it is time to ask again one does, and the rest are served meanwhile.
		pass(600 * time.Millisecond)
		asking := make(chan struct{})
		go func() { defer close(asking); resolve(t, r, withKey("k")) }()
		synctest.Wait()
		crowd(0)
		<-asking
		if n := d.questions(); n != 2 {
			t.Errorf("%d questions, want 2", n)
		}
	})
}

// What is known is served while somebody asks, but no longer than a change may
// take to be in force.
func TestServedWhileAskedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &ledger{keys: map[string]KeyRecord{"k": {}}}
		r, _ := house(t, d, LookupOptions{Timeout: time.Minute})
		resolve(t, r, withKey("k"))
		begin := time.Now()
		d.set(func() { d.delay = 10 * time.Second; d.keys["k"] = KeyRecord{Disabled: true} })
		pass(600 * time.Millisecond)
		asking := make(chan Caller)
		go func() { asking <- resolve(t, r, withKey("k")) }()
		pass(299 * time.Millisecond)
		if c := resolve(t, r, withKey("k")); !c.Known() || time.Since(begin) != 899*time.Millisecond {
			t.Errorf("%v after %v", c.Key, time.Since(begin))
		}
		pass(time.Millisecond)
		if c := resolve(t, r, withKey("k")); !c.Disabled() || time.Since(begin) != 10600*time.Millisecond {
			t.Errorf("%v after %v", c.Key, time.Since(begin))
		}
		if c := <-asking; !c.Disabled() {
			t.Errorf("who asked: %v", c.Key)
		}
	})
}

func TestUnknownKeysAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &ledger{keys: map[string]KeyRecord{"k": {}}}
		r, l := house(t, d, LookupOptions{})
		ask := func(key string, want KeyState, questions int) {
			t.Helper()
			if c := resolve(t, r, withKey(key)); c.Key != want || d.questions() != questions {
				t.Errorf("%s at %v: %v after %d questions, want %v after %d", key, l.clock(), c.Key, d.questions(), want, questions)
			}
		}
		ask("x", KeyUnknown, 1)
		ask("x", KeyUnknown, 1)
		pass(450 * time.Millisecond)
		ask("y", KeyUnknown, 2)
		pass(150 * time.Millisecond)
		ask("z", KeyUnknown, 3) // a new generation
		ask("y", KeyUnknown, 3)
		ask("x", KeyUnknown, 4) // its time was up
		// A key that was known and is nobody's any more is as any other unknown
		// key, also when the directory is out.
		ask("k", KeyKnown, 5)
		pass(time.Second)
		d.set(func() { delete(d.keys, "k") })
		ask("k", KeyUnknown, 6)
		ask("k", KeyUnknown, 6)
		pass(time.Second)
		d.set(func() { d.err = errors.New("out") })
		ask("k", KeyUnresolved, 7)
	})
}

func TestHangingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &ledger{keys: map[string]KeyRecord{"k": {}}, delay: 20 * time.Millisecond}
		r, _ := house(t, d, LookupOptions{})
		ask := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				c, err := r.Resolve(ctx, withKey("k"))
				if err == nil && !c.Known() {
					err = fmt.Errorf("key %v", c.Key)
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first, hangUp := context.WithCancel(t.Context())
		asking := ask(first)
		second, hangUpToo := context.WithCancel(t.Context())
		leaving, waiting := ask(second), ask(t.Context())
		hangUp()
		hangUpToo()
		if err := <-leaving; !errors.Is(err, context.Canceled) {
			t.Errorf("who waits and hangs up: %v", err)
		}
		if err := <-waiting; err != nil {
			t.Errorf("who waits for one that hung up: %v", err)
		}
		<-asking
		if n := d.questions(); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestDirectoryIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		d := &ledger{keys: map[string]KeyRecord{"k": {Tenant: "acme"}}, tenants: map[string]TenantRecord{"acme": {Plan: "pro"}}}
		l := lookups(t, d, LookupOptions{OnError: func(error) { heard++ }})
		r := resolver(t, Config{
			Tenants: map[string]TenantRecord{"filed": {Plan: "free"}},
			APIKeys: APIKeys{Header: "X-API-Key", Lookups: l, Keys: map[string]KeyRecord{"listed": {Tenant: "filed"}}},
		})
		resolve(t, r, withKey("k"))
		d.set(func() { d.err = errors.New("out"); d.asked = nil })
		for range 6000 { // ten minutes
			pass(100 * time.Millisecond)
			if c := resolve(t, r, withKey("k")); !c.Known() || c.Tenant != "acme" || c.Plan != "pro" {
				t.Fatalf("a known key: %+v", c)
			}
			if c := resolve(t, r, withKey("listed")); !c.Known() || c.Tenant != "filed" || c.Plan != "free" {
				t.Fatalf("a listed key: %+v", c)
			}
		}
		// Four things are asked about, each at most every 250 ms.
		if n := d.questions(); n > 4*4*600 || n < 4*600 {
			t.Errorf("%d questions in ten minutes", n)
		}
		if c := resolve(t, r, withKey("new")); c.Key != KeyUnresolved || c.APIKey != "" {
			t.Errorf("a key never seen: %+v", c)
		}
		counts := l.Counts()
		if counts.Failed != uint64(d.questions()) || heard != int(counts.Failed) {
			t.Errorf("%+v, %d questions, %d heard", counts, d.questions(), heard)
		}
		d.set(func() { d.err = nil; d.keys["k"] = KeyRecord{Disabled: true} })
		pass(pauseFor)
		if c := resolve(t, r, withKey("k")); !c.Disabled() {
			t.Errorf("when it is back: %+v", c)
		}
		pass(time.Second)
		// One that does not answer is one that is out.
		d.set(func() { d.delay = time.Hour })
		begin := time.Now()
		if c := resolve(t, r, withKey("k")); !c.Disabled() || time.Since(begin) != 50*time.Millisecond {
			t.Errorf("a slow one: %+v after %v", c, time.Since(begin))
		}
		if c := resolve(t, r, withKey("k")); !c.Disabled() || time.Since(begin) != 50*time.Millisecond {
			t.Errorf("a slow one, asked again: %+v after %v", c, time.Since(begin))
		}
	})
}

type thrower struct{ Directory }

func (thrower) APIKey(context.Context, string) (KeyRecord, bool, error) { panic("thrown") }

// A directory that panics does so once for each who asks, and nobody waits for
// an answer that never comes.
func TestDirectoryPanics(t *testing.T) {
	r, l := house(t, thrower{}, LookupOptions{})
	for range 3 {
		func() {
			defer func() {
				if recover() != "thrown" {
					t.Error("the panic was swallowed")
				}
			}()
			resolve(t, r, withKey("k"))
		}()
	}
	if c := l.Counts(); c.Failed != 3 || c.Known != 0 {
		t.Errorf("%+v", c)
	}
}

// Where the directory is for tenants alone, keys are those of the file, and
// strangers are unknown without a question.
func TestTenantsOnly(t *testing.T) {
	d := &ledger{keys: map[string]KeyRecord{"k-elsewhere": {Tenant: "beta"}}, tenants: map[string]TenantRecord{"acme": {Plan: "pro"}}}
	r := resolver(t, Config{APIKeys: APIKeys{
		Header: "X-API-Key", Keys: map[string]KeyRecord{"k-acme": {Tenant: "acme"}}, Lookups: lookups(t, d, LookupOptions{}), TenantsOnly: true,
	}})
	if c := resolve(t, r, withKey("k-elsewhere")); c.Key != KeyUnknown || d.questions() != 0 {
		t.Errorf("a key of the directory: %+v after %q", c, d.asked)
	}
	if c := resolve(t, r, withKey("k-acme")); c.Plan != "pro" || d.questions() != 1 {
		t.Errorf("a key of the file: %+v after %q", c, d.asked)
	}
}
