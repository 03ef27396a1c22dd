package refusals

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// TestWhatWasRefusedIsFound, with a key of its own, until that many others were.
func TestWhatWasRefusedIsFound(t *testing.T) {
	r := New()
	l, err := weir.New(weir.Options{Observer: r})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("user:1")
	bill := weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("")}}
	decide := func(k string) {
		t.Helper()
		bill.Charges[0].Key, bill.Charges[0].Group = k, k[:4]
		if err := l.Decide(context.Background(), &bill); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-time.Millisecond)
	decide(string(key))
	decide(string(key))
	id := bill.IDText()
	key[0] = 'X' // the buffer is used for something else
	found, ok := r.Find(id)
	if !ok || found.Charge == nil || found.Charge.Key != "user:1" || found.Charge.Group != "user" || found.Reason != weir.Limited || found.Rule != "adhoc" ||
		found.Limit != 1 || found.RetryAfter <= 0 || found.Charge.Limit.String() != "1/min" || found.At.Before(before) {
		t.Errorf("%v %+v", ok, found)
	}
	if d, err := l.Peek(context.Background(), *found.Charge); err != nil || d.Allowed {
		t.Errorf("asked again with what was found: %+v %v", d, err)
	}
	for i := range 3 * Most {
		decide("other " + strconv.Itoa(i))
		decide("other " + strconv.Itoa(i))
	}
	if _, ok := r.Find(id); ok {
		t.Error("it is remembered for ever")
	}
	if found, ok := r.Find(strings.ToUpper(bill.IDText())); !ok || !strings.HasPrefix(found.Charge.Key, "other ") {
		t.Errorf("the last: %v %+v", ok, found)
	}
	for _, bad := range []string{"", "x", id + "00", strings.Repeat("0", 32), strings.Repeat("g", 32)} {
		if _, ok := r.Find(bad); ok {
			t.Errorf("%q was found", bad)
		}
	}
}

// TestARefusalWithoutABill is told without a charge.
func TestARefusalWithoutABill(t *testing.T) {
	r := New()
	b := weir.Bill{Decision: weir.Decision{Reason: weir.Blocked, RetryAfter: weir.Never}}
	b.GiveID()
	r.Observe(context.Background(), weir.Event{Bill: &b})
	if found, ok := r.Find(b.IDText()); !ok || found.Charge != nil || found.Rule != "none" || found.Reason != weir.Blocked {
		t.Errorf("%v %+v", ok, found)
	}
}

// TestABatchIsRememberedAsItsBills: each refusal of it, and nothing else.
func TestABatchIsRememberedAsItsBills(t *testing.T) {
	r := New()
	l, err := weir.New(weir.Options{Observer: r})
	if err != nil {
		t.Fatal(err)
	}
	var bills []*weir.Bill
	for range 6 {
		bills = append(bills, &weir.Bill{Charges: []weir.Charge{weir.PerMinute(3).Charge("k")}})
	}
	if err := l.Decide(context.Background(), bills...); err != nil {
		t.Fatal(err)
	}
	for i, b := range bills {
		if found, ok := r.Find(b.IDText()); ok != (i >= 3) || ok && found.Charge.Key != "k" {
			t.Errorf("bill %d: %v %+v", i, ok, found)
		}
	}
}
