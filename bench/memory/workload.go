package memory

import "fmt"

// Workload is how the keys of the charges are spread.
type Workload struct {
	Name string
	Keys int
}

// Workloads are one key that everybody hits, and many.
var Workloads = []Workload{{"hot key", 1}, {"128k keys", 128 << 10}}

// BillWorkload is what bills of several limits are compared under.
var BillWorkload = Workload{"10,000 keys", 10_000}

// orders returns one order of look-ups for each of n callers.
func (w Workload) orders(n int) [][]string {
	orders := make([][]string, n)
	for i := range orders {
		orders[i] = NewKeys(w.Keys).Order(uint64(i + 1))
	}
	return orders
}

// filled opens the limiter and charges every key once.
func (l Limiter) filled(keys int) (Take, error) {
	take, err := l.Open(keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	refused := 0
	NewKeys(keys).Each(func(key string) {
		if !take(key) {
			refused++
		}
	})
	if refused > 0 {
		return nil, fmt.Errorf("%s: refused %d first charges", l.Name, refused)
	}
	return take, nil
}
