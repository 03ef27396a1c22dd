package fault_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/layer/fault"
)

// answers is a client that always answers, and counts.
type answers struct{ calls int }

func (a *answers) EvalSHA(context.Context, string, []string, []string) (string, error) {
	a.calls++
	return "", nil
}
func (a *answers) Eval(context.Context, string, []string, []string) (string, error) {
	a.calls++
	return "", nil
}
func (a *answers) Close() error { return nil }

// A fault happens to a call before it is sent, and ends at its time or when it is
// ended, whichever is first.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i fault.Injector
		client := &answers{}
		calls := i.Wrap(client)
		call := func(within time.Duration) (took time.Duration, err error) {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			began := time.Now()
			_, err = calls.EvalSHA(ctx, "", nil, nil)
			return time.Since(began), err
		}
		sent := func(want int) {
			t.Helper()
			if client.calls != want {
				t.Errorf("%d calls were sent, want %d", client.calls, want)
			}
		}
		if _, err := call(time.Second); err != nil {
			t.Error(err)
		}
		sent(1)

		i.Begin(fault.Fault{Kind: fault.Latency, Latency: 300 * time.Millisecond, Percent: 100}, time.Minute)
		if took, err := call(time.Second); err != nil || took != 300*time.Millisecond {
			t.Errorf("latency: %s %v", took, err)
		}
		sent(2)
		if took, err := call(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("latency over the deadline: %s %v", took, err)
		}

		i.Begin(fault.Fault{Kind: fault.Unreachable, Percent: 100}, time.Minute)
		var dial *net.OpError
		if _, err := call(time.Second); !errors.As(err, &dial) || dial.Op != "dial" {
			t.Errorf("unreachable: %v", err)
		}
		i.Begin(fault.Fault{Kind: fault.Refusal, Reply: "LOADING", Percent: 100}, time.Minute)
		if _, err := call(time.Second); err == nil || !strings.HasPrefix(err.Error(), "LOADING ") {
			t.Errorf("refusal: %v", err)
		}
		sent(2)

		i.Begin(fault.Fault{Kind: fault.Stall, Percent: 100}, 10*time.Second)
		if took, err := call(time.Minute); err != nil || took != 10*time.Second {
			t.Errorf("a stall that ends: %s %v", took, err)
		}
		sent(3)
		ended := i.Begin(fault.Fault{Kind: fault.Stall, Percent: 100}, time.Hour)
		if _, err := call(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stall: %v", err)
		}
		<-ended // no drill lasts for an hour
		if _, err := call(time.Second); err != nil {
			t.Error(err)
		}
		sent(4)

		i.Begin(fault.Fault{Kind: fault.Unreachable, Percent: 30}, time.Minute)
		failed := 0
		for range 10_000 {
			if _, err := call(time.Second); err != nil {
				failed++
			}
		}
		if failed < 2500 || failed > 3500 {
			t.Errorf("%d of 10,000 calls failed, want 30 %%", failed)
		}
		i.End()
		if _, err := call(time.Second); err != nil {
			t.Error(err)
		}
	})
}

// Of drills that begin together one is in force, and each of the others has ended.
func TestDrillsThatBeginTogether(t *testing.T) {
	var i fault.Injector
	for range 3000 {
		var ended [2]<-chan struct{}
		var both sync.WaitGroup
		for n := range ended {
			both.Go(func() { ended[n] = i.Begin(fault.Fault{Kind: fault.Stall, Percent: 100}, time.Minute) })
		}
		both.Wait()
		i.End()
		for n := range ended {
			select {
			case <-ended[n]:
			default:
				t.Fatal("a drill that is over never says so")
			}
		}
	}
}
