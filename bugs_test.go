package weir

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Faults that other rate limiters shipped, by kind. A row is the fault's number,
// the limit, and hits as text: each word is one hit, written
//
//	[@time] cost → what must come: "ok", "deny", "large" or "error", then
//	optionally =remaining, ~retry, ^reset
//
// so "@1.5s 2 ok =3" is a hit of cost 2 at 1.5 s that is admitted and leaves 3.
type shippedFault struct {
	id, name, limit, hits string
}

func TestShippedCOUNT(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B001", "off by one", "5/5s algorithm=fixed_window", "1 ok =4; 1 ok =3; 1 ok =2; 1 ok =1; 1 ok =0; 1 deny =0"},
		{"B003", "header disagrees with the decision", "10/min algorithm=fixed_window", "9 ok =1; 1 ok =0; 1 deny =0"},
		{"B005", "boundary", "3/3s algorithm=sliding_log", "1 ok; 1 ok; 1 ok; @2.999999s 1 deny ~0.000001s; @3s 1 ok =2; @3.001s 1 ok =1"},
		{"B009", "rounded refill", "3/s", "3 ok =0; @0.1s 1 deny =0; @0.2s 1 deny =0; @0.3s 1 deny =0; @0.4s 1 ok =0; @0.5s 1 deny; @0.7s 1 ok =0"},
		{"B011", "fractional credit lost", "20/s burst=1200", "1200 ok =0; @0.9s 1 ok =17; @1.8s 18 ok =17; @2.7s 18 ok =17"},
		{"B013", "coarse clock", "10/s", "@0.95s 10 ok =0; @1s 1 deny =0; @1.05s 1 ok =0"},
		{"B015", "denied hits extend the block", "5/10s algorithm=sliding_log", "@0s 1 ok; @1s 1 ok; @2s 1 ok; @3s 1 ok; @4s 1 ok; @5s 1 deny; @6s 1 deny; @7s 1 deny; @9s 1 deny; @10s 1 ok; @11s 1 ok; @11.5s 1 deny"},
		{"B017", "permanent block", "5/10s algorithm=sliding_window", "5 ok; 1 deny; @20s 1 ok; @22s 1 ok; @24s 1 ok; @60s 1 ok"},
		{"B019", "mixed costs", "10/min algorithm=sliding_log", "6 ok =4; 4 ok =0; 1 deny =0"},
		{"B021", "credit applied twice", "1/s burst=2", "2 ok; @4s 1 ok; @4s 1 ok; @4s 1 deny ~1s; @5s 1 ok; @5s 1 deny"},
		{"B025", "unbounded debt", "1/s burst=4 algorithm=leaky_bucket", "5 ok; 1 deny; 1 deny; 5 deny; @6s 1 ok"},
		{"B027", "capacity below one", "60/min burst=1", "1 ok; @1s 1 ok"},
		{"B029", "double count", "10/min algorithm=fixed_window", "1 ok =9; @1.5s 1 ok =8; @3s 1 ok =7; @4.5s 1 ok =6"},
	})
	t.Run("B007 burst and rate", func(t *testing.T) {
		w, l, admitted := newWorld(t), limit(t, "17/30s"), 0
		for i := range 60 {
			w.at(time.Duration(i) * 500 * time.Millisecond)
			admitted += w.admits(l, 1)
		}
		if bound := l.MostInPeriod(); int64(admitted) > bound || bound != 34 || admitted < 33 {
			t.Errorf("%d admitted, bound %d", admitted, bound)
		}
	})
	t.Run("B023 a sweep deletes live state", func(t *testing.T) {
		w := newWorld(t)
		w.take(Per(3, time.Minute), 3)
		for i := range 20_000 { // grows and rebuilds every shard
			w.decide(Per(3, time.Minute).Charge(fmt.Sprint(i)))
		}
		if w.take(Per(3, time.Minute), 1).Allowed {
			t.Error("admitted a fourth of 3")
		}
	})
	t.Run("B031 engines disagree", func(t *testing.T) {
		for _, l := range everyKind(5, time.Minute) {
			if n := newWorld(t).admits(l, 9); n != 5 {
				t.Errorf("%s admitted %d of 5", l.Kind(), n)
			}
		}
	})
}

