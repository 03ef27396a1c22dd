package memory

import (
	"runtime"
	"sync/atomic"
	"testing"
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
