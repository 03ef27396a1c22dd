// Under the race detector pools drop some of what they are given.

//go:build !race

package lease

import (
	"context"
	"testing"

	"github.com/weirhq/weir"
)

func TestASplitAllocatesNothing(t *testing.T) {
	b := lent(t)
	bill := &weir.Bill{Charges: []weir.Charge{
		weir.Per(100_000, month).Named("tenant").Charge("t"), weir.Per(100_000, month).Charge("own"), weir.Per(100_000, month).Named("all").Charge("a"),
	}}
	list := []*weir.Bill{bill}
	if n := testing.AllocsPerRun(200, func() {
		if err := bill.Check(); err != nil {
			t.Fatal(err)
		}
		b.leases.Apply(context.Background(), list)
		b.leases.Step()
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