func TestShippedEXTREME(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B033", "float drift", "1/h", "1 ok; @3600.000001s 1 ok; @93600s 1 ok"},
		{"B035", "zero rate", "0/s", "1 deny =0 ~never; @24h 1 deny ~never"},
		{"B037", "overflow admits", "1/day", "200000000 large ~never; 1 ok =0"},
		{"B041", "64 bits", "120/s", "120 ok =0 ^1s; @1s 120 ok"},
		{"B043", "interval rounds to zero", "2000/s burst=20", "1 ok =19 ^0.0005s; 19 ok =0; 1 deny ~0.0005s"},
		{"B051", "int32", "25000/day", "25000 ok =0; 1 deny ~3.456s; @3.456s 1 ok"},
		{"B055", "0 is not unlimited", "0/min algorithm=fixed_window", "1 deny =0 ~never"},
		{"B061", "16 digits", "999999937/366d", "1 ok =999999936 ^0.031623s; 999999936 ok =0"},
		{"B063", "sub-second", "5/250ms algorithm=sliding_window", "1 ok =4; @0.25s 4 ok; 1 deny ~0.25s"},
		{"B039", "expiry saturates", "1/366d burst=10", "10 ok =0 ^87840h; 1 deny ~8784h"},
	})
	for id, bad := range map[string]string{
		"B045": "1000000001/s", "B047": "5/0s", "B049": "1/s burst=0", "B053": "5/0ms", "B057": "1/s burst=1000000000", "B059": "0/60s burst=5",
	} {
		if l, err := ParseLimit(bad); err == nil {
			t.Errorf("%s: %s is accepted as %s", id, bad, l)
		}
	}
}

func TestShippedCOST(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B065", "cost over the burst", "300/s", "301 large =300 ~never; 1 ok =299"},
		{"B067", "a peek consumes", "5/min algorithm=fixed_window", "1 ok =4; 0 ok =4 ^60s; 0 ok =4"},
		{"B069", "no negative grants", "10/min", "10 ok; 0 ok =0; -5 error; 1 deny =0"},
		{"B071", "reply fields agree", "5/s", "10 large =5 ~never ^0s"},
		{"B073", "negative cost", "5/min algorithm=fixed_window", "-1 error; 0 ok =5"},
		{"B075", "untrusted cost", "5/min algorithm=sliding_log", "3 ok; -1000 error; 0 ok =2"},
		{"B081", "cost clamped to zero", "5/min", "-2 error; 0 ok =5"},
		{"B077", "cost beyond an integer", "5/min", "9007199254740991 large; 9007199254740992 error"},
	})
	t.Run("B079 a denied charge is debited", func(t *testing.T) {
		w := newWorld(t)
		w.admits(limit(t, "10/h algorithm=fixed_window"), 50)
		if d := w.take(limit(t, "20/h algorithm=fixed_window"), 1); !d.Allowed || d.Remaining != 9 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("B083 a refund is decided by the caller, after the fact", func(t *testing.T) {
		w, l := newWorld(t), PerMinute(1)
		b := w.decide(l.Charge("k"))
		if w.take(l, 1).Allowed {
			t.Error("admitted before the first was given back")
		}
		if err := w.Refund(context.Background(), b.Charges...); err != nil || !w.take(l, 1).Allowed {
			t.Errorf("denied after the first was given back, %v", err)
		}
	})
}

func TestShippedREPORT(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B085", "rounded up", "7/s", "7 ok; 1 deny ~0.142858s"},
		{"B087", "retry too long", "6/min", "6 ok; @9.9s 1 deny ~0.1s; @10s 1 ok"},
		{"B089", "the end of the window", "1/min algorithm=fixed_window", "1 ok; @59s 1 deny ~1s"},
		{"B091", "the entry that matters", "2/min algorithm=sliding_log", "1 ok; @10s 1 ok; @20s 1 deny ~40s ^50s"},
		{"B093", "drained", "5/s", "5 ok =0 ^1s; 1 deny ~0.2s"},
		{"B095", "partial credit", "1/s", "1 ok; @0.2s 1 deny ~0.8s"},
		{"B097", "reset", "10/30s", "5 ok =5 ^15s; @14.999999s 0 ok =9 ^0.000001s; @15s 0 ok =10 ^0s"},
		{"B101", "retry and reset differ", "1/s burst=6", "6 ok ^6s; 1 deny ~1s ^6s"},
		{"B103", "never negative", "3/min algorithm=fixed_window", "1 ok =2; 1 ok =1; 1 ok =0; 1 deny =0; 1 deny =0"},
		{"B105", "the oldest entry", "5/min algorithm=sliding_log", "1 ok; @50s 4 ok; @50s 1 deny ~10s"},
		{"B109", "expiry is decided on reading", "20/5s algorithm=fixed_window", "20 ok; @8s 20 ok =0"},
	})
	t.Run("B099 over the limit after a cut", func(t *testing.T) {
		w := newWorld(t)
		for i := range 10 {
			w.at(time.Duration(i) * time.Second)
			w.take(limit(t, "10/min algorithm=sliding_log"), 1)
		}
		w.at(20 * time.Second) // 10 used of 6: five must leave, the fifth at 64 s
		if d := w.take(limit(t, "6/min algorithm=sliding_log"), 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != 44*time.Second {
			t.Errorf("%+v", d)
		}
	})
	t.Run("B107 the limit says its period, nobody else", func(t *testing.T) {
		w := newWorld(t)
		w.take(PerMinute(1), 1)
		if d := w.take(Per(1, 100*time.Second), 1); !d.Allowed {
			t.Error("two periods share a balance")
		}
	})
}

