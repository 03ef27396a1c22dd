package directory

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/internal/testredis"
)

// patience bounds what should take no time, on a busy machine too.
const patience = 20 * time.Second

// operator is who writes the hashes.
type operator struct {
	t      *testing.T
	client rueidis.Client
}

func operate(t *testing.T, server *testredis.Server) operator {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return operator{t, client}
}

func (o operator) do(words ...string) rueidis.RedisResult {
	o.t.Helper()
	r := o.client.Do(o.t.Context(), o.client.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil {
		o.t.Fatalf("%v: %v", words, err)
	}
	return r
}

// reads returns how many hashes the server has been asked for.
func (o operator) reads() int { return o.calls("hgetall") }

// calls returns how often the server has been given a command.
func (o operator) calls(command string) int {
	text, err := o.do("INFO", "commandstats").ToString()
	if err != nil {
		o.t.Fatal(err)
	}
	_, line, ok := strings.Cut(text, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	calls, _, _ := strings.Cut(line, ",")
	n, err := strconv.Atoi(calls)
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

func open(t *testing.T, server *testredis.Server, o Options) *Directory {
	t.Helper()
	d, err := Open(server.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// until calls try until it returns "", and fails with what it returned last.
func until(t *testing.T, try func() string) {
	t.Helper()
	over := time.After(patience)
	for {
		last := try()
		if last == "" {
			return
		}
		select {
		case <-over:
			t.Fatalf("in vain: %s", last)
		case <-time.After(time.Millisecond):
		}
	}
}

func (d *Directory) plan(t *testing.T, tenant string) string {
	t.Helper()
	record, _, err := d.Tenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return record.Plan
}

const id = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestRecords(t *testing.T) {
	server := testredis.Start(t)
	o, d := operate(t, server), open(t, server, Options{Prefix: "mine"})
	if _, found, err := d.APIKey(t.Context(), id); found || err != nil {
		t.Errorf("a key out of nowhere: %v %v", found, err)
	}
	if _, found, err := d.Tenant(t.Context(), "acme"); found || err != nil {
		t.Errorf("a tenant out of nowhere: %v %v", found, err)
	}
	o.do("HSET", "weir:api_key:"+id, "tenant", "of another deployment")
	o.do("HSET", "mine:api_key:"+id, "tenant", "acme", "plan", "pro", "owner", "someone's own field")
	o.do("HSET", "mine:tenant:acme", "plan", "free", "limit:login", "5/min", "limit:per-tenant", "20/s burst=200 on_store_failure=closed", "limit:", "x")
	until(t, func() string {
		if record, found, err := d.APIKey(t.Context(), id); !found || err != nil || record != (identity.KeyRecord{Tenant: "acme", Plan: "pro"}) {
			return "key " + record.Tenant
		}
		return ""
	})
	record, found, err := d.Tenant(t.Context(), "acme")
	limits := map[string]string{"login": "5/min", "per-tenant": "20/s burst=200 on_store_failure=closed"}
	if !found || err != nil || record.Plan != "free" || !maps.Equal(record.Limits, limits) {
		t.Errorf("%+v %v %v", record, found, err)
	}
	o.do("HSET", "mine:api_key:"+id, "disabled", "Yes")
	until(t, func() string {
		if record, _, err := d.APIKey(t.Context(), id); err != nil || !record.Disabled {
			return "not disabled"
		}
		return ""
	})
	o.do("DEL", "mine:api_key:"+id)
	until(t, func() string {
		if _, found, err := d.APIKey(t.Context(), id); err != nil || found {
			return "still there"
		}
		return ""
	})
}

// TestNothingIsReadTwice: what has not changed is not read again, be it there or
// not; a change is seen at once. Without tracking every question is one read,
// and the answers are the same.
func TestNothingIsReadTwice(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  []string
		tracked bool
	}{
		{"tracked", nil, true},
		{"tracking refused", []string{"user default on nopass ~* &* +@all -client|tracking"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := testredis.Start(t, c.config...)
			o, d := operate(t, server), open(t, server, Options{})
			o.do("HSET", "weir:tenant:acme", "plan", "free")
			if plan := d.plan(t, "acme"); plan != "free" {
				t.Fatalf("plan %q", plan)
			}
			d.plan(t, "nobody")
			const asked = 500
			before := o.reads()
			for range asked {
				d.plan(t, "acme")
				d.plan(t, "nobody")
			}
			want := 2 * asked
			if c.tracked {
				want = 0
			}
			if reads := o.reads() - before; reads != want {
				t.Errorf("%d questions made %d reads, want %d", 2*asked, reads, want)
			}
			o.do("HSET", "weir:tenant:acme", "plan", "pro")
			o.do("HSET", "weir:tenant:nobody", "plan", "pro")
			changed := time.Now()
			for _, tenant := range []string{"acme", "nobody"} {
				until(t, func() string {
					if plan := d.plan(t, tenant); plan != "pro" {
						return tenant + " has plan " + plan
					}
					return ""
				})
			}
			t.Logf("seen within %s", time.Since(changed))
		})
	}
}

// TestBadValues: a bad value leaves the last good one in force, is counted and
// told once, and is forgotten when it is mended.
func TestBadValues(t *testing.T) {
	server := testredis.Start(t)
	var told []Bad
	o, d := operate(t, server), open(t, server, Options{OnBad: func(b Bad) { told = append(told, b) }})
	const key = "weir:tenant:acme"
	step := func(what string, write []string, plan, limit string, bad int) {
		t.Helper()
		if write != nil {
			o.do(write...)
		}
		until(t, func() string {
			record, _, err := d.Tenant(t.Context(), "acme")
			if err != nil || record.Plan != plan || record.Limits["r"] != limit || len(told) != bad || d.Bad() != uint64(bad) {
				return what + ": " + record.Plan + " " + record.Limits["r"] + " told " + strconv.Itoa(len(told))
			}
			return ""
		})
	}
	step("bad from the start", []string{"HSET", key, "limit:r", "10r/s"}, "", "", 1)
	step("mended", []string{"HSET", key, "limit:r", "10/s", "plan", "free"}, "free", "10/s", 1)
	step("a bad limit", []string{"HSET", key, "limit:r", "100 per minute"}, "free", "10/s", 2)
	step("the same beside a good change", []string{"HSET", key, "plan", "pro"}, "pro", "10/s", 2)
	step("another bad limit", []string{"HSET", key, "limit:r", "5/Min"}, "pro", "10/s", 3)
	step("a bad plan", []string{"HSET", key, "plan", "a\x00b"}, "pro", "10/s", 4)
	step("removed", []string{"HDEL", key, "limit:r"}, "pro", "", 4)
	step("bad with nothing before it", []string{"HSET", key, "limit:r", "x"}, "pro", "", 5)
	step("gone", []string{"DEL", key}, "", "", 5)
	step("bad anew", []string{"HSET", key, "limit:r", "x", "plan", "free"}, "free", "", 6)
	step("no hash", []string{"SET", key, "free"}, "free", "", 7)
	for range 3 {
		step("still no hash", nil, "free", "", 7)
	}
	for _, b := range told {
		if b.Key != key || b.Problem == "" {
			t.Errorf("told %+v", b)
		}
	}
	if got := told[1]; got.Field != "limit:r" || !strings.Contains(got.Problem, "100/m") {
		t.Errorf("the near miss is told as %+v", got)
	}
}

func TestBadKeys(t *testing.T) {
	d := &Directory{most: 10, kept: map[string]kept{}}
	for _, c := range []struct {
		field, value string
		good         bool
	}{
		{"tenant", "acme", true}, {"tenant", strings.Repeat("a", 257), false}, {"tenant", "\xff", false}, {"plan", "a\nb", false},
		{"disabled", "true", true}, {"disabled", "0", true}, {"disabled", "", true}, {"disabled", "maybe", false}, {"disabled", "tru", false},
	} {
		before := d.Bad()
		if _, found := d.keep("k", map[string]string{c.field: c.value}, checkKeyField); !found || (d.Bad() == before) != c.good {
			t.Errorf("%s %q: found %v, bad %v", c.field, c.value, found, d.Bad() > before)
		}
	}
}

// TestBound: what is remembered for the sake of bad values is bounded, and what
// is there is still right.
func TestBound(t *testing.T) {
	d := &Directory{most: 10, kept: map[string]kept{}}
	for i := range 1000 {
		fields, found := d.keep(strconv.Itoa(i), map[string]string{"plan": "p" + strconv.Itoa(i)}, checkTenantField)
		if !found || fields["plan"] != "p"+strconv.Itoa(i) || len(d.kept) > 10 {
			t.Fatalf("%d: %v, %d kept", i, fields, len(d.kept))
		}
	}
}

// TestOutage: without the server a question is an error, never "no such key",
// and after it is back changes are seen as before.
func TestOutage(t *testing.T) {
	server := testredis.Start(t)
	d := open(t, server, Options{})
	operate(t, server).do("HSET", "weir:tenant:acme", "plan", "free")
	if plan := d.plan(t, "acme"); plan != "free" {
		t.Fatalf("plan %q", plan)
	}
	server.Kill()
	until(t, func() string {
		if _, _, err := ask(t, d, "acme"); err == nil {
			return "the server is gone and answers are served"
		}
		return ""
	})
	if _, found, err := ask(t, d, "stranger"); err == nil || found {
		t.Errorf("without a server: found %v, %v", found, err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	o := operate(t, server)
	o.do("HSET", "weir:tenant:acme", "plan", "pro")
	for _, plan := range []string{"pro", "free", "pro"} {
		o.do("HSET", "weir:tenant:acme", "plan", plan)
		until(t, func() string {
			if record, _, err := ask(t, d, "acme"); err != nil || record.Plan != plan {
				return record.Plan
			}
			return ""
		})
	}
}

// ask bounds a question as Lookups does.
func ask(t *testing.T, d *Directory, tenant string) (identity.TenantRecord, bool, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return d.Tenant(ctx, tenant)
}

func TestOpen(t *testing.T) {
	if _, err := Open("nonsense", Options{}); err == nil {
		t.Error("nonsense was opened")
	}
	server := testredis.Start(t, "requirepass s3cret")
	if _, err := Open(server.URL(), Options{Conn: redisconn.Settings{Password: "wrong"}}); err == nil || strings.Contains(err.Error(), "wrong\"") {
		t.Errorf("a wrong password: %v", err)
	}
	d, err := Open("redis://127.0.0.1:1/0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := ask(t, d, "acme"); found || !errors.Is(err, redisconn.ErrDown) {
		t.Errorf("nobody there: %v %v", found, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestAKeyOfNobodyStaysKnown: a hash with no field of ours is a key that is known, also
// when somebody writes over it.
func TestAKeyOfNobodyStaysKnown(t *testing.T) {
	server := testredis.Start(t)
	d, redis := open(t, server, Options{}), operate(t, server)
	redis.do("HSET", "weir:api_key:"+id, "note", "made by hand")
	known := func() string {
		if _, found, err := d.APIKey(t.Context(), id); err != nil || !found {
			return "it is not known"
		}
		return ""
	}
	until(t, known)
	redis.do("SET", "weir:api_key:"+id, "oops")
	until(t, func() string {
		if d.Bad() == 0 && known() == "" {
			return "it is not read again"
		}
		return ""
	})
	if problem := known(); problem != "" {
		t.Error(problem)
	}
}
