package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// patient is a time limit that a busy machine cannot run into.
const patient = 10 * time.Second

var everyAlgorithm = []weir.Limit{
	weir.Per(10, time.Hour),
	weir.Per(10, time.Hour).Using(algo.FixedWindow),
	weir.Per(10, time.Hour).Using(algo.SlidingLog),
	weir.Per(10, time.Hour).Using(algo.SlidingWindow),
	weir.Per(10, time.Hour).Using(algo.LeakyBucket).Burst(9),
}

// house is a limiter on a real server, and a raw client beside it.
type house struct {
	*weir.Limiter
	store *redisstore.Store
	raw   rueidis.Client
	t     *testing.T
}

func open(t *testing.T, server *testredis.Server, o redisstore.Options) *house {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	store, err := redisstore.Open(server.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &house{l, store, rawClient(t, server).raw, t}
}

// rawClient is a house without a limiter.
func rawClient(t *testing.T, server *testredis.Server) *house {
	t.Helper()
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return &house{raw: raw, t: t}
}

// do sends a raw command and returns its reply as text.
func (h *house) do(args ...string) string {
	h.t.Helper()
	v, err := h.raw.Do(context.Background(), h.raw.B().Arbitrary(args...).Build()).ToAny()
	if err != nil && !rueidis.IsRedisNil(err) {
		h.t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(v)
}

// keys returns every stored key that holds part.
func (h *house) keys(part string) (found []string) {
	h.t.Helper()
	all, err := h.raw.Do(context.Background(), h.raw.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, k := range all {
		if strings.Contains(k, part) {
			found = append(found, k)
		}
	}
	return found
}

// pttl returns a key's time to live in milliseconds.
func pttl(h *house, key string) (ms int64) {
	h.t.Helper()
	if _, err := fmt.Sscan(h.do("PTTL", key), &ms); err != nil {
		h.t.Fatal(err)
	}
	return ms
}

func (h *house) decide(bills ...*weir.Bill) {
	h.t.Helper()
	if err := h.Decide(context.Background(), bills...); err != nil {
		h.t.Fatal(err)
	}
}

func bill(charges ...weir.Charge) *weir.Bill { return &weir.Bill{Charges: charges} }

// remaining peeks.
func (h *house) remaining(l weir.Limit, key string) int64 {
	h.t.Helper()
	d, err := h.Peek(context.Background(), l.Charge(key))
	if err != nil {
		h.t.Fatal(err)
	}
	if d.Source != "redis" {
		h.t.Fatalf("%s was not decided by redis", key)
	}
	return d.Remaining
}

// One flight carries bills on a key of a wrong type, on a state that does not
// parse, and on good keys. The bad ones fail by themselves, are not overwritten,
// and charge nothing elsewhere; their neighbours are decided as if alone.
func TestABadStateIsItsOwnBillsErrorOnly(t *testing.T) {
	server := testredis.Start(t)
	for _, limit := range everyAlgorithm {
		t.Run(limit.Kind().String(), func(t *testing.T) {
			h := open(t, server, redisstore.Options{})
			h.do("FLUSHALL")
			for _, key := range []string{"list", "garbage", "short"} {
				h.decide(bill(limit.Charge(key)))
			}
			list, garbage, short := h.keys("=list")[0], h.keys("=garbage")[0], h.keys("=short")[0]
			h.do("DEL", list)
			h.do("RPUSH", list, "x")
			h.do("SET", garbage, "not a state", "PX", "600000")
			h.do("SETRANGE", short, "0", "?")

			good, pair, onList, onGarbage, onShort := bill(limit.Charge("good")), bill(limit.Charge("a"), limit.Charge("b")),
				bill(limit.Charge("list")), bill(limit.Charge("garbage")), bill(limit.Charge("c"), limit.Charge("short"))
			h.decide(onList, good, onGarbage, pair, onShort)

			for name, b := range map[string]*weir.Bill{"good": good, "pair": pair} {
				if b.Err != nil || !b.Allowed || b.Remaining != 9 || b.Source != "redis" {
					t.Errorf("%s: %+v %v, want admitted by redis with 9 left", name, b.Decision, b.Err)
				}
			}
			for kind, bills := range map[string][]*weir.Bill{"wrong_type": {onList}, "bad_state": {onGarbage, onShort}} {
				for _, b := range bills {
					var se *weir.StoreError
					if !errors.As(b.Err, &se) || se.Kind != kind {
						t.Errorf("bill on a bad key: %v, want %s", b.Err, kind)
					}
					if se != nil && strings.Contains(se.Error(), "list") {
						t.Errorf("the error %q names the key", se)
					}
				}
			}
			if got := h.remaining(limit, "c"); got != 10 {
				t.Errorf("c has %d left, want 10: its bill failed and must not be charged in part", got)
			}
			for _, key := range []string{"list", "garbage", "short"} {
				if h.Reset(context.Background(), limit.Charge(key)) == nil || h.Block(context.Background(), time.Minute, limit.Charge(key)) == nil {
					t.Errorf("%s was reset or blocked", key)
				}
			}
			if got := h.do("TYPE", list) + h.do("GET", garbage); got != "listnot a state" {
				t.Errorf("bad keys became %q: they must not be overwritten", got)
			}
		})
	}
}

// A server at maxmemory: by its flags the script may still write its few bytes,
// on Redis 7 and later, so limiting goes on.
func TestAServerAtMaxmemoryStillLimits(t *testing.T) {
	server := testredis.Start(t, "maxmemory 1", "maxmemory-policy noeviction")
	h := open(t, server, redisstore.Options{})
	limit := weir.Per(3, time.Hour)
	var allowed int
	for range 5 {
		b := bill(limit.Charge("k"), weir.Per(100, time.Hour).Charge("other"))
		h.decide(b)
		if b.Err != nil {
			t.Fatal(b.Err)
		}
		if b.Allowed {
			allowed++
		}
	}
	if allowed != 3 || h.remaining(weir.Per(100, time.Hour), "other") != 97 {
		t.Errorf("%d admitted and %d left, want 3 and 97", allowed, h.remaining(weir.Per(100, time.Hour), "other"))
	}
}

// Where the server refuses writes (here: too few replicas), bills that would be
// charged get the error, denials and peeks of the same flight stand, and nobody
// is charged.
func TestARefusedWriteChargesNobody(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	limit := weir.Per(2, time.Hour)
	h.decide(bill(limit.Charge("spent")), bill(limit.Charge("spent")))
	h.do("CONFIG", "SET", "min-replicas-to-write", "1")

	denied, charged, pair := bill(limit.Charge("spent")), bill(limit.Charge("fresh")), bill(limit.Charge("p"), limit.Charge("q"))
	peek := bill(limit.Charge("fresh"))
	peek.Verb = algo.Peek
	h.decide(charged, denied, pair, peek)
	if denied.Err != nil || denied.Allowed || denied.Source != "redis" {
		t.Errorf("a denial: %+v %v, want it to stand", denied.Decision, denied.Err)
	}
	if peek.Err != nil || !peek.Allowed {
		t.Errorf("a peek: %+v %v, want it to stand", peek.Decision, peek.Err)
	}
	for _, b := range []*weir.Bill{charged, pair} {
		var se *weir.StoreError
		if !errors.As(b.Err, &se) || se.Kind != "noreplicas" {
			t.Errorf("a bill that would be charged: %v, want noreplicas", b.Err)
		}
		if b.Source != "local" || !b.Allowed {
			t.Errorf("its answer: %+v, want one from local memory", b.Decision)
		}
	}
	h.do("CONFIG", "SET", "min-replicas-to-write", "0")
	for _, key := range []string{"fresh", "p", "q"} {
		if got := h.remaining(limit, key); got != 2 {
			t.Errorf("%s has %d left, want 2: nothing was written", key, got)
		}
	}
}

// After SCRIPT FLUSH, with many callers at once and every verb, everything goes
// on; the text is sent again and not once per call.
func TestTheScriptIsSentAgainWhenTheServerForgotIt(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	limit := weir.Per(1000, time.Hour)
	h.do("SCRIPT", "FLUSH")
	h.do("CONFIG", "RESETSTAT")
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 10 {
				if d, err := h.Allow(context.Background(), "k", limit); err != nil || d.Source != "redis" {
					t.Errorf("%+v %v", d, err)
				}
			}
		})
	}
	callers.Wait()
	if got := h.remaining(limit, "k"); got != 360 {
		t.Errorf("%d left after 640 of 1000, want 360: a call was lost or sent twice", got)
	}
	stats := h.do("INFO", "commandstats")
	if n := count(stats, "cmdstat_eval:calls="); n < 1 || n > 2*2 {
		t.Errorf("the text was sent %d times, want once per sender or so", n)
	}
	for _, verb := range []func() error{
		func() error { return h.Reset(context.Background(), limit.Charge("k")) },
		func() error { return h.Block(context.Background(), time.Hour, limit.Charge("k")) },
		func() error { return h.Block(context.Background(), 0, limit.Charge("k")) },
	} {
		h.do("SCRIPT", "FLUSH")
		if err := verb(); err != nil {
			t.Error(err)
		}
	}
}

