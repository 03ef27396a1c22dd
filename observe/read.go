// Package observe holds what observers have in common: how an event is read.
//
// Observers run on the goroutine of whoever asked, so they keep nothing of an
// event, allocate nothing in the usual case and never wait: what has to be sent
// somewhere is copied into a bounded buffer, and what does not fit is counted.
package observe

import (
	"context"
	"time"
	"unsafe"

	"github.com/weirhq/weir"
)

// Batch is what an observer may be besides: one that hears of all bills of a call
// at once, and of elapsed, which it took for all of them.
type Batch interface {
	ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration)
}

// Note is what a door leaves in Bill.Note: of which door and rules a bill is.
// gate.Verdict is one.
type Note interface {
	DoorName() string
	RuleName(i int) string // of charge i; of -1, of the rule that refused without a bill
}

// Details is what a Note may know besides, and the gate's does.
type Details interface {
	RouteName(i int) string // the pattern by which the rule of charge i matched
	IsTry(i int) bool       // charge i is the try of the live charge before it
	TenantName() string
	PlanName() string
}

// Door is the Note of a bill that came through a door and is of no rule. It is
// used as a pointer, which costs nothing to put into Bill.Note.
type Door string

// DoorName implements Note.
func (d *Door) DoorName() string { return string(*d) }

// RuleName implements Note.
func (*Door) RuleName(int) string { return "" }

type nothing struct{}

func (nothing) RouteName(int) string { return "" }
func (nothing) IsTry(int) bool       { return false }
func (nothing) TenantName() string   { return "" }
func (nothing) PlanName() string     { return "" }

// DetailsOf returns what else n knows, which may be nothing.
func DetailsOf(n Note) Details {
	if d, ok := n.(Details); ok {
		return d
	}
	return nothing{}
}

// Adhoc is the rule of bills that no rule made, such as those of take.
const Adhoc = "adhoc"

var library Door = "go"

// NoteOf returns the note of e's bill; one that has none was asked for in Go.
func NoteOf(e *weir.Event) Note {
	if n, ok := e.Bill.Note.(Note); ok {
		return n
	}
	return &library
}

// SameNote reports whether two bills hold one and the same note, as those of a batch
// mostly do. Equal notes that are two are none: nothing is compared but where they
// are, since a note may be of a type that cannot be.
func SameNote(a, b *weir.Bill) bool {
	type words [2]uintptr // of an interface: its type and where the value is
	return *(*words)(unsafe.Pointer(&a.Note)) == *(*words)(unsafe.Pointer(&b.Note))
}

// Rule returns the name of the rule that decided the bill.
func Rule(n Note, b *weir.Bill) string {
	i := int(b.Binding)
	if len(b.Each) == 0 { // refused without a bill
		i = -1
	}
	name := n.RuleName(i)
	switch {
	case name != "":
	case i < 0:
		name = "none" // the caller is switched off
	default:
		name = Adhoc
	}
	return name
}

// Charge returns the charge that decided the bill, or nil if none did.
func Charge(b *weir.Bill) *weir.Charge {
	if len(b.Each) == 0 {
		return nil
	}
	return &b.Charges[b.Binding]
}
