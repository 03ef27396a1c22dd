package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// command carries out refund, reset, block and repay, charge by charge: these are rare
// and do not fly with the takes.
func (s *Store) command(ctx context.Context, b *weir.Bill) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	for i := range b.Charges {
		c := &b.Charges[i]
		if c.Limit.IsUnlimited() {
			continue
		}
		var err error
		switch b.Verb {
		case algo.Refund:
			err = s.refund(ctx, c)
		case algo.Reset:
			_, err = s.ask(ctx, c, "reset", formatInt(int64(c.Limit.Period()/time.Microsecond)))
		case algo.Block:
			_, err = s.ask(ctx, c, "block", formatInt(int64(b.BlockFor/time.Microsecond)),
				formatInt(int64(c.Limit.Period()/time.Microsecond)))
		case algo.Repay:
			err = s.repay(ctx, c)
		default:
			err = &weir.StoreError{Kind: "unsupported"}
		}
		if err != nil {
			b.Err = storeError(err)
			return
		}
	}
}

// ask runs the command script on a charge's balance and returns what follows
// the clock and the error in the reply.
func (s *Store) ask(ctx context.Context, c *weir.Charge, args ...string) (rest reader, err error) {
	l := s.line(s.keys.group(c))
	if se := l.breaker.admit(); se != nil {
		return rest, se
	}
	key := s.keys.balance(c)
	keys := []string{key, beside(key, 'g'), beside(key, 'o')}
	if args[0] == "repay" {
		keys = append(keys, beside(key, 'd'))
	}
	reply, err := s.run(ctx, commandText, keys, args)
	for err != nil {
		text, ok := refusal(err)
		if isMoving(text) && wait(ctx, movingPause) { // these keys are of no use one by one
			reply, err = s.run(ctx, commandText, keys, args)
			continue
		}
		if ok {
			return rest, replyError(text)
		}
		return rest, err
	}
	in := reader{rest: reply}
	in.array()
	l.learn(in.int())
	if _, word := in.value(); word != "" {
		return rest, replyError(word)
	}
	return in, in.err
}

// askTwice is ask for what depends on the clock there: where the periods that
// args sends do not hold it, it is known afterwards, and args is asked for anew.
func (s *Store) askTwice(ctx context.Context, c *weir.Charge, args func() []string) (rest reader, err error) {
	rest, err = s.ask(ctx, c, args()...)
	var se *weir.StoreError
	if errors.As(err, &se) && se.Kind == "calendar" {
		rest, err = s.ask(ctx, c, args()...)
	}
	return rest, err
}

// refund gives back what a receipt still owes.
func (s *Store) refund(ctx context.Context, c *weir.Charge) error {
	r := &c.Receipt
	units := r.Cost
	if c.Cost > 0 {
		units = min(units, c.Cost)
	}
	q := c.Limit.Quota()
	if units < 1 || q.N == 0 {
		return nil
	}
	in, err := s.askTwice(ctx, c, func() []string {
		return []string{"refund", receiptID(r), formatInt(r.At), formatInt(r.Due), formatInt(r.Phase),
			formatInt(units), s.encodeQuota(c, q, units)}
	})
	if err != nil {
		return err
	}
	if in.rest == "" {
		return errors.New("the refund's reply is too short")
	}
	us, phase := in.int(), in.int()
	r.Refunded = us
	if q.Kind.Bucket() {
		r.Refunded = q.Units(us, phase)
	}
	return in.err
}

// repay debits c.Cost once, by the receipt's id, as far as the balance goes.
func (s *Store) repay(ctx context.Context, c *weir.Charge) error {
	q := c.Limit.Quota()
	if c.Cost < 1 || q.N == 0 {
		return nil
	}
	_, err := s.askTwice(ctx, c, func() []string {
		return []string{"repay", receiptID(&c.Receipt), s.encodeQuota(c, q, c.Cost)}
	})
	return err
}

// encodeQuota encodes c's quota q and the spans of units for the command script.
func (s *Store) encodeQuota(c *weir.Charge, q algo.Quota, units int64) string {
	bal := weir.Balance{Charge: c, Quota: q, Cost: min(units, q.Most())}
	bal.Measure()
	var enc request
	var p part
	enc.quota(&p, &bal, s.line(s.keys.group(c)).expected)
	return string(append(appendArray(nil, p.ints), enc.body...))
}

func receiptID(r *weir.Receipt) string { return string(binary.BigEndian.AppendUint64(nil, r.ID)) }

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
