package weir

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/algo"
)

// debts are the units that this instance admitted by itself while the store was
// away (Local and Share), so that a limit does not begin anew when the store is
// back. They are debited there once, at the most down to an empty balance.
//
//	local answer ─▶ open: one debt a balance, its units summed
//	timer ─▶ sent: given an id and its final units ─▶ Store, verb Repay
//	            └ unknown outcome: again, same id ─▶ the store knows the id: nothing
//
// A bill whose outcome in the store is unknown is no debt: it may be charged there
// already, and nothing is charged twice. What time has given back meanwhile is
// not owed any more: the units are at most what this instance's own balance is
// still short of at the time of sending.
//
// They are bounded in bytes; over the bound they are dropped and counted. The
// timer runs only while something is owed. It is the one thing that the root does
// on a goroutine of its own: no caller should wait for other callers' debts.
type debts struct {
	owed   func(*Charge, *algo.Quota) int64 // what this instance's balance is short of
	store  Store
	mu     sync.Mutex // not held while asking the store
	open   map[debtor]*debt
	sent   []*debt // outcome unknown: to be sent again as they are
	flying int64   // units on their way, which are in neither
	bytes  int64
	timer  *time.Timer
	closed bool
	busy   sync.Mutex // held by whoever settles

	settled, dropped int64 // units
}

// debtor is whose balance a debt is to be debited from.
type debtor struct {
	key, space string
	limit      Limit
}

type debt struct {
	charge Charge     // Cost is what is owed; Receipt.ID once sent
	quota  algo.Quota // what it was charged under last: Charge.Limit or a part of it
	since  time.Time
	flown  int64 // what flying counts it as

	unknown bool // a time that it was sent may have debited it, whatever came of later ones
}

const (
	debtBytes   = 16 << 20 // for all debts
	debtWeight  = 480      // of a debt, beside its texts
	debtPause   = 500 * time.Millisecond
	debtPatient = 30 * time.Minute // the store knows ids for an hour
	debtFlight  = 64               // sent together
)

// record takes note of what a local answer debited.
func (d *debts) record(b *Bill) {
	var se *StoreError
	if !errors.As(b.Err, &se) || se.Unknown || !d.store.Caps().Can(algo.Repay) {
		return
	}
	for i := range b.balances {
		bal := &b.balances[i]
		answer := bal.Charge.Limit.failure
		if bal.Debited && bal.Trial == 0 && bal.Cost > 0 && (answer == Local || answer == Share) {
			d.add(bal.Charge, &bal.Quota, bal.Cost)
		}
	}
}

func (d *debts) add(c *Charge, q *algo.Quota, units int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	who := debtor{c.Key, c.Space, c.Limit}
	if old := d.open[who]; old != nil {
		old.charge.Cost += units
		old.quota = *q
		return
	}
	weight := weigh(c)
	if d.closed || d.bytes+weight > debtBytes {
		d.dropped += units
		return
	}
	// The caller's key may live in a buffer that is used again.
	who.key, who.space = strings.Clone(c.Key), strings.Clone(c.Space)
	if d.open == nil {
		d.open = make(map[debtor]*debt)
	}
	d.open[who] = &debt{
		charge: Charge{Key: who.key, Space: who.space, Group: strings.Clone(c.Group), Limit: c.Limit, Cost: units},
		quota:  *q,
	}
	d.bytes += weight
	if d.timer == nil {
		d.timer = time.AfterFunc(pause(), d.settleSoon)
	}
}

func weigh(c *Charge) int64 { return debtWeight + int64(len(c.Key)+len(c.Space)+len(c.Group)) }

// pause is jittered, so that many instances do not come back at one moment.
func pause() time.Duration { return debtPause + rand.N(debtPause) }

// settleSoon is the timer's.
func (d *debts) settleSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*debtPause)
	defer cancel()
	d.settle(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.open)+len(d.sent) == 0 {
		d.timer = nil
		return
	}
	d.timer.Reset(pause())
}

