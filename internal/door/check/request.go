package check

import (
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/identity"
)

// The bounds of this door. A bill's number of charges is the limiter's to bound
// as well; it is bounded here so that a body never makes a larger one.
const (
	maxBody    = 1 << 20
	maxCharges = 32
	maxBills   = 1000
	maxKey     = 1024
)

// request is a bill as its body describes it.
type request struct {
	bill    weir.Bill
	single  bool // {"key","limit","cost"}: paths of errors have no charges[0]
	receipt bool // asked for receipts
}

var billFields = []string{"key", "limit", "cost", "charges", "receipt"}

// readBill reads a bill. verb is what it is for.
func (w *walker) readBill(verb algo.Verb) (*request, error) {
	r := &request{bill: weir.Bill{Verb: verb}}
	var one weir.Charge
	var given [4]bool
	one.Cost = 1
	err := w.object(billFields, func(field int) (err error) {
		if field < len(given) {
			given[field] = true
		}
		switch field {
		case 3:
			return w.array(maxCharges, func(int) error {
				c, err := w.readCharge()
				r.bill.Charges = append(r.bill.Charges, c)
				return err
			})
		case 4:
			r.receipt, err = w.boolean()
			return err
		}
		return w.chargeField(field, &one)
	})
	if err != nil {
		return nil, err
	}
	if given[3] {
		for i, name := range billFields[:3] {
			if given[i] {
				return nil, within(name, wrong("does not go with charges; a bill has either key and limit or charges"))
			}
		}
		if len(r.bill.Charges) == 0 {
			return nil, within("charges", wrong("is empty; a bill needs at least one charge"))
		}
		return r, nil
	}
	r.single = true
	if err := complete(given[:2]); err != nil {
		return nil, err
	}
	one.Peek = one.Cost == 0
	r.bill.Charges = []weir.Charge{one}
	return r, nil
}

// readCharge reads one element of charges.
func (w *walker) readCharge() (weir.Charge, error) {
	c := weir.Charge{Cost: 1}
	var given [3]bool
	err := w.object(billFields[:3], func(field int) error {
		given[field] = true
		return w.chargeField(field, &c)
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
			return within(billFields[i], wrong("is missing"))
		}
	}
	return nil
}

// chargeField reads the value of one of the first three billFields.
func (w *walker) chargeField(field int, c *weir.Charge) (err error) {
	switch field {
	case 0:
		c.Key, err = w.key()
	case 1:
		c.Limit, err = w.limit()
	case 2:
		c.Cost, err = w.cost(0)
	}
	return err
}

func (w *walker) key() (string, error) {
	key, err := w.string()
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", wrong("is empty")
	case len(key) > maxKey:
		return "", wrong(fmt.Sprintf("has %d bytes; at most %d are allowed", len(key), maxKey))
	}
	return key, nil
}

func (w *walker) cost(least int64) (int64, error) {
	n, err := w.integer()
	switch {
	case err != nil:
		return 0, err
	case n < least || n > algo.MaxCost:
		return 0, wrong(fmt.Sprintf("must lie between %d and %d", least, int64(algo.MaxCost)))
	}
	return n, nil
}

var limitFields = []string{"rate", "burst", "algorithm", "name", "on_store_failure", "tz"}

// limit reads a limit, as a string or as an object with the same words.
func (w *walker) limit() (weir.Limit, error) {
	var text string
	switch w.peek() {
	case '"':
		s, err := w.string()
		if err != nil {
			return weir.Limit{}, err
		}
		text = s
	case '{':
		s, err := w.limitObject()
		if err != nil {
			return weir.Limit{}, err
		}
		text = s
	default:
		return weir.Limit{}, wrong(`must be a limit such as "100/min", or an object with rate`)
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		return l, unnamed(err)
	}
	return l, nil
}

// unnamed drops the field of err, which the caller names better.
func unnamed(err error) error {
	if input := (*weir.InputError)(nil); errors.As(err, &input) {
		return wrong(input.Problem)
	}
	return err
}