func count(stats, field string) (n int) {
	_, rest, ok := strings.Cut(stats, field)
	if ok {
		fmt.Sscan(rest, &n)
	}
	return n
}

// Every key has a time to live at every moment, set with the state and never
// shorter than it is needed, whatever was done to it.
func TestEveryKeyExpires(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	for _, limit := range everyAlgorithm {
		c := limit.Charge("k")
		b := bill(c)
		for range 3 {
			h.decide(b)
		}
		for _, step := range []func() error{
			func() error { return h.Refund(context.Background(), b.Charges...) },
			func() error { return h.Block(context.Background(), time.Minute, c) },
			func() error { h.decide(bill(c)); return nil },
			func() error { return h.Block(context.Background(), 0, c) },
			func() error { h.decide(bill(c)); return nil },
			func() error { return h.Reset(context.Background(), c) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			for _, key := range h.keys("=k") {
				var ms int64
				fmt.Sscan(h.do("PTTL", key), &ms)
				if ms <= 0 {
					t.Errorf("%s has a time to live of %d ms", key, ms)
				}
			}
		}
		h.decide(b)
		need := b.ResetAfter
		for _, key := range h.keys("=k") {
			if strings.Contains(key, "}:g") {
				continue
			}
			var ms int64
			fmt.Sscan(h.do("PTTL", key), &ms)
			if time.Duration(ms)*time.Millisecond < need-time.Second {
				t.Errorf("%s lives %d ms and is needed for %v", key, ms, need)
			}
		}
		h.do("FLUSHALL")
	}
}

// Instances that hash keys differently would each see their own balances.
func TestInstancesOfTwoSecretsDoNotMix(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{Secret: []byte("one")})
	h.decide(bill(weir.PerMinute(5).Charge("user:42")))
	if found := h.keys("user:42"); len(found) > 0 {
		t.Errorf("keys %q show the caller in spite of the secret", found)
	}
	if _, err := redisstore.Open(server.URL(), redisstore.Options{Secret: []byte("two")}); err == nil || !strings.Contains(err.Error(), "key_secret_file") {
		t.Errorf("another secret on the same prefix: %v, want a refusal that names key_secret_file", err)
	}
	if _, err := redisstore.Open(server.URL(), redisstore.Options{}); err == nil {
		t.Error("no secret on a prefix that has one was accepted")
	}
	other, err := redisstore.Open(server.URL(), redisstore.Options{Prefix: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A missing permission is found at start and named.
func TestAMissingPermissionIsNamed(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	h.do("ACL", "SETUSER", "weak", "on", ">pw", "~*", "+@all", "-evalsha")
	url := strings.Replace(server.URL(), "redis://", "redis://weak:pw@", 1)
	_, err := redisstore.Open(url, redisstore.Options{Prefix: "w"})
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "evalsha") {
		t.Errorf("without EVALSHA: %v, want an error that names it", err)
	}
	if err != nil && strings.Contains(err.Error(), "pw") {
		t.Errorf("%q shows the password", err)
	}
}