// settle sends debts until the store takes none of a flight or nothing is owed.
func (d *debts) settle(ctx context.Context) {
	d.busy.Lock()
	defer d.busy.Unlock()
	for ctx.Err() == nil {
		flight := d.next()
		if len(flight) == 0 || !d.send(ctx, flight) {
			return
		}
	}
}

// next takes debts to send: those whose outcome is unknown first.
func (d *debts) next() (flight []*debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.sent), debtFlight)
	flight = append(flight, d.sent[:n]...)
	d.sent = append(d.sent[:0], d.sent[n:]...)
	for who, one := range d.open {
		if len(flight) == debtFlight {
			break
		}
		delete(d.open, who)
		flight = append(flight, one)
	}
	for _, one := range flight {
		one.flown = one.charge.Cost // send may find that less is owed
		d.flying += one.flown
	}
	return flight
}

// send has a flight debited and reports whether any of it is done with: one balance that
// cannot be read, or one node that is away, holds up no others.
func (d *debts) send(ctx context.Context, flight []*debt) (some bool) {
	bills := make([]*Bill, 0, len(flight))
	going := flight[:0]
	for _, one := range flight {
		c := &one.charge
		// What has come back by itself is not owed. A store that knows the id does nothing,
		// whatever the cost.
		c.Cost = min(c.Cost, d.owed(c, &one.quota))
		b := &Bill{Verb: algo.Repay, Charges: []Charge{*c}}
		if c.Cost < 1 || b.prepare() != nil {
			d.end(one, 0, 0)
			some = true
			continue
		}
		if c.Receipt.ID == 0 {
			c.Receipt.ID, one.since = rand.Uint64()|1, time.Now()
			b.Charges[0].Receipt = c.Receipt
		}
		going, bills = append(going, one), append(bills, b)
	}
	if len(bills) == 0 {
		return some
	}
	d.store.Apply(ctx, bills)
	for i, one := range going {
		var se *StoreError
		switch err := bills[i].Err; {
		case err == nil:
			d.end(one, one.charge.Cost, 0)
			some = true
		case errors.As(err, &se) && !se.Unknown:
			if !one.unknown {
				one.charge.Receipt.ID = 0 // nothing was charged: its units are found anew
			}
			d.again(one)
		default:
			one.unknown = true
			d.again(one)
		}
	}
	return some
}

// end is done with a debt.
func (d *debts) end(one *debt, settled, dropped int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.land(one)
	d.bytes -= weigh(&one.charge)
	d.settled += settled
	d.dropped += dropped
}

// land takes a debt out of what is on its way. The caller holds mu.
func (d *debts) land(one *debt) {
	d.flying -= one.flown
	one.flown = 0
}

// again keeps a debt for the next time.
func (d *debts) again(one *debt) {
	if one.charge.Receipt.ID != 0 && time.Since(one.since) > debtPatient {
		d.end(one, 0, one.charge.Cost) // the store may no longer know the id
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.land(one)
	if one.charge.Receipt.ID != 0 {
		d.sent = append(d.sent, one)
		return
	}
	who := debtor{one.charge.Key, one.charge.Space, one.charge.Limit}
	if newer := d.open[who]; newer != nil {
		newer.charge.Cost += one.charge.Cost
		d.bytes -= weigh(&one.charge)
		return
	}
	d.open[who] = one
}

// close settles what can be settled in a moment.
func (d *debts) close() {
	d.mu.Lock()
	d.closed = true
	owed := len(d.open)+len(d.sent) > 0
	if d.timer != nil {
		d.timer.Stop()
	}
	d.mu.Unlock()
	if owed {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.settle(ctx)
	}
	d.busy.Lock()   // the timer's run, if there is one
	d.busy.Unlock() //nolint:staticcheck // only to wait for it
}

// counts returns the units still owed, debited, and dropped.
func (d *debts) counts() (owed, settled, dropped int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owed = d.flying
	for _, one := range d.open {
		owed += one.charge.Cost
	}
	for _, one := range d.sent {
		owed += one.charge.Cost
	}
	return owed, d.settled, d.dropped
}
