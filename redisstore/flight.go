package redisstore

import "bytes"

// flight is one script call: the requests that fly, their bills in the order in
// which they are encoded, and buffers that a sender reuses.
//
// Bills that ask the same of one balance each form a run: their arguments travel
// and are parsed once. Those of a run that fall on one key are one question, "how
// many of these": the script debits as many as fit and answers once, and each
// bill's own view follows from its place among them, first come first.
//
// The script decides run after run and then the other bills, so bills of different
// shapes change places. Those that share a key must not: a bill joins a run only
// if nothing on its key is decided later, else it begins a run of its own, or
// stands among the other bills. So a flight decides what the same bills, asked one
// by one, would get.
//
// For instance, three callers ask at once under 10/min, two of them for user:1:
//
//	requests  1: take 1 of user:1   2: take 1 of user:1   3: take 1 of user:2
//	keys      user:1 user:2
//	runs      one, "take 1 under 10/min": ask user:1 for 2 bills, ask user:2 for 1
//	reply     now; user:1: 2 were debited, and its state after both; user:2: its state
//	outcomes  1: user:1 with one debit undone   2: user:1   3: user:2
//
// If one unit was left of user:1, the reply says that 1 was debited: request 1 is
// admitted, request 2 is not, and both see the state after that one.
type flight struct {
	requests []*request
	shapes   map[string]int // a single bill's arguments → its run
	shape    []byte         // the shape that came last
	latest   int            // and its run
	runs     []run
	bills    []ref          // the other bills
	keys     []string       // in order of arrival
	index    map[string]int // stored key → position in keys, from 1
	last     []int          // by position: the run that used the key last, or amongBills
	asks     []int          // by position: the key's ask in that run
	names    []string       // the keys in order of use
	sent     []int          // by position: the key's number in names, 0 before its use
	again    []bool         // by position: several runs or bills use the key
	which    []int          // position of each balance's key
	repeats  bool           // some key is used again, so which has to travel
	body     []byte
}

// run is bills of one shape, by key.
type run struct {
	asks   []ask
	merged int // asks of more than one bill
}

// ask is one key of a run and the bills that wait for it, in order of arrival. Who
// asks together with others, in a seat of one request, counts as a bill.
type ask struct {
	key   int // its position
	bills int
	first ref
	more  []ref
}

// ref is a part of a request.
type ref struct{ request, part int }

// amongBills stands in flight.last for a key that a bill outside the runs uses:
// those are decided after every run.
const amongBills = 1 << 30

// mostTogether is how many balances of bills that are alike travel as one: the script
// unpacks their names, and Lua's stack holds some 8,000.
const mostTogether = 1000

func newFlight() *flight {
	return &flight{shapes: make(map[string]int), index: make(map[string]int)}
}

// reset begins a new flight. Keys of the one before are not looked at: they stand in
// rooms of requests that may hold others by now.
func (f *flight) reset(requests []*request) {
	f.requests = requests
	clear(f.shapes)
	f.shape = nil
	f.runs = f.runs[:0]
	f.bills, f.which, f.body, f.repeats = f.bills[:0], f.which[:0], f.body[:0], false
	clear(f.keys)
	f.keys, f.last, f.asks = f.keys[:0], f.last[:0], f.asks[:0]
	clear(f.names)
	f.names, f.sent, f.again = f.names[:0], f.sent[:0], f.again[:0]
	clear(f.index)
}

func (f *flight) part(r ref) (*request, *part) {
	q := f.requests[r.request]
	return q, &q.parts[r.part]
}

// encode lays the requests out as lua/1_take_usual.lua says; a flight of one key
// as 1_take_lone.lua does, with the number of its bills in the place of which.
func (f *flight) encode(notAfter int64) (keys []string, body, which string) {
	for i, q := range f.requests {
		for j := range q.parts {
			if r := (ref{i, j}); !f.join(r) {
				f.stand(r)
			}
		}
	}
	f.body = appendArray(f.body, 0) // the count is filled in below
	f.body = appendInt(f.body, notAfter)
	ints := 1
	for i := range f.runs {
		ints += f.encodeRun(&f.runs[i])
	}
	f.body = appendInt(f.body, 0)
	for from := 0; from < len(f.bills); {
		_, p := f.part(f.bills[from])
		to := from + 1
		for to < len(f.bills) && (to-from)*p.count < mostTogether && f.alike(f.bills[from], f.bills[to]) {
			to++
		}
		ints += f.encodeBills(f.bills[from:to])
		from = to
	}
	f.body = appendInt(f.body, 0)
	if len(f.runs) == 1 && len(f.runs[0].asks) == 1 && len(f.bills) == 0 {
		return f.names, string(f.body[headSize:]), formatInt(int64(f.runs[0].asks[0].bills))
	}
	appendArray(f.body[:0], ints+2)
	if f.repeats {
		w := appendArray(nil, len(f.which))
		for _, at := range f.which {
			number := int64(f.sent[at-1])
			if f.again[at-1] {
				number = -number
			}
			w = appendInt(w, number)
		}
		which = string(w)
	}
	return f.names, string(f.body), which
}