func TestShippedTIME(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B111", "clock back and forth", "1/s burst=3", "@11s 3 ok; @0s 1 deny ~1s; @11s 3 ok"},
		{"B115", "an hour back", "5/s algorithm=fixed_window", "@1h 5 ok; @0s 1 deny ~1s; @1s 5 ok"},
		{"B119", "implausible clock", "2000/s burst=5000", "5000 ok; @-24h 1 deny ~0.0005s ^2.5s"},
	})
	t.Run("B113 refunds read the same clock", func(t *testing.T) {
		w, l := newWorld(t), Per(1, time.Second).Burst(10)
		w.at(10 * time.Second)
		w.take(l, 9)
		b := w.decide(l.Charge("k"))
		w.at(9 * time.Second)
		if err := w.Refund(context.Background(), b.Charges...); err != nil {
			t.Fatal(err)
		}
		w.at(11 * time.Second)
		if left := w.left(l, "k"); left != 2 {
			t.Errorf("%d remain, want 1 refunded and 1 regained", left)
		}
	})
	t.Run("B117 windows count on UTC unless a zone is asked for", func(t *testing.T) {
		w, l := newWorld(t), limit(t, "10/h algorithm=fixed_window")
		for i, second := range []bool{false, true} { // 02:30 in Paris, twice
			w.clock.Store(time.Date(2026, 10, 25, i, 30, 0, 0, time.UTC).UnixMicro())
			if n := w.admits(l, 12); n != 10 {
				t.Errorf("second time %v: %d admitted", second, n)
			}
		}
	})
}

func TestShippedTTL(t *testing.T) {
	runShipped(t, []shippedFault{
		{"B133", "refreshed by hits", "100/day algorithm=fixed_window", "90 ok; @22h 9 ok =1; @25h 2 ok =98"},
		{"B135", "counted from the first hit", "10/h algorithm=sliding_log", "1 ok; @59m 8 ok; @61m 2 ok =0; @61m 7 deny"},
		{"B143", "counted from the last hit", "10/min algorithm=fixed_window", "1 ok; @30s 1 ok; @60s 1 ok; @90s 1 ok; @120s 1 ok; @570s 1 ok; @600s 1 ok =9"},
		{"B097", "kept as long as needed", "10/30s", "5 ok; @14s 0 ok =9"},
	})
	t.Run("B123 one atomic step at the edge", func(t *testing.T) {
		w, l := newWorld(t), limit(t, "2/s algorithm=fixed_window")
		w.take(l, 2)
		w.at(time.Second - time.Microsecond)
		if w.take(l, 1).Allowed {
			t.Error("admitted in the last microsecond")
		}
		w.at(time.Second)
		if d := w.take(l, 1); !d.Allowed || d.Remaining != 1 {
			t.Errorf("%+v in the first of the next", d)
		}
	})
	t.Run("idle balances take no room for ever", func(t *testing.T) {
		w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom})
		for i := range many(300_000) {
			w.clock.Add(1000)
			w.decide(Per(1, 10*time.Millisecond).Charge(fmt.Sprint(i)))
		}
		if s := w.memory.Stats(); s.Bytes > leastRoom/2 || s.Evicted > 0 {
			t.Errorf("10 live balances at a time, and %+v", s)
		}
	})
}

func TestShippedMEM(t *testing.T) {
	t.Run("B273 a flood of new keys resets an exhausted one", func(t *testing.T) {
		w, l := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom}), Per(10, time.Hour)
		w.take(l, 10)
		for i := range 100_000 {
			w.decide(l.Charge(fmt.Sprint(i)))
		}
		if w.memory.Stats().Evicted == 0 || w.take(l, 1).Allowed {
			t.Errorf("admitted after the flood; %+v", w.memory.Stats())
		}
	})
	t.Run("B275 newcomers are served at the bound, and it is counted", func(t *testing.T) {
		w, l := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom}), Per(10, time.Hour)
		for i := range 100_000 {
			if !w.decide(l.Charge(fmt.Sprint(i))).Allowed {
				t.Fatal("a new caller was refused for want of room")
			}
		}
		if s := w.memory.Stats(); s.Evicted == 0 || s.Bytes > leastRoom {
			t.Errorf("%+v", s)
		}
	})
	t.Run("B277, B279 nothing runs and nothing is left", func(t *testing.T) {
		for range 100 {
			l, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Allow(context.Background(), "k", PerMinute(1)); err != nil {
				t.Fatal(err)
			}
			if l.Close() != nil || l.Close() != nil {
				t.Fatal("Close is not idempotent")
			}
			if _, err := l.Allow(context.Background(), "k", PerMinute(1)); !errors.Is(err, ErrClosed) {
				t.Fatalf("after Close: %v", err)
			}
		}
	})
}

