package grpclimit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// told counts what an observer hears.
type told struct {
	mu                        sync.Mutex
	admitted, denied, unnamed int
}

func (o *told) Observe(_ context.Context, e weir.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case e.Bill.Allowed:
		o.admitted++
	default:
		o.denied++
		if e.Bill.ID == ([16]byte{}) {
			o.unnamed++
		}
	}
}

// A call that would be held for too long, or when too many are held, is denied as
// any other: it is charged nothing, observers hear of a denial, and it has a name.
func TestDelayAndMaxWaiting(t *testing.T) {
	queue, err := weir.ParseLimit("1/s algorithm=leaky_bucket burst=9")
	must(t, err)
	all, err := identity.ParsePart("all")
	must(t, err)
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{{Name: "queue", Key: []identity.Part{all}, Limit: queue}}})
	must(t, err)
	for _, c := range []struct {
		name              string
		delay             time.Duration
		waiting, admitted int
	}{{"MaxDelay", 3 * time.Second, 0, 4}, {"MaxWaiting", 0, 2, 3}} {
		for _, byPolicy := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var seen told
				l, err := weir.New(weir.Options{Observer: &seen})
				must(t, err)
				defer func() { must(t, l.Close()) }()
				o := rules(Everyone(), queue)
				var lim *Limit
				if o.MaxDelay, o.MaxWaiting = c.delay, c.waiting; byPolicy {
					o.Rules = nil
					lim, err = Policy(l, gate.New(l, nil, p), o)
				} else {
					lim, err = New(l, o)
				}
				must(t, err)
				began := time.Now()
				ends := make(chan error, 6)
				for range 6 {
					go func() {
						_, err := lim.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/s/M"}, func(context.Context, any) (any, error) { return nil, nil })
						ends <- err
					}()
					synctest.Wait()
				}
				for n := range 6 {
					// Those that are not held end first, at once; the first is admitted.
					if err := <-ends; n < 6-c.admitted+1 && time.Since(began) != 0 || err != nil && status.Code(err) != codes.ResourceExhausted {
						t.Errorf("%s, policy %v: %v after %v", c.name, byPolicy, err, time.Since(began))
					}
				}
				if last := time.Duration(c.admitted-1) * time.Second; time.Since(began) != last {
					t.Errorf("%s, policy %v: the last came after %v, want %v", c.name, byPolicy, time.Since(began), last)
				}
				if seen.admitted != c.admitted || seen.denied != 6-c.admitted || seen.unnamed != 0 {
					t.Errorf("%s, policy %v: observers heard of %d admitted and %d denied, of these %d without an ID; %d were admitted", c.name, byPolicy, seen.admitted, seen.denied, seen.unnamed, c.admitted)
				}
			})
		}
	}
}
