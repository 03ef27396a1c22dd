package algo

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	second   = 1_000_000
	day      = 86400 * second
	midnight = 1_767_225_600_000_000
)

// TestYearAtOddRates: a bucket that is emptied whenever somebody looks has, after
// a year, given out its capacity and what a year is worth, to the unit. Not one
// rounding error may add up.
func TestYearAtOddRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, q := range []Quota{
		{N: 3, Period: 333_000, Capacity: 30_000},
		{N: 7, Period: second, Capacity: 7_001},
		{N: 97, Period: 3 * second, Capacity: 19_400},
		{N: 25_000, Period: day, Capacity: 1_000},
		{N: 999_999_937, Period: MaxPeriod, Capacity: 999_999_937},
		{N: 1_000_000_000, Period: day, Capacity: 1_000_000_000},
		{N: 1, Period: 3600 * second, Capacity: 3},
	} {
		for _, kind := range []Kind{TokenBucket, LeakyBucket} {
			q.Kind = kind
			var b Bucket
			fill := q.Debit(q.Capacity).cost.us
			start, now, given := int64(midnight), int64(midnight), int64(0)
			for now < start+365*day {
				v := q.AdvanceBucket(&b, now)
				if left := q.Report(&v, 1, 0, true).Remaining; left > 0 {
					d := q.Debit(left)
					if !q.FitsBucket(&v, &d, 0) {
						t.Fatalf("%d remain and do not fit", left)
					}
					b = q.ChargeBucket(&v, &d)
					given += left
				}
				now = min(now+1+rng.Int64N(fill/2), start+365*day) // never full
			}
			v := q.AdvanceBucket(&b, now)
			given += q.Report(&v, 1, 0, true).Remaining
			want := new(big.Int).Mul(big.NewInt(now-start), big.NewInt(q.N))
			want.Div(want, big.NewInt(q.Period)).Add(want, big.NewInt(q.Capacity))
			if want.Cmp(big.NewInt(given)) != 0 {
				t.Errorf("%d per %d µs, %s: %d given out in a year, want %s", q.N, q.Period, kind, given, want)
			}
		}
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		q    Quota
		want string
	}{
		{Quota{N: 1, Period: MinPeriod, Capacity: 1}, ""},
		{Quota{N: 0, Period: MaxPeriod}, ""},
		{Quota{N: MaxUnits, Period: MaxPeriod, Capacity: MaxUnits}, ""},
		{Quota{N: 1, Period: MaxPeriod, Capacity: 10}, ""},
		{Quota{N: MaxLog, Period: second, Kind: SlidingLog}, ""},
		{Quota{N: MaxUnits, Period: second, Capacity: MaxUnits + 1, Kind: LeakyBucket}, ""},
		{Quota{N: -1, Period: second}, "must not be negative"},
		{Quota{N: MaxUnits + 1, Period: second}, "use a shorter period"},
		{Quota{N: 1, Period: MinPeriod - 1}, "use a larger period"},
		{Quota{N: 1, Period: MaxPeriod + 1}, "use a shorter period"},
		{Quota{N: MaxLog + 1, Period: second, Kind: SlidingLog}, "use sliding_window"},
		{Quota{N: 1, Period: second, Capacity: 0}, "at least 1"},
		{Quota{N: MaxUnits, Period: second, Capacity: MaxUnits + 1}, "at most 1000000000"},
		{Quota{N: MaxUnits, Period: second, Capacity: MaxUnits + 2, Kind: LeakyBucket}, "at most 1000000000"},
		{Quota{N: 1, Period: MaxPeriod, Capacity: 11}, "within 10 years"},
		{Quota{N: 3, Period: MaxPeriod, Capacity: 31}, "within 10 years"},
	} {
		if got := c.q.Check(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
}

// TestPeriodsBeforeTheEpoch: aligned periods go on below zero, where a remainder
// is negative.
func TestPeriodsBeforeTheEpoch(t *testing.T) {
	q := Quota{N: 1, Period: 10, Kind: FixedWindow}
	for at, want := range map[int64]int64{-1: -10, -10: -10, -11: -20, 0: 0, 9: 0, 10: 10} {
		if start, end := q.around(at); start != want || end != want+10 {
			t.Errorf("%d lies in [%d, %d), want it from %d", at, start, end, want)
		}
	}
}

// TestReportNeverCrashes: a store that contradicts itself gets a strange answer,
// not a crash.
func TestReportNeverCrashes(t *testing.T) {
	for _, kind := range Kinds {
		for _, n := range []int64{0, 1, 5} {
			q := Quota{N: n, Period: second, Capacity: n, Kind: kind}
			for _, cost := range []int64{-1, 0, 1, 5, 6, MaxCost} {
				v := View{Now: midnight, At: midnight, Full: midnight, Forget: forever, Start: midnight, End: midnight + second}
				if r := q.Report(&v, cost, 0, false); r.Remaining < 0 || r.ResetAfter < 0 {
					t.Errorf("%s of %d, cost %d: %+v", kind, n, cost, r)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, k := range Kinds {
		if k.Bucket() && k.Window() || strings.HasPrefix(k.String(), "algorithm(") {
			t.Errorf("%s", k)
		}
	}
	if Kind(9).String() != "algorithm(9)" || Verb(9).String() != "verb(9)" || Block.String() != "block" {
		t.Error("names of what there is not")
	}
}

// TestLogRoom: a log's memory stays within twice of what is live, whatever has
// passed through it, and a charge does not copy it each time.
func TestLogRoom(t *testing.T) {
	q := Quota{N: 100, Period: 100, Kind: SlidingLog}
	var l Log
	for now := int64(midnight); now < midnight+10_000; now++ {
		v := q.AdvanceLog(&l, now, 1)
		if !q.FitsLog(&v, 1) {
			t.Fatalf("at %d: %d used", now-midnight, v.Used)
		}
		q.ChargeLog(&l, &v, 1)
		if l.Len() > 100 || l.Cap() > 512 {
			t.Fatalf("at %d: %d entries in room for %d", now-midnight, l.Len(), l.Cap())
		}
	}
	if l.Newest() != midnight+9_999 {
		t.Errorf("newest %d", l.Newest()-midnight)
	}
}
