package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/weirhq/weir/bench/memory"
)

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	k, _ := strconv.Atoi(os.Args[2])
	for _, w := range memory.Workloads {
		for _, c := range []int{1, 2} {
			rows, err := memory.Compare(memory.Limiters[:k], w, c, n)
			if err != nil {
				panic(err)
			}
			for _, r := range rows {
				fmt.Printf("%-10s %d %-22s %7.1f ns %5.2f allocs  x floor %.2f  x go-limiter %.2f\n", r.Workload, r.Cores, r.Limiter, r.Ns, r.Allocs, r.Ns/rows[1].Ns, r.Ns/rows[2].Ns)
			}
		}
	}
}
