package top

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// ask has one key decided, and t told.
func ask(t *Top, b *weir.Bill, key string, allowed bool) {
	b.Charges = append(b.Charges[:0], weir.PerMinute(1).Charge(key))
	b.Each = append(b.Each[:0], weir.Decision{Allowed: allowed})
	b.Allowed = allowed
	t.Observe(context.Background(), weir.Event{Bill: b})
}

// TestTheLargestAreFoundWithinBounds counts a skewed load exactly beside the
// sketch: the largest are told, in bounds that hold, among a flood of keys that
// are asked for once.
func TestTheLargestAreFoundWithinBounds(t *testing.T) {
	top := New(Options{})
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.3, 1, 1<<20)
	exact, refused := map[string]int64{}, map[string]int64{}
	var b weir.Bill
	const n = 400_000
	for i := range n {
		key := "flood " + strconv.Itoa(i)
		if i%2 == 0 {
			key = "user " + strconv.FormatUint(zipf.Uint64(), 10)
		}
		allowed := random.IntN(3) > 0
		exact[key]++
		if !allowed {
			refused[key]++
		}
		ask(top, &b, key, allowed)
	}
	r := top.Report(20)
	if r.Asked != n || r.Refused == 0 || len(r.Hottest) != 20 || len(r.Refusals) != 20 {
		t.Fatalf("%+v", r)
	}
	told := map[string]bool{}
	for list, counts := range map[*[]Count]map[string]int64{&r.Hottest: exact, &r.Refusals: refused} {
		for _, c := range *list {
			if counts[c.Key] < c.AtLeast || counts[c.Key] > c.AtMost || c.AtMost-c.AtLeast > n/256 || c.Rule != "adhoc" {
				t.Errorf("%+v, counted %d", c, counts[c.Key])
			}
		}
	}
	for _, c := range r.Hottest {
		told[c.Key] = true
	}
	for key, count := range exact {
		if count > n/128 && !told[key] {
			t.Errorf("%s was asked for %d times and is not told", key, count)
		}
	}
}

// TestFewRequestsAreTold: what was asked for a moment ago is told, however long it
// took for as many to come as are counted between two looks at the clock.
func TestFewRequestsAreTold(t *testing.T) {
	now := time.Unix(1000, 0)
	top := New(Options{Now: func() time.Time { return now }})
	var b weir.Bill
	for i := range 10 {
		now = now.Add(5 * time.Minute)
		ask(top, &b, strconv.Itoa(i), false)
		now = now.Add(5 * time.Second)
		r := top.Report(3)
		if len(r.Hottest) != 1 || len(r.Refusals) != 1 || r.Hottest[0].Key != strconv.Itoa(i) || r.Asked != 1 || now.Sub(r.Since) > 2*time.Minute {
			t.Fatalf("%d: %+v", i, r)
		}
	}
}

// TestWhatIsLongPastIsForgotten after two windows.
func TestWhatIsLongPastIsForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	top := New(Options{Now: func() time.Time { return now }})
	var b weir.Bill
	for range 100 {
		ask(top, &b, "early", true)
	}
	hottest := func() string {
		r := top.Report(1)
		if len(r.Hottest) == 0 {
			return ""
		}
		return r.Hottest[0].Key
	}
	if got := hottest(); got != "early" {
		t.Errorf("at once: %q", got)
	}
	now = now.Add(61 * time.Second)
	if got := hottest(); got != "early" {
		t.Errorf("in the next window: %q", got)
	}
	ask(top, &b, "late", true)
	now = now.Add(61 * time.Second)
	if got := hottest(); got != "late" {
		t.Errorf("in the one after: %q", got)
	}
	now = now.Add(time.Hour)
	if got := hottest(); got != "" {
		t.Errorf("an hour later: %q", got)
	}
}

// TestABatchCountsAsItsBills, refusals apart.
func TestABatchCountsAsItsBills(t *testing.T) {
	batch, single := New(Options{}), New(Options{})
	var bills []*weir.Bill
	for i := range 200 {
		b := &weir.Bill{}
		ask(single, b, "key "+strconv.Itoa(i%3), i%5 > 0)
		if i%4 == 0 { // of several charges, the first a trial now and then
			b = &weir.Bill{
				Charges: []weir.Charge{weir.PerMinute(1).Charge("first"), weir.PerMinute(1).Charge("second")},
				Each:    []weir.Decision{{Allowed: true}, {Allowed: true}},
			}
			b.Charges[0].Trial = -int8(i % 8 / 4)
			single.Observe(context.Background(), weir.Event{Bill: b})
			bills = append(bills, b)
			b = &weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("key " + strconv.Itoa(i%3))}, Each: []weir.Decision{{Allowed: i%5 > 0}}}
		}
		bills = append(bills, b)
	}
	batch.ObserveAll(context.Background(), bills, time.Millisecond)
	got, want := batch.Report(5), single.Report(5)
	got.Since = want.Since
	if !reflect.DeepEqual(got, want) || want.Asked != 200+50+25 || want.Refused != 40 {
		t.Errorf("as a batch %+v, one by one %+v", got, want)
	}
	counted := map[string]int64{}
	for _, c := range got.Hottest {
		counted[c.Key] = c.AtLeast
	}
	if counted["first"] != 25 || counted["second"] != 50 {
		t.Errorf("%+v", counted)
	}
}

// TestPartsAddUp: what several goroutines count at once, in whatever parts, is one
// report: every request is in it once, and bounds hold for each key.
func TestPartsAddUp(t *testing.T) {
	top := New(Options{})
	const goroutines, each, hot = 8, 4000, 5
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			var b weir.Bill
			for i := range each {
				ask(top, &b, "hot "+strconv.Itoa(i%hot), i%4 > 0)
			}
		})
	}
	all.Wait()
	r := top.Report(2 * hot)
	if r.Asked != goroutines*each || r.Refused != goroutines*each/4 || len(r.Hottest) != hot || len(r.Refusals) != hot {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Hottest {
		if n := int64(goroutines * each / hot); c.AtLeast != n || c.AtMost < n {
			t.Errorf("%+v, counted %d", c, n)
		}
	}
}

// TestAPartInUseIsNotWaitedFor: a part that somebody has is not waited for while
// another is free, and what is counted there is told as well.
func TestAPartInUseIsNotWaitedFor(t *testing.T) {
	top := New(Options{})
	w := top.window.Load()
	w.parts = append(w.parts, atomic.Pointer[part]{}) // two at least
	taken := w.part(0)
	taken.mu.Lock()
	var b weir.Bill
	for range 10 {
		ask(top, &b, "key", true)
	}
	taken.mu.Unlock()
	if r := top.Report(1); r.Asked != 10 || taken.asked.seen != 0 || r.Hottest[0].AtLeast != 10 {
		t.Errorf("%+v, of which %d in the part that was taken", r, taken.asked.seen)
	}
}
