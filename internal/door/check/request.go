package check

import (
	"sync"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/observe"
)

// maxBills bounds a batch.
const maxBills = 1000

// request is a bill as its body describes it.
type request struct {
	bill    weir.Bill
	single  bool // {"key","limit","cost"}: paths of errors have no charges[0]
	receipt bool // asked for receipts

	outcomes []Outcome // room for the answer's charges
	text     []byte    // and for its body
}

// requests are used again, with the room that their bills and answers have grown.
var requests = sync.Pool{New: func() any { return new(request) }}

// mostKept is how many charges a request has room for that is used again.
const mostKept = 8

// release gives q back once it is answered. No caller's key stays behind.
func (q *request) release() {
	if cap(q.bill.Charges) > mostKept {
		return
	}
	clear(q.bill.Charges)
	q.bill.Err = nil
	requests.Put(q)
}

var billFields = []string{"key", "limit", "cost", "charges", "receipt"}

// doorNote tells observers of which door a bill is that no rule made.
var doorNote observe.Door = "http"

// readBill reads a bill into r. verb is what it is for.
func readBill(b *api.Body, verb algo.Verb, r *request) error {
	r.single, r.receipt = false, false
	r.bill.Verb, r.bill.Note, r.bill.Charges = verb, &doorNote, r.bill.Charges[:0]
	var one weir.Charge
	var given [4]bool
	one.Cost = 1
	err := b.Object(billFields, func(field int) (err error) {
		if field < len(given) {
			given[field] = true
		}
		switch field {
		case 3:
			return b.Array(algo.MaxCharges, func(int) error {
				c, err := readCharge(b)
				r.bill.Charges = append(r.bill.Charges, c)
				return err
			})
		case 4:
			r.receipt, err = b.Truth()
			return err
		}
		return chargeField(b, field, &one)
	})
	if err != nil {
		return err
	}
	if given[3] {
		for i, name := range billFields[:3] {
			if given[i] {
				return api.Within(name, api.Wrong("does not go with charges; a bill has either key and limit or charges"))
			}
		}
		if len(r.bill.Charges) == 0 {
			return api.Within("charges", api.Wrong("is empty; a bill needs at least one charge"))
		}
		r.bill.NoReceipts = !r.receipt
		return nil
	}
	r.single = true
	if err := complete(given[:2]); err != nil {
		return err
	}
	one.Peek = one.Cost == 0
	r.bill.Charges = append(r.bill.Charges, one)
	r.bill.NoReceipts = !r.receipt
	return nil
}

// readCharge reads one element of charges.
func readCharge(b *api.Body) (weir.Charge, error) {
	c := weir.Charge{Cost: 1}
	var given [3]bool
	err := b.Object(billFields[:3], func(field int) error {
		given[field] = true
		return chargeField(b, field, &c)
	})
	if err == nil {
		err = complete(given[:2])
	}
	c.Peek = c.Cost == 0
	return c, err
}

func complete(given []bool) error {
	for i, ok := range given {
		if !ok {
			return api.Within(billFields[i], api.Wrong("is missing"))
		}
	}
	return nil
}

// chargeField reads the value of one of the first three billFields.
func chargeField(b *api.Body, field int, c *weir.Charge) (err error) {
	switch field {
	case 0:
		c.Key, err = b.Key()
	case 1:
		c.Limit, err = b.Limit()
	case 2:
		c.Cost, err = b.Cost(0)
	}
	return err
}

// refundRequest is the body of refund.
type refundRequest struct {
	receipt string
	cost    int64 // 0 for all that is owed
}

func readRefund(b *api.Body) (r refundRequest, err error) {
	err = b.Object([]string{"receipt", "cost"}, func(field int) (err error) {
		if field == 0 {
			r.receipt, err = b.Text()
		} else {
			r.cost, err = b.Cost(1)
		}
		return err
	})
	if err == nil && r.receipt == "" {
		err = api.Within("receipt", api.Wrong("is missing"))
	}
	return r, err
}