// limitObject returns the object's words as a limit string. No value may hold a
// space, so none can bring in an option of its own.
func (w *walker) limitObject() (string, error) {
	words := make([]string, len(limitFields))
	err := w.object(limitFields, func(field int) error {
		if limitFields[field] == "burst" {
			n, err := w.integer()
			words[field] = fmt.Sprintf("burst=%d", n)
			return err
		}
		s, err := w.string()
		switch {
		case err != nil:
			return err
		case s == "" || strings.ContainsAny(s, " \t\r\n"):
			return wrong("must be one word")
		}
		if words[field] = s; field > 0 {
			words[field] = limitFields[field] + "=" + s
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if words[0] == "" {
		return "", within("rate", wrong("is missing"))
	}
	given := words[:0]
	for _, word := range words {
		if word != "" {
			given = append(given, word)
		}
	}
	return strings.Join(given, " "), nil
}

// refundRequest is the body of refund.
type refundRequest struct {
	receipt string
	cost    int64 // 0 for all that is owed
}

func (w *walker) readRefund() (r refundRequest, err error) {
	err = w.object([]string{"receipt", "cost"}, func(field int) (err error) {
		if field == 0 {
			r.receipt, err = w.string()
		} else {
			r.cost, err = w.cost(1)
		}
		return err
	})
	if err == nil && r.receipt == "" {
		err = within("receipt", wrong("is missing"))
	}
	return r, err
}

// checkRequest is the body of check: a request described by someone who has it.
type checkRequest struct {
	call    identity.Call
	receipt bool
}

// header is a described request's header fields.
type header map[string][]string

// Values implements identity.Header.
func (h header) Values(name string) []string { return h[textproto.CanonicalMIMEHeaderKey(name)] }

func (w *walker) readCheck() (*checkRequest, error) {
	r := &checkRequest{call: identity.Call{Method: "GET", Path: "/"}}
	h := make(header)
	r.call.Header = h
	names := []string{"method", "path", "host", "ip", "headers", "attrs", "cost", "receipt"}
	err := w.object(names, func(field int) (err error) {
		switch names[field] {
		case "method":
			r.call.Method, err = w.filled()
		case "path":
			err = w.target(&r.call)
		case "host":
			r.call.Host, err = w.string()
		case "ip":
			r.call.Peer, err = w.address()
		case "headers":
			err = w.headers(h)
		case "attrs":
			r.call.Attrs = make(map[string]string)
			err = w.dictionary(func(name string) (err error) {
				r.call.Attrs[name], err = w.string()
				return err
			})
		case "cost":
			r.call.Cost, err = w.cost(0)
			r.call.Peek = r.call.Cost == 0
		case "receipt":
			r.receipt, err = w.boolean()
		}
		return err
	})
	return r, err
}

func (w *walker) filled() (string, error) {
	s, err := w.string()
	if err == nil && s == "" {
		err = wrong("is empty")
	}
	return s, err
}

// target reads a path, which may have a query behind it.
func (w *walker) target(call *identity.Call) error {
	s, err := w.string()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(s, "/") && s != "*" {
		return wrong("must begin with /")
	}
	// A # stays in the path, where it is a letter to some servers.
	call.Path, s, _ = strings.Cut(s, "?")
	call.Query, _, _ = strings.Cut(s, "#")
	return nil
}

func (w *walker) address() (netip.Addr, error) {
	s, err := w.string()
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, wrong("must be an IP address, without a port")
	}
	return a, nil
}

func (w *walker) headers(h header) error {
	return w.dictionary(func(name string) error {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, again := h[canonical]; again {
			return wrong("is given twice, in another spelling")
		}
		h[canonical] = []string{}
		return w.array(maxBody, func(int) error {
			v, err := w.string()
			h[canonical] = append(h[canonical], v)
			return err
		})
	})
}
