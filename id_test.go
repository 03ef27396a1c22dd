package weir_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// TestRefusalsAreNamed: every refusal of a take has an ID of its own that begins
// with the time; what is admitted or only looked at has none.
func TestRefusalsAreNamed(t *testing.T) {
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[16]byte]bool{}
	bill := weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("k")}}
	before := time.Now().UnixMilli()
	for i := range 100 {
		if err := l.Decide(context.Background(), &bill); err != nil {
			t.Fatal(err)
		}
		if named := bill.ID != [16]byte{}; named == bill.Allowed || (bill.IDText() == "") == named {
			t.Fatalf("take %d: allowed %v, ID %q", i, bill.Allowed, bill.IDText())
		}
		if bill.Allowed {
			continue
		}
		if seen[bill.ID] {
			t.Fatalf("%s twice", bill.IDText())
		}
		seen[bill.ID] = true
		if at := int64(binary.BigEndian.Uint64(bill.ID[:]) >> 16); at < before || at > time.Now().UnixMilli() {
			t.Errorf("%s says %d", bill.IDText(), at)
		}
	}
	bill.Verb = algo.Peek
	if err := l.Decide(context.Background(), &bill); err != nil || bill.Allowed || bill.IDText() != "" {
		t.Errorf("a peek: allowed %v, ID %q, %v", bill.Allowed, bill.IDText(), err)
	}
}
