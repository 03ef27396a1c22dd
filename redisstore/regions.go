package redisstore

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// What regions tell each other of balances; package regions carries it. The
// counters and what was heard stand beside the balance, in its slot:
//
//	{prefix}1:{g}:c<rest of the balance's key>[:start]           lua/5_tell.lua
//	{prefix}1:{g}:r<rest of the balance's key>[:start]:<region>  lua/8_hear.lua
//
// A window's counters are its period's, so each period has its own.

// Consumption is what one region took from one balance: what is to be added
// before Tell, and all of its incarnation after it. It names the balance as it is
// stored, so that with a key secret no caller's key leaves the region.
type Consumption struct {
	Balance     string // its stored key without the prefix
	Kind        algo.Kind
	N, Period   int64  // the limit, as package algo has it
	Most        int64  // what its balance holds
	Start, Stop int64  // windows: the period; Stop for calendar periods alone
	Incarnation string // which counter; "" before Tell
	Out, Back   int64  // units debited, and units given back
	Recent      bool   // the counter is younger than what its balance remembers

	Guess bool  // Hear: Out is a guess at what a region that is cut off took
	Debt  int64 // Hear: units by which the balance may be overdrawn
}

// Heard is what came of a Consumption that was heard.
type Heard uint8

// What comes of hearing.
const (
	HeardNothing Heard = iota // nothing that was not known
	HeardDebit
	HeardEarly // its period has not begun by this server's clock: hear it again later
	HeardFault // the balance cannot be read, or is named in a form that this version does not know
)

// Consumed returns c's balance as other regions know it, for units that were
// debited from it (negative: given back) in the period that view shows.
func (s *Store) Consumed(c *weir.Charge, q *algo.Quota, view *algo.View, units int64) Consumption {
	d := Consumption{
		Balance: strings.TrimPrefix(s.keys.balance(c), s.keys.prefix),
		Kind:    q.Kind, N: q.N, Period: q.Period, Most: q.Most(),
	}
	if d.Out = units; units < 0 {
		d.Out, d.Back = 0, -units
	}
	if q.Kind.Window() {
		if d.Start = view.Start; q.Calendar != nil {
			d.Stop = view.End
		}
	}
	return d
}

// Fingerprint identifies the key secret without giving it away: regions whose
// secrets differ do not know each other's balances.
func (s *Store) Fingerprint() string { return s.keys.fingerprint() }

// Prefix returns what the store's keys begin with.
func (s *Store) Prefix() string { return s.keys.prefix }

// refill is how long the limit's balance remembers, from spent to idle.
func (c *Consumption) refill() int64 {
	if !c.Kind.Bucket() {
		return c.Period
	}
	return spanOf(c.Most, c.N, c.Period)
}

// spanOf returns units·period/n, at most a year's microseconds times ten.
func spanOf(units, n, period int64) int64 {
	const most = 10 * 366 * 24 * 3_600_000_000
	hi, lo := bits.Mul64(uint64(units), uint64(period))
	if n <= 0 || hi >= uint64(n) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(n))
	return int64(min(q, most))
}

// leastLife is how long a counter that nobody adds to lives at the least; what
// was heard of it lives heardLonger more, so that it is never forgotten first.
const (
	leastLife   = 10 * time.Minute
	heardLonger = time.Hour
)

// life returns the milliseconds a counter lives.
func (c *Consumption) life() int64 {
	return max(2*c.refill()/1000+1000, leastLife.Milliseconds())
}

// stored returns a key beside the balance, of the consumption's period.
func (c *Consumption) stored(prefix string, kind byte, region string) string {
	key := beside(prefix+c.Balance, kind)
	if c.Start > 0 {
		key += ":" + strconv.FormatInt(c.Start, 10)
	}
	if region != "" {
		key += ":" + region
	}
	return key
}

var errBalance = errors.New("a region named a balance in a form that this one does not know")

// group returns the slot group that the balance's key names.
func (c *Consumption) group() (uint16, error) {
	rest, ok := strings.CutPrefix(c.Balance, "1:{")
	digits, _, found := strings.Cut(rest, "}:")
	g, err := strconv.ParseUint(digits, 10, 16)
	if !ok || !found || err != nil || g >= groups {
		return 0, errBalance
	}
	return uint16(g), nil
}