func TestShippedCONC(t *testing.T) {
	for _, l := range everyKind(10, time.Hour) {
		t.Run("B193, B195 lost update, check then act: "+l.Kind().String(), func(t *testing.T) {
			if n := together(t, newWorld(t), 100, l); n != 10 {
				t.Errorf("%d admitted of 10", n)
			}
		})
	}
	t.Run("B197 a refund beside a charge", func(t *testing.T) {
		w, l := newWorld(t), limit(t, "5/min algorithm=sliding_window")
		failed := w.decide(l.Charge("k"))
		w.decide(l.Charge("k"))
		if err := w.Refund(context.Background(), failed.Charges...); err != nil || w.left(l, "k") != 4 {
			t.Errorf("%d remain, want 4; %v", w.left(l, "k"), err)
		}
	})
	t.Run("B199, B201 no lock is held over a call", func(t *testing.T) {
		w, l := newWorld(t), PerMinute(50)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 200 {
					w.Limiter.Reset(context.Background(), l.Charge("a"), l.Charge("b"))
					w.decide(l.Charge("b"), l.Charge("a"))
					w.memory.Stats()
				}
			})
		}
		all.Wait()
	})
	t.Run("B203 many keys are many locks", func(t *testing.T) {
		m, shards := NewMemory(MemoryOptions{}), map[uint64]int{}
		l := PerMinute(1)
		for i := range 100_000 {
			c := l.Charge(fmt.Sprint("key", i))
			shards[m.print(&c)>>m.shift]++
		}
		for s, n := range shards {
			if n > 400 { // 195 on average
				t.Errorf("%d of 100000 keys share lock %d", n, s)
			}
		}
		if len(shards) != 1<<shardBits {
			t.Errorf("%d locks used", len(shards))
		}
	})
}

// together sends hits from as many goroutines at once.
func together(t *testing.T, w *world, hits int, l Limit) (admitted int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for range hits {
		all.Go(func() {
			<-start
			d, err := w.Allow(context.Background(), "k", l)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if d.Allowed {
				admitted++
			}
		})
	}
	close(start)
	all.Wait()
	return admitted
}

func runShipped(t *testing.T, faults []shippedFault) {
	for _, f := range faults {
		t.Run(f.id+" "+f.name, func(t *testing.T) {
			w, l := newWorld(t), limit(t, f.limit)
			for i, text := range strings.Split(f.hits, "; ") {
				if problem := w.hit(l, text); problem != "" {
					t.Errorf("hit %d of %s, %q: %s", i, f.limit, text, problem)
				}
			}
		})
	}
}

// hit makes one written hit and says what came out otherwise.
func (w *world) hit(l Limit, text string) string {
	words := strings.Fields(text)
	if at, ok := strings.CutPrefix(words[0], "@"); ok {
		w.at(w.duration(at))
		words = words[1:]
	}
	var cost int64
	if _, err := fmt.Sscan(words[0], &cost); err != nil {
		w.t.Fatal(err)
	}
	bill := &Bill{Charges: []Charge{{Key: "k", Limit: l, Cost: cost, Peek: cost == 0}}}
	err := w.Decide(context.Background(), bill)
	d := bill.Decision
	got := map[bool]string{true: "ok", false: "deny"}[d.Allowed]
	switch {
	case err != nil:
		got = "error"
	case d.Reason == TooLarge:
		got = "large"
	}
	if got != words[1] {
		return fmt.Sprintf("%s, %+v, %v", got, d, err)
	}
	for _, want := range words[2:] {
		value := want[1:]
		switch want[0] {
		case '=':
			if fmt.Sprint(d.Remaining) != value {
				return fmt.Sprintf("%d remain", d.Remaining)
			}
		case '~':
			if d.RetryAfter != w.duration(value) {
				return fmt.Sprintf("retry after %s", d.RetryAfter)
			}
		case '^':
			if d.ResetAfter != w.duration(value) {
				return fmt.Sprintf("reset after %s", d.ResetAfter)
			}
		}
	}
	return ""
}

func (w *world) duration(s string) time.Duration {
	if s == "never" {
		return Never
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}