// join adds a bill to the run of its shape, if it may stand in one.
func (f *flight) join(r ref) bool {
	q, p := f.part(r)
	if !p.single {
		return false
	}
	key := f.position(q.keys[p.key])
	last := f.last[key-1]
	if last == amongBills {
		return false
	}
	shape := q.body[p.from:p.to]
	at, ok := f.latest, bytes.Equal(shape, f.shape) // mostly the same again
	if !ok {
		at, ok = f.shapes[string(shape)]
	}
	if !ok || last > at {
		at = f.begin()
		f.shapes[string(shape)] = at
	}
	f.shape, f.latest = shape, at
	run := &f.runs[at]
	if last != at {
		f.last[key-1], f.asks[key-1] = at, len(run.asks)
		run.asks = append(run.asks, ask{key: key, bills: q.seats, first: r})
		if q.seats > 1 {
			run.merged++
		}
		return true
	}
	a := &run.asks[f.asks[key-1]]
	if a.bills == 1 {
		run.merged++
	}
	a.bills += q.seats
	a.more = append(a.more, r)
	return true
}

// begin starts a run, in room of an earlier flight where there is some.
func (f *flight) begin() int {
	at := len(f.runs)
	if at == cap(f.runs) {
		f.runs = append(f.runs, run{})
		return at
	}
	f.runs = f.runs[:at+1]
	run := &f.runs[at]
	run.asks, run.merged = run.asks[:0], 0
	return at
}

// stand adds a bill to those outside the runs: one for each who asks it.
func (f *flight) stand(r ref) {
	q, p := f.part(r)
	for _, key := range q.keys[p.key : p.key+p.count] {
		f.last[f.position(key)-1] = amongBills
	}
	for range q.seats {
		f.bills = append(f.bills, r)
	}
}

// alike reports whether two bills ask the same, of whatever keys.
func (f *flight) alike(a, b ref) bool {
	if a == b {
		return true
	}
	qa, pa := f.part(a)
	qb, pb := f.part(b)
	return pa.single == pb.single && bytes.Equal(qa.body[pa.from:pa.to], qb.body[pb.from:pb.to])
}

// encodeBills encodes bills outside the runs that are alike. A single one has to
// say as well how many balances it has and that it is no trial.
func (f *flight) encodeBills(bills []ref) (ints int) {
	for _, r := range bills {
		q, p := f.part(r)
		for _, key := range q.keys[p.key : p.key+p.count] {
			f.use(f.position(key))
		}
	}
	q, p := f.part(bills[0])
	ints = p.ints + 1
	if p.single {
		f.body = append(f.body, q.body[p.from:p.quota]...)
		f.body = appendInt(appendInt(f.body, 1), 0)
		f.body = append(f.body, q.body[p.quota:p.to]...)
		ints += 2
	} else {
		f.body = append(f.body, q.body[p.from:p.to]...)
	}
	f.body = appendInt(f.body, int64(len(bills)))
	return ints
}

func (f *flight) encodeRun(run *run) (ints int) {
	q, p := f.part(run.asks[0].first)
	f.body = append(f.body, q.body[p.from:p.to]...)
	f.body = appendInt(f.body, int64(len(run.asks)))
	ints = p.ints + 2
	// In the order of the runs and not of arrival, in which shapes alternate.
	for i := range run.asks {
		f.use(run.asks[i].key)
	}
	f.body = appendInt(f.body, int64(run.merged))
	if run.merged == 0 {
		return ints
	}
	for i := range run.asks {
		if n := run.asks[i].bills; n > 1 {
			f.body = appendInt(appendInt(f.body, int64(i+1)), int64(n))
		}
	}
	return ints + 2*run.merged
}

// position returns where a stored key stands among the flight's, from 1.
func (f *flight) position(key string) int {
	at, ok := f.index[key]
	if !ok {
		f.keys = append(f.keys, key)
		f.last, f.asks = append(f.last, -1), append(f.asks, 0)
		f.sent, f.again = append(f.sent, 0), append(f.again, false)
		at = len(f.keys)
		f.index[key] = at
	}
	return at
}

// use notes that the next balance in order is that of the key at position at. Keys
// are sent in the order of their first use.
func (f *flight) use(at int) {
	if f.sent[at-1] == 0 {
		f.names = append(f.names, f.keys[at-1])
		f.sent[at-1] = len(f.names)
	} else if !f.again[at-1] {
		f.again[at-1], f.repeats = true, true
	}
	f.which = append(f.which, at)
}
