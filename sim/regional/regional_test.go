package regional

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir/policy"
)

// TestBounds: no scope exceeds what is promised of it, with few regions and many,
// near and far, whole and parted.
func TestBounds(t *testing.T) {
	for _, o := range []Options{
		{Regions: 2}, {Regions: 3}, {Regions: 10, Length: 10 * time.Second}, {Regions: 3, Lag: 500 * time.Millisecond},
		{Regions: 3, Partition: 30 * time.Second}, {Regions: 5, Partition: 5 * time.Second, Interval: 500 * time.Millisecond},
	} {
		if err := o.Fill(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Scope {
			t.Logf("%d regions, lag %s, partition %s: %+v", r.Regions, o.Lag, o.Partition, Row{row.Scope, row.Bound, row.Admitted, row.Overshoot, row.ConvergedMS, nil})
			if most := 3 * (o.Interval + o.Lag).Milliseconds(); row.Scope == "global" && row.ConvergedMS > most {
				t.Errorf("%+v: all knew after %d ms, more than %d", o, row.ConvergedMS, most)
			}
			if row.Overshoot > row.Bound {
				t.Errorf("%+v: %s overshoots by %d, the bound is %d", o, row.Scope, row.Overshoot, row.Bound)
			}
		}
	}
}

// TestFaultsAreSeen: what TestBounds checks fails where a partition is not noticed
// and where nothing is heard.
func TestFaultsAreSeen(t *testing.T) {
	for _, o := range []Options{
		{Regions: 3, Partition: 30 * time.Second, blind: true}, {Regions: 3, deaf: true},
	} {
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if row := r.Scope[1]; row.Overshoot <= row.Bound {
			t.Errorf("%+v: %d beyond the limit is within the bound of %d", o, row.Overshoot, row.Bound)
		}
	}
}

// TestNewsThatComesLate: where messages take much longer than is promised of them, and
// all are acknowledged at last, regions count as cut off from each other and keep the
// bound.
func TestNewsThatComesLate(t *testing.T) {
	o := Options{Regions: 2, Length: 40 * time.Second, late: 10 * time.Second}
	if err := o.Fill(); err != nil {
		t.Fatal(err)
	}
	row, err := run(context.Background(), o, policy.ScopeGlobal)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d beyond the limit; the bound is %d", row.Overshoot, row.Bound)
	if row.Overshoot > 2*row.Bound {
		t.Errorf("%d beyond the limit; the bound with one partition is %d", row.Overshoot, 2*row.Bound)
	}
}

// TestFleet: every use of a key is told once to every peer, for some bytes.
func TestFleet(t *testing.T) {
	f := Fleet{Regions: 4, Instances: 8, Keys: 1000, Uses: 1000, Interval: 200 * time.Millisecond, Length: 2 * time.Second}
	got, err := f.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Changes < 2700 || got.Changes > 3000 || got.Bytes/got.Changes < 50 || got.Bytes/got.Changes > 110 {
		t.Errorf("1000 uses a second are told to 3 peers as %+v", got)
	}
}
