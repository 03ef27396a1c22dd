package memory

import (
	"context"
	"runtime"
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

// BenchmarkBill is what the general way costs, by which policies decide.
func BenchmarkBill(b *testing.B) {
	for _, l := range append(Limiters[:1:1], Bills...) {
		b.Run(l.Name, func(b *testing.B) {
			take, err := l.filled(1)
			if err != nil {
				b.Fatal(err)
			}
			order := NewKeys(1).Order(1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				take(order[i%orderLen])
			}
		})
	}
}

// BenchmarkLayers is a bill of three limits, of which one is everybody's, one a
// tenant's of ten, and one a user's of ten thousand: run it with -cpu 1,2.
func BenchmarkLayers(b *testing.B) {
	l, err := weir.New(weir.Options{})
	if err != nil {
		b.Fatal(err)
	}
	limit := weir.Per(burst, 24*time.Hour)
	everybody, tenant, user := limit.Named("everybody").Charge("all"), limit.Named("tenant").Charge(""), limit.Named("user").Charge("")
	tenants := NewKeys(10).Order(1)
	var orders [][]string
	for i := range runtime.NumCPU() {
		orders = append(orders, NewKeys(10_000).Order(uint64(i)))
	}
	var caller atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		users := orders[(caller.Add(1)-1)%int64(len(orders))]
		bill := &weir.Bill{Charges: []weir.Charge{everybody, tenant, user}}
		for i := 0; pb.Next(); i++ {
			bill.Charges[1].Key, bill.Charges[2].Key = tenants[i%orderLen], users[i%orderLen]
			if err := l.Decide(context.Background(), bill); err != nil || !bill.Allowed {
				b.Errorf("%+v, %v", bill.Decision, err)
				return
			}
		}
	})
}

// The short form of the report: counts, and ratios with so wide a margin that
// only a real fault passes it, on a machine that is busy too.

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, l := range append(Limiters[:1:1], Bills...) {
		take, err := l.filled(1)
		if err != nil {
			t.Fatal(err)
		}
		order := NewKeys(1).Order(1)
		i := 0
		if n := testing.AllocsPerRun(1000, func() { take(order[i]); i++ }); n != 0 {
			t.Errorf("%s allocates %g times", l.Name, n)
		}
	}
}

func TestFiveLimitsCostNoMoreThanFiveBills(t *testing.T) {
	rows, err := Compare(Bills, BillWorkload, 1, 60)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := rows[1].Ns / rows[0].Ns; ratio > 10 {
		t.Errorf("a bill of five takes %.1f times a bill of one, promised are 4", ratio)
	}
}

func TestRatios(t *testing.T) {
	const wide = 2 // times what is promised
	for _, c := range []struct {
		workload Workload
		cores    int
		rival    string
		promised float64 // of the rival's time
	}{
		{Workloads[0], 1, GoLimiter, 1},
		// How two cores share one lock depends on how far apart they are, and by
		// a factor of three: only the floor is in the same place.
		{Workloads[0], 2, Floor, 1.7},
		{Workloads[1], 1, GoLimiter, 1},
		{Workloads[1], 2, GoLimiter, 0.5},
	} {
		rows, err := Compare(Limiters[:3], c.workload, min(c.cores, runtime.NumCPU()), 100)
		if err != nil {
			t.Fatal(err)
		}
		by := make(map[string]Row)
		for _, r := range rows {
			by[r.Limiter] = r
		}
		if n := by[Weir].Allocs; n != 0 {
			t.Errorf("%s, %d cores: %g allocations", c.workload.Name, c.cores, n)
		}
		if ratio := by[Weir].Ns / by[c.rival].Ns; ratio > wide*c.promised {
			t.Errorf("%s, %d cores: %.2f of %s's time, promised are %.2f", c.workload.Name, c.cores, ratio, c.rival, c.promised)
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
