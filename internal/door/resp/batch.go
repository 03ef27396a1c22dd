package resp

import (
	"context"
	"strconv"
	"sync"
	"unsafe"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// batch is what the commands waiting on a connection come to: bills to be
// decided together, and the replies in order. It comes from a pool and belongs
// to one goroutine.
type batch struct {
	ops   []op
	text  []byte // replies that are ready
	bills []*weir.Bill
	used  int // of bills
	out   []byte
}

// ask is a bill of one charge with its room in one piece, which memory brings near
// by itself as one ask is written after the other.
type ask struct {
	bill   weir.Bill
	charge [1]weir.Charge
	each   [1]weir.Decision
}

// asksAtOnce is how many asks are made together.
const asksAtOnce = 16

// op is one reply: text[from:to], or the decision on a bill in some form.
type op struct {
	form     form
	bill     int
	from, to int
	proto    int
}

type form uint8

const (
	ready form = iota
	cell       // the five integers of redis-cell
	take       // the six of WEIR.TAKE
)

// mostBills bounds what is decided in one call.
const mostBills = 256

var batches = sync.Pool{New: func() any { return new(batch) }}

// maxKept is how much room for replies a batch takes back to the pool.
const maxKept = 64 << 10

func (b *batch) release() {
	if cap(b.out) > maxKept || cap(b.text) > maxKept {
		return
	}
	b.out, b.text, b.ops = b.out[:0], b.text[:0], b.ops[:0]
	batches.Put(b)
}

// reply adds a reply that is ready: what write appends.
func (b *batch) reply(write func(to []byte) []byte) {
	from := len(b.text)
	b.text = write(b.text)
	b.ops = append(b.ops, op{form: ready, from: from, to: len(b.text)})
}

// raw adds a reply as it goes over the wire.
func (b *batch) raw(s string) {
	from := len(b.text)
	b.text = append(b.text, s...)
	b.ops = append(b.ops, op{form: ready, from: from, to: len(b.text)})
}

func (b *batch) ok()              { b.raw("+OK\r\n") }
func (b *batch) fail(text string) { b.raw("-" + text + "\r\n") }

// note tells observers of the door.
type note struct{}

// DoorName names the door.
func (*note) DoorName() string { return "resp" }

// RuleName returns nothing: limits here come with the command.
func (*note) RuleName(int) string { return "" }

// RouteName returns nothing: there are no paths here.
func (*note) RouteName(int) string { return "" }

// IsTry returns false: there are no tries here.
func (*note) IsTry(int) bool { return false }

// TenantName returns nothing: keys here are the caller's own.
func (*note) TenantName() string { return "" }

// PlanName returns nothing: keys here are the caller's own.
func (*note) PlanName() string { return "" }

var noted = new(note)

// ask adds a bill of one charge. key may point into the read buffer, which stays
// as it is until the batch is decided; nothing keeps it for longer.
func (b *batch) ask(f form, proto int, key []byte, limit *weir.Limit, cost int64, space string) {
	if b.used == len(b.bills) {
		more := new([asksAtOnce]ask)
		for i := range more {
			a := &more[i]
			a.bill = weir.Bill{Charges: a.charge[:], Each: a.each[:0], NoReceipts: true, Note: noted}
			b.bills = append(b.bills, &a.bill)
		}
	}
	c := &b.bills[b.used].Charges[0]
	c.Key = unsafe.String(unsafe.SliceData(key), len(key))
	c.Limit, c.Cost, c.Peek, c.Space = *limit, cost, cost == 0, space
	b.ops = append(b.ops, op{form: f, bill: b.used, proto: proto})
	b.used++
}

// decide has the bills decided and appends all replies to out.
func (b *batch) decide(ctx context.Context, l *weir.Limiter) {
	var err error
	if b.used > 0 {
		err = l.Decide(ctx, b.bills[:b.used]...)
	}
	for i := range b.ops {
		o := &b.ops[i]
		switch {
		case o.form == ready:
			b.out = append(b.out, b.text[o.from:o.to]...)
		case err != nil: // the limiter is closed: input has been looked at before
			b.out = append(b.out, "-ERR the limiter does not decide any more\r\n"...)
		case o.form == cell:
			b.out = appendCell(b.out, &b.bills[o.bill].Decision)
		default:
			b.out = appendTake(b.out, &b.bills[o.bill].Decision, o.proto)
		}
	}
	for _, bill := range b.bills[:b.used] {
		bill.Charges[0].Key = "" // its text is in the read buffer
		bill.Err = nil
	}
	b.used, b.ops, b.text = 0, b.ops[:0], b.text[:0]
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// appendTake writes [allowed, limit, remaining, retry_after_ms, reset_after_ms,
// delay_ms]; limit and remaining are null where there is none.
func appendTake(to []byte, d *weir.Decision, proto int) []byte {
	to = append(to, "*6\r\n"...)
	to = appendInteger(to, flag(d.Allowed))
	if d.Limit == weir.Unbounded {
		to = appendNull(appendNull(to, proto), proto)
	} else {
		to = appendInteger(appendInteger(to, d.Limit), d.Remaining)
	}
	to = appendInteger(to, headers.Milliseconds(d.RetryAfter))
	to = appendInteger(to, headers.Milliseconds(d.ResetAfter))
	return appendInteger(to, headers.Milliseconds(d.Delay))
}

// appendInteger writes short numbers, which nearly all are, digit by digit: numbers are
// most of what a reply costs.
func appendInteger(to []byte, n int64) []byte {
	if n < 0 || n > 9999 {
		return append(strconv.AppendInt(append(to, ':'), n, 10), '\r', '\n')
	}
	d := uint32(n)
	switch {
	case d < 10:
		return append(to, ':', digit(d), '\r', '\n')
	case d < 100:
		return append(to, ':', digit(d/10), digit(d), '\r', '\n')
	case d < 1000:
		return append(to, ':', digit(d/100), digit(d/10), digit(d), '\r', '\n')
	default:
		return append(to, ':', digit(d/1000), digit(d/100), digit(d/10), digit(d), '\r', '\n')
	}
}

// digit is the last one of n.
func digit(n uint32) byte { return byte('0' + n%10) }

func appendNull(to []byte, proto int) []byte {
	if proto == 3 {
		return append(to, "_\r\n"...)
	}
	return append(to, "$-1\r\n"...)
}

func appendBulk[T []byte | string](to []byte, s T) []byte {
	to = strconv.AppendInt(append(to, '$'), int64(len(s)), 10)
	to = append(append(to, '\r', '\n'), s...)
	return append(to, '\r', '\n')
}

// appendCount begins an array, or with kind % a map of n pairs, which before
// RESP3 is an array of twice as many.
func appendCount(to []byte, kind byte, n, proto int) []byte {
	if kind == '%' && proto == 2 {
		kind, n = '*', 2*n
	}
	return append(strconv.AppendInt(append(to, kind), int64(n), 10), '\r', '\n')
}
