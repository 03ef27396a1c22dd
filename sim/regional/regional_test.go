package regional

import (
	"context"
	"testing"
	"time"
)

// TestBounds: no scope exceeds what is promised of it, with few regions and many,
// near and far, whole and parted.
func TestBounds(t *testing.T) {
	for _, o := range []Options{
		{Regions: 2}, {Regions: 3}, {Regions: 10, Length: 10 * time.Second}, {Regions: 3, Lag: 500 * time.Millisecond},
		{Regions: 3, Partition: 30 * time.Second}, {Regions: 5, Partition: 5 * time.Second, Interval: 500 * time.Millisecond},
	} {
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Scope {
			t.Logf("%d regions, lag %s, partition %s: %+v", r.Regions, o.Lag, o.Partition, Row{row.Scope, row.Bound, row.Admitted, row.Overshoot, row.ConvergedMS, nil})
			if row.Overshoot > row.Bound {
				t.Errorf("%+v: %s overshoots by %d, the bound is %d", o, row.Scope, row.Overshoot, row.Bound)
			}
		}
	}
}