// batches calls do with what stands on one line, at most most at a time.
func (s *Store) batches(all []*Consumption, most int, do func(group uint16, some []*Consumption) error) error {
	byGroup := make(map[uint16][]*Consumption)
	for _, c := range all {
		g, err := c.group()
		if err != nil {
			return err
		}
		if !s.cluster {
			g = 0
		}
		byGroup[g] = append(byGroup[g], c)
	}
	var errs []error
	for g, some := range byGroup {
		if se := s.line(g).breaker.admit(); se != nil {
			errs = append(errs, se)
			continue
		}
		for len(some) > 0 {
			n := min(len(some), most)
			if err := do(g, some[:n]); err != nil {
				errs = append(errs, err)
				break
			}
			some = some[n:]
		}
	}
	return errors.Join(errs...)
}

// tellTogether bounds a script call, which keeps everybody else waiting.
const tellTogether = 128

// Tell adds what was taken to this region's counters and writes their totals and
// incarnation into it; with Out and Back 0 it only reads. After an error it is
// unknown which were added: those without an Incarnation may or may not be.
func (s *Store) Tell(ctx context.Context, taken []*Consumption) error {
	return s.batches(taken, tellTogether, func(_ uint16, some []*Consumption) error {
		keys := make([]string, 0, len(some))
		body := appendArray(nil, 3*len(some))
		for _, c := range some {
			keys = append(keys, c.stored(s.keys.prefix, 'c', ""))
			body = appendInt(appendInt(appendInt(body, c.Out), c.Back), c.life())
		}
		in, now, err := s.told(ctx, tell, keys, body)
		if err != nil {
			return err
		}
		for _, c := range some {
			_, incarnation := in.value()
			out, back := in.int(), in.int()
			if in.err != nil || len(incarnation) != incarnationLength {
				return errReply
			}
			c.Incarnation, c.Out, c.Back = incarnation, out, back
			born := int64(bigEndian(incarnation[incarnationLength-7:]))
			c.Recent = now-born <= c.refill()
		}
		return nil
	})
}

// incarnationLength is that of run and born in lua/5_tell.lua.
const incarnationLength = 15

// Hear debits what another region took, and returns what came of each. One that
// cannot be debited here keeps none of the others from it.
func (s *Store) Hear(ctx context.Context, region string, taken []*Consumption) (map[*Consumption]Heard, error) {
	outcome := make(map[*Consumption]Heard, len(taken))
	known := make([]*Consumption, 0, len(taken))
	for _, c := range taken {
		if _, err := c.group(); err != nil {
			outcome[c] = HeardFault
			continue
		}
		known = append(known, c)
	}
	err := s.batches(known, tellTogether, func(_ uint16, some []*Consumption) error {
		keys := make([]string, 0, 2*len(some))
		body := appendArray(nil, hearFields*len(some))
		for _, c := range some {
			keys = append(keys, s.keys.prefix+c.Balance, c.stored(s.keys.prefix, 'r', region))
			how := int64(0)
			if c.Guess {
				how++
			}
			if c.Recent {
				how += 2
			}
			body = appendText(appendInt(body, how), c.Incarnation)
			for _, n := range []int64{
				c.Out, c.Back, int64(c.Kind) + 1, c.N, c.Period, c.Most, c.Start, c.Stop,
				spanOf(c.Debt, c.N, c.Period), c.Debt, c.life() + heardLonger.Milliseconds(),
			} {
				body = appendInt(body, n)
			}
		}
		in, _, err := s.told(ctx, hear, keys, body)
		if err != nil {
			return err
		}
		for _, c := range some {
			outcome[c] = Heard(in.int())
		}
		return in.err
	})
	return outcome, err
}

// hearFields is FIELDS of lua/8_hear.lua.
const hearFields = 13

// told runs one of the two scripts and reads the head of its reply.
func (s *Store) told(ctx context.Context, which func(*scripts) *script, keys []string, body []byte) (in reader, now int64, err error) {
	reply, err := s.run(ctx, which, keys, []string{string(body)})
	if err != nil {
		return in, 0, storeError(err)
	}
	in = reader{rest: reply}
	in.array()
	now = in.int()
	if _, word := in.value(); word != "" {
		return in, now, replyError(word)
	}
	return in, now, in.err
}

func tell(s *scripts) *script { return &s.tell }
func hear(s *scripts) *script { return &s.hear }
