package weir_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
)

// What cannot fit before the deadline is denied at once, not at the deadline,
// for charges ahead (buckets) and for charges that ask again (all others).
func TestWaitDeniesAtOnce(t *testing.T) {
	for _, text := range []string{"1/s", "1/s algorithm=leaky_bucket", "3/10s algorithm=fixed_window", "3/10s algorithm=sliding_log"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := weir.New(weir.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				limit, err := weir.ParseLimit(text)
				if err != nil {
					t.Fatal(err)
				}
				for n := 0; ; n++ { // until there is no room within the deadline
					if n == 5 {
						t.Fatal("a fifth waits where four fit")
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					began := time.Now()
					answered := make(chan weir.Decision)
					go func() {
						d, err := l.Wait(ctx, limit.Charge("k"))
						if err != nil {
							t.Error(err)
						}
						answered <- d
					}()
					synctest.Wait() // whoever waits now was admitted
					select {
					case d := <-answered:
						cancel()
						if !d.Allowed {
							return
						}
					default:
						defer func() { <-answered; cancel() }()
						if time.Since(began) > 0 {
							t.Fatal("time passed")
						}
					}
					if time.Since(began) > 0 {
						t.Fatal("denied after the deadline instead of at once")
					}
				}
			})
		})
	}
}
