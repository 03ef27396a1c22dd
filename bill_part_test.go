package weir

import (
	"context"
	"errors"
	"testing"
)

// A part of a bill is decided by itself, and what came of it is in the whole.
func TestAPartOfABill(t *testing.T) {
	one := PerMinute(1)
	whole := &Bill{Charges: []Charge{one.Charge("a"), withCost(PerMinute(9), "b", 4), {Key: "c", Limit: one, Cost: 1, Trial: 1}}}
	if err := whole.Check(); err != nil {
		t.Fatal(err)
	}
	part, store := new(Bill), NewMemory(MemoryOptions{})
	for _, c := range []struct {
		pick   []int
		trials []int8
	}{{[]int{1, 2}, []int8{0, -1}}, {[]int{2, 0}, []int8{2, 0}}, {[]int{0, 2}, []int8{0, 1}}, {[]int{1}, []int8{0}}} {
		part.Part(whole, c.pick)
		for k, want := range c.trials {
			if bal := &part.Balances()[k]; bal.Trial != want || part.Charges[k].Trial != want || bal.Charge.Key != whole.Balances()[c.pick[k]].Charge.Key {
				t.Errorf("%v: balance %d is a trial of %d, want %d: %+v", c.pick, k, bal.Trial, want, part.Charges[k])
			}
		}
	}
	store.Apply(context.Background(), []*Bill{part})
	part.Join(whole, []int{1})
	if bal := &whole.Balances()[1]; !bal.Debited || !bal.Fits || part.Remaining != 5 || whole.Balances()[0].Debited {
		t.Errorf("%+v, %+v", bal, part.Decision)
	}
	part.Part(whole, []int{1})
	part.Err = ErrClosed
	if part.Join(whole, []int{1}); !errors.Is(whole.Err, ErrClosed) {
		t.Errorf("%v", whole.Err)
	}
}
