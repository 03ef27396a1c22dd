package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/observe"
)

// kept is a sink that keeps what it is given, when it takes anything.
type kept struct {
	mu     sync.Mutex
	events []Event
	gate   chan struct{} // closed to let writes through; nil is open
	fault  func(events []Event) (int, error)
}

func (k *kept) Write(ctx context.Context, events []Event) (int, error) {
	if k.gate != nil {
		select {
		case <-k.gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n, err := len(events), error(nil)
	if k.fault != nil {
		n, err = k.fault(events)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, events[:n]...)
	return n, err
}

func (k *kept) Close() error { return nil }

// decide has n bills decided by a limiter that s observes: the first half are
// admitted.
func decide(t *testing.T, s *Stream, n int) {
	t.Helper()
	l, err := weir.New(weir.Options{Observer: s})
	if err != nil {
		t.Fatal(err)
	}
	limit := weir.PerMinute(1)
	key := make([]byte, 0, 32)
	for i := range n {
		key = fmt.Appendf(key[:0], "user:%d", i%((n+1)/2)) // a buffer that is used again
		if _, err := l.Allow(context.Background(), string(key), limit); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	e := Event{
		ID: strings.Repeat("ab", 16), TimeMS: 1764460800123, Instance: "i", Rule: "r", Tenant: "ten\nant", Plan: "p", Route: "/api/**", KeyHash: "h",
		Cost: 7, Allowed: true, Reason: "ok", Source: "redis", Weight: 100.0 / 3,
	}
	if n := reflect.TypeFor[Event]().NumField(); n != fieldCount || len(e.Fields()) != 2*fieldCount {
		t.Errorf("%d fields, of which %d are written", n, len(e.Fields())/2)
	}
	fields := map[string]string{"later": "x"}
	for i := 0; i < 2*fieldCount; i += 2 {
		fields[e.Fields()[i]] = e.Fields()[i+1]
	}
	if got, err := FromFields(fields); err != nil || got != e {
		t.Errorf("%+v %v", got, err)
	}
	line, err := e.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := FromLine(line); err != nil || got != e {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{``, `{}`, `{"id":"x"}`, `{"id":"x","weight":0}`, string(line[:len(line)/2])} {
		if e, err := FromLine([]byte(bad)); err == nil {
			t.Errorf("%q was taken for %+v", bad, e)
		}
	}
	delete(fields, "ts_ms")
	if _, err := FromFields(fields); err == nil {
		t.Error("an event without a time")
	}
}

// TestRefusalsAllAndAdmittedSampled: the weights make the sums right, and no
// event holds a key.
func TestRefusalsAllAndAdmittedSampled(t *testing.T) {
	for _, test := range []struct{ admitted, least, most int }{{0, 0, 0}, {10_000, 20_000, 20_000}, {2500, 18_500, 21_500}} {
		k := &kept{}
		s := New(k, Options{Admitted: test.admitted, Instance: "me", Secret: []byte("s"), Buffer: 100_000})
		decide(t, s, 40_000)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		sum, refused, ids := 0.0, 0, map[string]bool{}
		for _, e := range k.events {
			if ids[e.ID] || len(e.ID) != 32 {
				t.Fatalf("%+v: the ID twice, or none", e)
			}
			ids[e.ID] = true
			if e.Allowed {
				sum += e.Weight
			} else {
				refused++
			}
			if strings.Contains(fmt.Sprint(e), "user:") || e.Instance != "me" || e.Cost != 1 || e.Rule != "adhoc" {
				t.Fatalf("%+v", e)
			}
		}
		if refused != 20_000 || int(sum) < test.least || int(sum) > test.most {
			t.Errorf("of 10,000 %d: %d refused, %v admitted", test.admitted, refused, sum)
		}
		if want := observe.KeyHash([]byte("s"), "user:0"); test.admitted == 10_000 && k.events[0].KeyHash != want {
			t.Errorf("the hash %s, want %s", k.events[0].KeyHash, want)
		}
		if s.Dropped() != 0 || s.Written() != int64(len(k.events)) {
			t.Errorf("%d dropped, %d written", s.Dropped(), s.Written())
		}
	}
}

// TestAFullBufferDropsAndNeverWaits: with a sink that takes nothing every decision
// is answered, and what was lost is what is counted.
func TestAFullBufferDropsAndNeverWaits(t *testing.T) {
	k := &kept{gate: make(chan struct{})}
	s := New(k, Options{Buffer: 100})
	decide(t, s, 2000) // would never end if it waited
	close(k.gate)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(k.events); n < 100 || n > 200 || int(s.Dropped()) != 1000-n {
		t.Errorf("%d written, %d dropped of 1000", n, s.Dropped())
	}
	before := s.Dropped()
	decide(t, s, 2)
	if s.Dropped() != before+1 {
		t.Error("what comes after the end is not counted")
	}
	if s.filled.used != 0 {
		t.Errorf("%d records are taken after the end, and nobody writes them", s.filled.used)
	}
}

// TestWhatIsNotTakenIsWrittenAgain, and what is taken is not.
func TestWhatIsNotTakenIsWrittenAgain(t *testing.T) {
	calls := 0
	var told []error
	k := &kept{fault: func(events []Event) (int, error) {
		calls++
		if calls%2 == 1 {
			return len(events) / 2, errors.New("full")
		}
		return len(events), nil
	}}
	s := New(k, Options{OnError: func(err error) { told = append(told, err) }})
	decide(t, s, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, e := range k.events {
		ids[e.ID] = true
	}
	if len(ids) != len(k.events) || len(ids)+int(s.Dropped()) != 500 {
		t.Errorf("%d written as %d events, %d dropped", len(k.events), len(ids), s.Dropped())
	}
}

// inStream returns how often each ID stands in the stream.
func inStream(t *testing.T, server *testredis.Server) map[string]int {
	t.Helper()
	client := clientOf(t, server)
	entries, err := client.Do(context.Background(), client.B().Xrange().Key("weir:events").Start("-").End("+").Build()).AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, entry := range entries {
		e, err := FromFields(entry.FieldValues)
		if err != nil {
			t.Fatal(err)
		}
		ids[e.ID]++
	}
	return ids
}

func clientOf(t *testing.T, server *testredis.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestAStreamThatStalls: Redis stands still for a while under load. Nothing waits;
// every event is in the stream or counted as lost.
func TestAStreamThatStalls(t *testing.T) {
	server := testredis.Start(t)
	sink, err := ToRedis("redis://"+server.Addr, RedisOptions{Key: "weir:events"})
	if err != nil {
		t.Fatal(err)
	}
	s := New(sink, Options{Buffer: 2000})
	decide(t, s, 2000)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	decide(t, s, 20_000)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	decide(t, s, 2000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ids := inStream(t, server)
	if len(ids)+int(s.Dropped()) != 12_000 || s.Dropped() == 0 || len(ids) < 2000 {
		t.Errorf("%d in the stream, %d dropped of 12,000", len(ids), s.Dropped())
	}
}

// TestAStreamThatIsFull: a Redis that is out of memory takes nothing, and its
// limit of length holds.
func TestAStreamThatIsFull(t *testing.T) {
	server := testredis.Start(t)
	sink, err := ToRedis("redis://"+server.Addr, RedisOptions{Key: "weir:events", MaxLen: 500})
	if err != nil {
		t.Fatal(err)
	}
	s := New(sink, Options{})
	decide(t, s, 8000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(inStream(t, server)); n < 500 || n > 1000 || s.Written() != 4000 {
		t.Errorf("%d kept of %d", n, s.Written())
	}
	client := clientOf(t, server)
	if err := client.Do(context.Background(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if sink, err = ToRedis("redis://"+server.Addr, RedisOptions{Key: "weir:events"}); err != nil {
		t.Fatal(err)
	}
	s = New(sink, Options{Buffer: 100})
	decide(t, s, 2000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Written() != 0 || s.Dropped() != 1000 {
		t.Errorf("%d written, %d dropped of 1000", s.Written(), s.Dropped())
	}
}

// TestTheEndOfAStreamWhoseSinkIsDumb: a sink that does not answer holds the end up
// for the write that is on its way and one last try, however much is buffered; what
// it did not take is counted.
func TestTheEndOfAStreamWhoseSinkIsDumb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&kept{gate: make(chan struct{})}, Options{})
		decide(t, s, 2*10*flightEvents)
		synctest.Wait()
		decide(t, s, 2*10*flightEvents)
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*lastTry { // this sink knows no deadline
			t.Errorf("the end took %v", took)
		}
		if s.Dropped() != 2*10*flightEvents {
			t.Errorf("%d dropped", s.Dropped())
		}
	})
}

// TestTheEndIsOneTry: what waits is written within one last try, however slowly the
// sink takes it: a service manager waits for seconds and not for minutes.
func TestTheEndIsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{fault: func(events []Event) (int, error) {
			<-time.After(lastTry - time.Millisecond)
			return len(events), nil
		}}
		s := New(k, Options{Admitted: 10_000})
		decide(t, s, defaultBuffer)
		begin := time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 3*lastTry { // this sink knows no deadline
			t.Errorf("the end took %v", took)
		}
		if s.Written()+s.Dropped() != defaultBuffer || s.Dropped() == 0 {
			t.Errorf("%d written and %d dropped of %d", s.Written(), s.Dropped(), defaultBuffer)
		}
	})
}
