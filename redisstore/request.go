package redisstore

import (
	"time"
	"unsafe"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// request is what one caller asks in one flight: some bills, encoded before they
// are queued, since a caller that gave up may reuse its bills while the flight
// is still out. The flight writes outcomes; the caller copies them into its
// bills.
//
// A request of a single bill may be asked by many at once, a seat each: see same.go.
type request struct {
	parts    []part
	keys     []string
	names    []byte // the room that keys stand in
	body     []byte // the parts' arguments, one after the other
	outcomes []outcome
	lane     uint8 // of the queue: from the first bill's group
	weight   int   // of all parts
	seats    int   // who ask it, set when it leaves
	asks     question
}

// newRequest returns an empty request with room for the usual bill.
func newRequest() any {
	room := new(struct {
		request
		parts    [1]part
		keys     [4]string
		names    [usualKey]byte
		body     [160]byte
		text     [64]byte
		outcomes [4]outcome
	})
	r := &room.request
	r.parts, r.keys, r.body, r.outcomes = room.parts[:0], room.keys[:0], room.body[:0], room.outcomes[:0]
	r.names, r.asks.text, r.seats = room.names[:0], room.text[:0], 1
	return r
}

// reset empties the request for another use. It keeps no key alive.
func (r *request) reset() {
	clear(r.keys)
	r.parts, r.keys, r.body, r.outcomes, r.weight = r.parts[:0], r.keys[:0], r.body[:0], r.outcomes[:0], 0
	clear(r.names)
	r.names, r.seats = r.names[:0], 1
	r.asks.forget()
}

// part is one bill of a request.
type part struct {
	single bool // one balance, no trial: may join a run
	count  int  // balances
	key    int  // first in request.keys
	from   int  // arguments in request.body: verb and wait,
	quota  int  // of a single one the quota,
	to     int  // and their end
	ints   int  // how many arguments these are

	status  string // "" decided, or the script's word
	refused string // the server's word for the writes, which holds for those that were debited
	first   int    // first in request.outcomes
}

// outcome is what the script said of one balance.
type outcome struct {
	kind             algo.Kind
	now, at, blocked int64
	flags            int64
	a, b, c, d       int64 // the view, by kind
	forget           int64
	left             int64 // of equal bills: debits left for this seat and those after it
	undo             int64 // debits of the same cost that the view is ahead by
}

// seat returns the outcome of the one at place among those who ask the same: the
// first to come are the ones that were debited.
func (o outcome) seat(place int) outcome {
	switch {
	case o.left > int64(place):
		if o.undo = o.left - 1 - int64(place); o.kind == algo.SlidingLog {
			o.c = 0 // when room comes is for those who are refused
		}
	case o.left > 0: // the last that fitted was before this one
		o.flags &^= flagFits | flagDebited
	}
	return o
}

// The flags of an outcome, as the script sets them.
const (
	flagFits    = 1
	flagDebited = 2
	flagAt      = 4
	flagForget  = 8
	flagStepped = 16
	flagBlocked = 32
)

// weightOf returns what a charge weighs in a flight. Of a log no more is read than
// of others, as a rule; but now and then it is rewritten whole.
func weightOf(k algo.Kind, n int64) int {
	if k != algo.SlidingLog {
		return 1
	}
	return 1 + int(min(n, algo.MaxLog)/256)
}

// add encodes a bill, or those of its balances that pick names, into the request
// and returns its weight. clock tells the time that the store is expected to have,
// which calendar periods alone want to know. With pick, trials are judged as if enforced: who picks says
// when.
func (r *request) add(verb algo.Verb, bill *weir.Bill, pick []int, keys *keyer, clock func() int64) (weight int) {
	balances := bill.Balances()
	n := len(balances)
	if pick != nil {
		n = len(pick)
	}
	p := part{count: n, key: len(r.keys), from: len(r.body), first: len(r.outcomes)}
	p.single = n == 1 && (pick != nil || balances[0].Trial == 0)
	r.int(&p, 1+int64(verb))
	r.int(&p, int64(bill.MaxWait/time.Microsecond))
	p.quota = len(r.body)
	if !p.single {
		r.int(&p, int64(n))
	}
	for i := range n {
		bal := &balances[at(pick, i)]
		if len(r.keys) == 0 {
			r.lane = uint8(keys.group(bal.Charge))
		}
		r.key(keys, bal.Charge)
		if !p.single {
			trial := int64(bal.Trial)
			if pick != nil {
				trial = 0
			}
			r.int(&p, trial)
		}
		r.quota(&p, bal, clock)
		r.outcomes = append(r.outcomes, outcome{kind: bal.Quota.Kind})
		weight += weightOf(bal.Quota.Kind, bal.Quota.N)
	}
	p.to = len(r.body)
	r.parts = append(r.parts, p)
	r.weight += weight
	return weight
}

// at returns the balance that is i-th of pick; a nil pick is all of them.
func at(pick []int, i int) int {
	if pick == nil {
		return i
	}
	return pick[i]
}

// key adds the stored key of c. It stands in the request's own room, since to make a
// string of each costs a sender one part in fifteen. The room is used again when
// nobody holds a key any more: after the flight, of which every call has ended.
func (r *request) key(keys *keyer, c *weir.Charge) {
	from := len(r.names)
	r.names = keys.append(r.names, c) // where it had to grow, older keys stay where they are
	r.keys = append(r.keys, unsafe.String(&r.names[from], len(r.names)-from))
}

func (r *request) int(p *part, n int64) {
	r.body = appendInt(r.body, n)
	p.ints++
}

// quota encodes what a balance is asked, as lua/5_take.lua reads it.
func (r *request) quota(p *part, bal *weir.Balance, clock func() int64) {
	q, d, cost := &bal.Quota, &bal.Debit, bal.Cost
	if bal.Never {
		cost = -1
	}
	r.int(p, int64(q.Kind)+1)
	r.int(p, q.N)
	r.int(p, q.Period)
	r.int(p, cost)
	switch {
	case q.Kind.Bucket():
		r.int(p, q.Capacity)
		for _, span := range []func() (int64, int64){d.Cost, d.Capacity} {
			us, phase := span()
			r.int(p, us)
			r.int(p, phase)
		}
	case q.Kind == algo.FixedWindow && q.Calendar == nil:
		r.int(p, 0)
	case q.Kind == algo.FixedWindow:
		// The period before, this one and the two after: the store's clock may
		// be off from what is expected, and a stored period up to 10 s ahead.
		start, end := q.Calendar.Around(clock())
		before, _ := q.Calendar.Around(start - 1)
		_, next := q.Calendar.Around(end)
		_, last := q.Calendar.Around(next)
		r.int(p, 5)
		for _, edge := range []int64{before, start, end, next, last} {
			r.int(p, edge)
		}
	}
}

// word returns why part i was not decided for the one at place, or "".
func (r *request) word(i, place int) string {
	p := &r.parts[i]
	if p.status != "" || p.refused == "" {
		return p.status
	}
	for j := range p.count {
		if o := r.outcomes[p.first+j].seat(place); o.flags&flagDebited != 0 {
			return p.refused
		}
	}
	return "" // denials and peeks stand
}

// fill writes what the flight found of part i for the one at place into the bill's
// balances, or into those that pick names.
func (r *request) fill(i, place int, bill *weir.Bill, pick []int) {
	p := &r.parts[i]
	balances := bill.Balances()
	for j := range p.count {
		o := &r.outcomes[p.first+j]
		if o.left > 0 { // shared: a copy of one's own
			mine := o.seat(place)
			o = &mine
		}
		o.into(&balances[at(pick, j)])
	}
}

// into writes the outcome into a balance.
func (o *outcome) into(bal *weir.Balance) {
	bal.Fits = o.flags&flagFits != 0
	bal.Debited = o.flags&flagDebited != 0
	bal.Blocked = o.blocked
	v := &bal.View
	*v = algo.View{Now: o.now, At: o.at, Stepped: o.flags&flagStepped != 0}
	q := &bal.Quota
	switch {
	case q.Kind.Bucket():
		v.Full, v.Phase, v.Forget = o.a, o.b, o.forget
		if v.Forget == 0 {
			v.Forget = 1<<63 - 1
		}
		if o.undo > 0 {
			ahead := q.Debit(o.undo * bal.Cost)
			q.Uncharge(v, &ahead)
		}
		if bal.Debited {
			before := *v
			q.Uncharge(&before, &bal.Debit)
			bal.Delay = q.Delay(&before, &bal.Debit)
		}
	case q.Kind == algo.SlidingLog:
		v.Used, v.Newest, v.FreeAt = o.a-o.undo*bal.Cost, o.b, o.c
	default:
		v.Start, v.End, v.Prev, v.Cur = o.a, o.b, o.c, o.d-o.undo*bal.Cost
	}
}
