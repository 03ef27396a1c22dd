package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// The README's five lines.
func Example() {
	ctx := context.Background()

	l, err := weir.New(weir.Options{}) // in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	d, err := l.Allow(ctx, "user:42", weir.PerMinute(100))
	if err != nil {
		fmt.Println(err) // bad input, a dead context, a closed limiter: never an outage
		return
	}
	fmt.Println(d.Allowed, d.Remaining)

	// Output:
	// true 99
}

// Several keys, each with its limit, decided together: a refusal by one debits
// none of them.
func ExampleLimiter_Take() {
	ctx := context.Background()
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	login := weir.PerMinute(2).Named("login")
	tenant := weir.PerMinute(100).Named("tenant")
	for range 3 {
		d, err := l.Take(ctx, login.Charge("192.0.2.7"), tenant.Charge("acme"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Reason)
	}
	d, err := l.Peek(ctx, tenant.Charge("acme"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("acme has", d.Remaining, "left")

	// Output:
	// true ok
	// true ok
	// false limited
	// acme has 98 left
}

// A plan is an argument: what a key may do can differ from call to call.
func ExampleParseLimit() {
	limit, err := weir.ParseLimit("20/s burst=200")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limit.Most(), "at once,", limit.MostInPeriod(), "in any", limit.Period())

	_, err = weir.ParseLimit("10 per minute")
	fmt.Println(err)

	// Output:
	// 200 at once, 220 in any 1s
	// limit: "10 per minute": a limit is N/PERIOD, such as 100/min, or unlimited; did you mean "10/minute"?
}

// Work that turned out not to happen can be given back, with the receipt of its
// charge and at most once.
func ExampleLimiter_Refund() {
	ctx := context.Background()
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	daily := weir.Per(1000, 24*time.Hour).Using(algo.FixedWindow)
	bill := weir.Bill{Charges: []weir.Charge{{Key: "acme", Limit: daily, Cost: 50}}}
	if err := l.Decide(ctx, &bill); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bill.Allowed, bill.Remaining)

	for range 2 {
		if err := l.Refund(ctx, bill.Charges...); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("gave back", bill.Charges[0].Receipt.Refunded)
	}

	// Output:
	// true 950
	// gave back 50
	// gave back 0
}
