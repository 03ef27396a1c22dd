package loadgen

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(random.Uint64N(1 << random.Uint64N(longest)))
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	for _, q := range []uint64{1, 100, 500, 900, 990, 999, 1000} {
		want := all[(uint64(len(all))*q+999)/1000-1]
		got := h.Quantile(q)
		if got < want || got > want+want/64+1 {
			t.Errorf("quantile %d is %d, want %d to a 64th more", q, got, want)
		}
	}
	if got := new(Histogram).Quantile(500); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestHistogramBucketsMeet(t *testing.T) {
	for i := range new(Histogram).counts {
		if got := bucket(upper(i)); got != i {
			t.Fatalf("the upper bound of bucket %d falls into %d", i, got)
		}
		if i > 0 && bucket(upper(i-1)+1) != i {
			t.Fatalf("between buckets %d and %d something falls through", i-1, i)
		}
	}
	var h Histogram
	h.Add(-time.Second)
	h.Add(1 << 62)
	if h.Quantile(500) != 0 || bucket(1<<62) != len(h.counts)-1 {
		t.Error("durations out of range are not counted at the ends")
	}
}

func TestHistogramTravels(t *testing.T) {
	var a, b Histogram
	for i := range 1000 {
		a.Add(time.Duration(i * i))
	}
	text, err := json.Marshal(a.Sparse())
	if err != nil {
		t.Fatal(err)
	}
	var m map[int]uint64
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	m[-1], m[1<<30] = 7, 7
	b.AddSparse(m)
	if a != b {
		t.Error("a histogram that was sent is another")
	}
	b.Merge(&a)
	if b.total != 2000 || b.Quantile(500) != a.Quantile(500) {
		t.Error("a histogram merged with itself has other quantiles")
	}
}

func TestKeys(t *testing.T) {
	draw := func(s Spread) map[string]int {
		p, seen := newPicker(s, 100, 1, 2), map[string]int{}
		for range 20_000 {
			seen[p.next()]++
		}
		return seen
	}
	if even := draw(Even); len(even) != 100 || even["bench:0"] > 400 {
		t.Errorf("even: %d keys, the first drawn %d times", len(even), even["bench:0"])
	}
	if zipf := draw(Zipf); len(zipf) < 50 || zipf["bench:0"] < 2000 || zipf["bench:0"] <= zipf["bench:1"] {
		t.Errorf("zipf: %d keys, the first drawn %d times", len(zipf), zipf["bench:0"])
	}
	if hot := draw(Hot); len(hot) != 1 || hot["bench:0"] != 20_000 {
		t.Errorf("hot: %v", hot)
	}
}

// A store that takes a millisecond for a check, and stalls once for a second.
func stalling(stallAt time.Duration) func() Ask {
	began, stalled := time.Now(), false
	return func() Ask {
		return func(context.Context, string) Outcome {
			d := time.Millisecond
			if !stalled && time.Since(began) >= stallAt {
				stalled, d = true, time.Second
			}
			<-time.After(d)
			return Allowed
		}
	}
}

func TestOpenLoopCountsAStallForAllWhoWouldHaveCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), Load{Clients: 1, Keys: 1, Duration: 4 * time.Second, Rate: 100}, stalling(time.Second))
		if r.Allowed != 400 {
			t.Errorf("%d checks of 400 were made", r.Allowed)
		}
		// 100 checks were due in the stalled second; the first waited for all of
		// it, the last for nearly none.
		if p90 := r.Latency.Quantile(900); p90 < 500*time.Millisecond {
			t.Errorf("a quarter of the checks met the stall, and p90 is %v", p90)
		}
		if p50 := r.Latency.Quantile(500); p50 > 2*time.Millisecond {
			t.Errorf("most checks met no stall, and p50 is %v", p50)
		}
	})
}

// A schedule shorter than its first interval is not a rate of thousands.
func TestAScheduleLastsAsLongAsItWasToldTo(t *testing.T) {
	for rate, checks := range map[int]int64{1: 1, 3: 2, 1000: 500} {
		synctest.Test(t, func(t *testing.T) {
			r := Run(t.Context(), Load{Clients: 2, Keys: 1, Duration: 500 * time.Millisecond, Rate: rate}, stalling(time.Hour))
			if r.Allowed != checks || r.Elapsed < 500*time.Millisecond {
				t.Errorf("%d a second: %d checks in %v", rate, r.Allowed, r.Elapsed)
			}
		})
	}
}

func TestClosedLoopAsksAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := int64(0)
		load := Load{Clients: 3, Keys: 1, Duration: time.Second, Progress: func(done int64, _ time.Duration) { told = done }}
		r := Run(t.Context(), load, stalling(time.Hour))
		if r.Allowed != 3000 || r.Elapsed != time.Second {
			t.Errorf("%d checks in %v, want 3000 in 1s", r.Allowed, r.Elapsed)
		}
		if told < 2000 {
			t.Errorf("progress was told of %d checks", told)
		}
	})
}

