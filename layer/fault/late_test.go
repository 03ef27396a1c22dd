package fault

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestADrillIsNotLate: where the timer that ends a drill never comes, no fault is
// injected and none is held all the same, once the drill's time is over.
func TestADrillIsNotLate(t *testing.T) {
	for _, f := range []Fault{
		{Kind: Latency, Latency: time.Minute}, {Kind: Stall}, {Kind: Unreachable}, {Kind: Refusal, Reply: "READONLY"},
	} {
		t.Run(f.Kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f.Percent = 100
				i := Injector{now: &drill{Fault: f, until: time.Now().Add(time.Second), ended: make(chan struct{})}}
				holds := f.Kind == Latency || f.Kind == Stall
				began := time.Now()
				err := i.meet(context.Background())
				if took := time.Since(began); holds != (err == nil) || holds != (took == time.Second) {
					t.Errorf("in the drill a call took %s and had %v", took, err)
				}
				<-time.After(time.Second - time.Since(began))
				began = time.Now()
				if err := i.meet(context.Background()); err != nil || time.Since(began) != 0 {
					t.Errorf("after the drill a call took %s and had %v", time.Since(began), err)
				}
			})
		})
	}
}
