package memory

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// BenchmarkTake is for profiles and benchstat; run it with -cpu 1,2. Ratios come
// from Compare, which interleaves.
func BenchmarkTake(b *testing.B) {
	for _, w := range Workloads {
		orders := w.orders(runtime.NumCPU())
		for _, l := range Limiters {
			b.Run(w.Name+"/"+l.Name, func(b *testing.B) {
				take, err := l.filled(w.Keys)
				if err != nil {
					b.Fatal(err)
				}
				var caller atomic.Int64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					order := orders[(caller.Add(1)-1)%int64(len(orders))]
					for i := 0; pb.Next(); i++ {
						take(order[i%orderLen])
					}
				})
			})
		}
	}
}

// The bills whose cost is compared: one limit by the two ways, and five limits.
func bills(tb testing.TB) map[string]func() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, far := context.Background(), weir.Per(10, time.Second).Burst(1_000_000_000)
	decide := func(n int) func() {
		bill := &weir.Bill{}
		for i := range n {
			bill.Charges = append(bill.Charges, far.Named("limit-"+strconv.Itoa(i)).Charge("user:42"))
		}
		kept := []*weir.Bill{bill}
		return func() {
			if err := l.Decide(ctx, kept...); err != nil || !bill.Allowed {
				tb.Fatal("refused", err)
			}
		}
	}
	return map[string]func(){
		"Allow": func() {
			if d, err := l.Allow(ctx, "user:42", far); err != nil || !d.Allowed {
				tb.Fatal("refused", err)
			}
		},
		"a bill of one":  decide(1),
		"a bill of five": decide(5),
	}
}

func BenchmarkBill(b *testing.B) {
	for name, decide := range bills(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
		})
	}
}

// The short form of the report: counts, and ratios with so wide a margin that
// only a real fault passes it, on a machine that is busy too.

func TestDecisionsDoNotAllocate(t *testing.T) {
	for name, decide := range bills(t) {
		if n := testing.AllocsPerRun(1000, decide); n != 0 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}

func TestRatios(t *testing.T) {
	const wide = 2 // times what is promised
	for _, c := range []struct {
		workload Workload
		cores    int
		promised float64 // of go-limiter's time
	}{
		{Workloads[0], 1, 1}, {Workloads[0], 2, 0.65}, {Workloads[1], 1, 1}, {Workloads[1], 2, 0.5},
	} {
		rows, err := Compare(Limiters[:3], c.workload, min(c.cores, runtime.NumCPU()), 60)
		if err != nil {
			t.Fatal(err)
		}
		weir, rival := rows[0], rows[2]
		if weir.Limiter != Weir || rival.Limiter != GoLimiter {
			t.Fatalf("compared %s with %s", weir.Limiter, rival.Limiter)
		}
		if weir.Allocs != 0 {
			t.Errorf("%s, %d cores: %g allocations", c.workload.Name, c.cores, weir.Allocs)
		}
		if ratio := weir.Ns / rival.Ns; ratio > wide*c.promised {
			t.Errorf("%s, %d cores: %.2f of go-limiter's time, promised are %.2f", c.workload.Name, c.cores, ratio, c.promised)
		}
	}
}

// At 1,250,000 keys the tables are as full as at 10,000,000.
func TestFootprint(t *testing.T) {
	f, err := MeasureFootprint(1_250_000)
	if err != nil {
		t.Fatal(err)
	}
	if f.BytesPerKey > 64 || f.BytesPerKey < 32 || f.Evicted > 0 {
		t.Errorf("%.1f bytes a key with %d evicted, want 32 to 64 with none", f.BytesPerKey, f.Evicted)
	}
}

func TestSlowdown(t *testing.T) {
	s, err := MeasureSlowdown(10_000, 1_000_000, 40)
	if err != nil {
		t.Fatal(err)
	}
	if s.Weir > 3*s.Map {
		t.Errorf("slows by %.1f where a map slows by %.1f", s.Weir, s.Map)
	}
}

func TestOrdersAreFreshStrings(t *testing.T) {
	keys := NewKeys(5)
	seen := map[string]bool{}
	keys.Each(func(key string) { seen[key] = true })
	order := keys.Order(1)
	for _, key := range order {
		if !seen[key] {
			t.Fatalf("%q is no key of the set", key)
		}
	}
	if len(seen) != 5 || len(order) != orderLen || order[0] == order[1] && order[1] == order[2] && order[2] == order[3] {
		t.Errorf("%d keys, and an order that begins with %q", len(seen), order[:4])
	}
}

func TestEveryLimiterAdmitsTheWorkload(t *testing.T) {
	for _, l := range Limiters {
		if _, err := Compare([]Limiter{l}, Workload{"few keys", 3}, 1, 2); err != nil {
			t.Error(err)
		}
	}
}
