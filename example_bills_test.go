package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir"
)

// noon is a clock that stands still, so that the output is the same every time.
func noon() int64 { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixMicro() }

// A bill is kept and used again, so deciding allocates nothing; several are
// decided in one call, each by itself.
func ExampleLimiter_Decide() {
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: noon})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	perUser, perTenant := weir.PerMinute(10).Named("user"), weir.PerMinute(12).Named("tenant")
	bill := func(user string, cost int64) *weir.Bill {
		u, t := perUser.Charge(user), perTenant.Charge("acme")
		u.Cost, t.Cost = cost, cost
		return &weir.Bill{Charges: []weir.Charge{u, t}}
	}
	alice, bob := bill("alice", 8), bill("bob", 8)
	if err := l.Decide(context.Background(), alice, bob); err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range []*weir.Bill{alice, bob} {
		binding := b.Charges[b.Binding].Limit.Name()
		fmt.Printf("allowed=%t by %s, %d remain, retry after %s\n", b.Allowed, binding, b.Remaining, b.RetryAfter)
	}
	// bob would have passed by himself, and was not charged.
	fmt.Println(bob.Each[0].Allowed, bob.Each[0].Remaining)

	// Output:
	// allowed=true by user, 2 remain, retry after 0s
	// allowed=false by tenant, 4 remain, retry after 20s
	// true 10
}

// Wait sleeps until a charge fits. What cannot fit before the context's deadline
// is denied at once, with the time after which it would.
func ExampleLimiter_Wait() {
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: noon})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	upstream := weir.Per(1, 30*time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 2 {
		d, err := l.Wait(ctx, upstream.Charge("api.example.com"))
		if err != nil {
			fmt.Println(err)
			return
		}
		if !d.Allowed {
			fmt.Println("does not fit before the deadline")
			return
		}
		fmt.Println("goes out")
	}

	// Output:
	// goes out
	// does not fit before the deadline
}

// Peek answers as Take would and debits nothing.
func ExampleLimiter_Peek() {
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: noon})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	hourly := weir.Per(100, time.Hour).Charge("user:42")
	hourly.Cost = 60
	for range 2 {
		d, err := l.Peek(context.Background(), hourly)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining)
		if _, err := l.Take(context.Background(), hourly); err != nil {
			fmt.Println(err)
			return
		}
	}

	// Output:
	// true 100
	// false 40
}