func TestALoadEndsWithItsContext(t *testing.T) {
	for _, rate := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			r := Run(ctx, Load{Clients: 1, Keys: 1, Duration: time.Hour, Rate: rate}, stalling(time.Hour))
			if r.Elapsed > 3*time.Second || r.Failed != 0 {
				t.Errorf("rate %d: ended after %v with %d failed", rate, r.Elapsed, r.Failed)
			}
		})
	}
}

func TestOutcomesAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := Run(t.Context(), Load{Clients: 1, Keys: 5, Duration: time.Second}, func() Ask {
			return func(context.Context, string) Outcome {
				<-time.After(time.Millisecond)
				n++
				return Outcome(n * n % 10 % 3) // 1 1 0 0 2 0 0 1 1 0 …
			}
		})
		if r.Allowed != 500 || r.Denied != 400 || r.Failed != 100 {
			t.Errorf("allowed %d, denied %d, failed %d", r.Allowed, r.Denied, r.Failed)
		}
	})
}

const info = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:9.0\r\n" +
	"used_cpu_sys_main_thread:1.000000\r\nused_cpu_user_main_thread:2.000000\r\n\r\n" +
	"# Commandstats\r\ncmdstat_get:calls=12,usec=3,usec_per_call=0.25,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_config|get:calls=3,usec=1,usec_per_call=0.3,rejected_calls=0,failed_calls=0\r\n"

func TestUsage(t *testing.T) {
	u := Usage{Commands: map[string]int64{}}
	if err := u.add(info); err != nil {
		t.Fatal(err)
	}
	if u.CPU != 3750*time.Millisecond || u.Busiest != 3*time.Second || u.Commands["get"] != 12 || u.Commands["config|get"] != 3 {
		t.Errorf("read %+v", u)
	}
	before := Usage{CPU: time.Second, Busiest: time.Second, Commands: map[string]int64{"get": 2, "config|get": 3}}
	if d := u.Since(&before); d.CPU != 2750*time.Millisecond || d.Commands["get"] != 10 || len(d.Commands) != 1 {
		t.Errorf("since: %+v", d)
	}
	for _, bad := range []string{"used_cpu_sys:much\n", "cmdstat_get:calls=some,usec=3\n"} {
		if err := u.add(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestReport(t *testing.T) {
	result := func(cpu time.Duration) *Result {
		return &Result{Allowed: 1500, Denied: 500, Failed: 10, Elapsed: 10 * time.Second, CPU: cpu}
	}
	usage := func(cpu time.Duration) *Usage { return &Usage{CPU: cpu, Busiest: cpu} }
	for _, c := range []struct {
		name   string
		r      *Result
		usage  *Usage
		shared bool
		want   Side
		redis  float64
	}{
		{"memory, busy", result(19 * time.Second), nil, false, Client, 0},
		{"memory, idle", result(17 * time.Second), nil, false, Neither, 0},
		{"redis at its core", result(11 * time.Second), usage(9 * time.Second), true, Redis, 4500},
		{"the machine that both share is full", result(11 * time.Second), usage(8 * time.Second), true, Client, 4000},
		{"the kernel and others took the rest", &Result{Allowed: 1500, Denied: 500, Failed: 10, Elapsed: 10 * time.Second, CPU: 5 * time.Second, Machine: 97}, usage(6 * time.Second), true, Client, 3000},
		{"the same with the server elsewhere", result(11 * time.Second), usage(8 * time.Second), false, Neither, 4000},
	} {
		got := NewReport(c.r, c.usage, 2, c.shared)
		if got.Saturated != c.want || got.RedisCPUPerCheck != c.redis {
			t.Errorf("%s: saturated %s with %g µs of Redis, want %s with %g", c.name, got.Saturated, got.RedisCPUPerCheck, c.want, c.redis)
		}
		if got.ChecksPerSecond != 200 || got.Allowed != 1500 || got.Denied != 500 || got.Errors != 10 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestMachine(t *testing.T) {
	before := parseMachine("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")
	after := parseMachine("cpu  150 0 100 805 55 30 10 0 9 9\ncpu0 1 2 3\n")
	if busy := after.busySince(before); busy != 94 {
		t.Errorf("%d %% busy, not 94", busy)
	}
	for _, bad := range []string{"", "cpu", "cpu a b c d e f", "intr 1 2 3 4 5 6"} {
		if m := parseMachine(bad); m != (machine{}) {
			t.Errorf("%q is read as %+v", bad, m)
		}
	}
	if busy := before.busySince(before); busy != 0 {
		t.Errorf("in no time the machine was %d %% busy", busy)
	}
}
