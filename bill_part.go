package weir

import "slices"

// Part makes b a bill of those balances of whole that pick names by their indexes, for a
// layer that answers for the others itself: it has a store decide b, and Join tells whole
// what came of it. What b was before is overwritten, its room is used again. A try is to be
// picked with the balance that it stands for (Balance.Trial); else it is judged as a
// shadow is.
//
// Part is for layers, during Apply. b belongs to the layer, and to one call at a time.
func (b *Bill) Part(whole *Bill, pick []int) {
	*b = Bill{
		Verb: whole.Verb, MaxWait: whole.MaxWait, Note: whole.Note, NoReceipts: true, // whole has its own
		Charges: b.Charges[:0], Each: resize(b.Each, len(pick)), entry: resize(b.entry, len(pick)), balances: b.balances[:0],
	}
	for k, i := range pick {
		bal := whole.balances[i] // whose Charge stays whole's
		if bal.Trial > 0 {
			if bal.Trial = int8(slices.Index(pick, int(bal.Trial)-1) + 1); bal.Trial == 0 {
				bal.Trial = -1
			}
		}
		c := *bal.Charge
		c.Cost, c.Trial, c.Receipt = bal.Cost, bal.Trial, Receipt{}
		b.Charges, b.balances = append(b.Charges, c), append(b.balances, bal)
		b.entry[k] = int8(k)
	}
}

// Join writes what a store found of b, which Part made with this pick, into whole's
// balances, or its error. If there is none, whole has yet to be settled.
func (b *Bill) Join(whole *Bill, pick []int) {
	whole.Err = b.Err
	for k, i := range pick {
		to, from := &whole.balances[i], &b.balances[k]
		to.View, to.Fits, to.Debited, to.Delay, to.Blocked = from.View, from.Fits, from.Debited, from.Delay, from.Blocked
	}
	for k := range b.Charges { // whoever owns the keys may use their room again
		b.Charges[k], b.balances[k].Charge = Charge{}, nil
	}
	b.Note = nil
}
