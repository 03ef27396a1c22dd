package check

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/internal/door/api"
)

func (d *door) take(w http.ResponseWriter, r *http.Request) { d.decide(w, r, algo.Take) }
func (d *door) peek(w http.ResponseWriter, r *http.Request) { d.decide(w, r, algo.Peek) }

func (d *door) decide(w http.ResponseWriter, r *http.Request, verb algo.Verb) {
	q := requests.Get().(*request)
	defer q.release()
	if !api.Read(w, r, func(body *api.Body) error { return readBill(body, verb, q) }) {
		return
	}
	if err := d.Limiter.Decide(r.Context(), &q.bill); err != nil {
		api.Fail(w, q.placed(err))
		return
	}
	a := d.answerTo(q)
	q.text = d.answer(w, &q.bill, &a, nil, q.text)
}

// placed puts err's path into the words of the body.
func (q *request) placed(err error) error {
	var input *weir.InputError
	if q.single && errors.As(err, &input) {
		return &weir.InputError{Field: strings.TrimPrefix(input.Field, "charges[0]."), Problem: input.Problem}
	}
	return err
}

func (d *door) answerTo(q *request) Answer {
	a := answerTo(&q.bill, q.outcomes)
	q.outcomes = a.Charges
	if q.receipt {
		a.sign(d.receipts, &q.bill)
	}
	return a
}

// answer writes a decision with its status and header fields, and returns room
// with the text of the body in it. The status is not that of the policy's denied:,
// which is for callers and not for who asks about them.
func (d *door) answer(w http.ResponseWriter, b *weir.Bill, a *Answer, shows []headers.Show, room []byte) []byte {
	h := d.Format().Answer(b, shows)
	h.Write(w.Header())
	room = append(a.append(room[:0]), '\n')
	api.WriteText(w, h.Meant(), room)
	return room
}

// fault stands in a batch for a bill that was bad.
type fault struct {
	Error string `json:"error"`
	Field string `json:"field"`
}

// faultOf names the field within bill i, or the bill where it is wrong as a whole.
func faultOf(err error, i int) fault {
	f := fault{Error: err.Error()}
	var input *weir.InputError
	if errors.As(err, &input) {
		f = fault{input.Problem, input.Field}
	}
	if f.Field == "" {
		f.Field = "bills[" + strconv.Itoa(i) + "]"
	}
	return f
}

func (d *door) batch(w http.ResponseWriter, r *http.Request) {
	var requests []*request // nil where the bill is bad
	var decisions []any
	given := false
	if !api.Read(w, r, func(body *api.Body) error {
		err := body.Object([]string{"bills"}, func(int) error {
			given = true
			return body.Array(maxBills, func(int) error {
				q := new(request)
				err := body.Alone(func() error { return readBill(body, algo.Take, q) })
				if err != nil {
					q = nil
				}
				requests, decisions = append(requests, q), append(decisions, nil)
				if err != nil {
					decisions[len(decisions)-1] = faultOf(err, len(decisions)-1)
				}
				return nil
			})
		})
		if err == nil && !given {
			err = api.Within("bills", api.Wrong("is missing"))
		}
		return err
	}) {
		return
	}
	if err := d.decideAll(r, requests, decisions); err != nil {
		api.Fail(w, err)
		return
	}
	if decisions == nil {
		decisions = []any{}
	}
	api.Write(w, http.StatusOK, struct {
		Decisions []any `json:"decisions"`
	}{decisions})
}

// decideAll decides the good bills in one call and writes their answers.
func (d *door) decideAll(r *http.Request, requests []*request, decisions []any) error {
	bills := make([]*weir.Bill, 0, len(requests))
	for i, q := range requests {
		if q == nil {
			continue
		}
		// Decide refuses the whole call for one bad bill, so each is looked at
		// before.
		if err := q.bill.Check(); err != nil {
			decisions[i] = faultOf(q.placed(err), i)
			requests[i] = nil
			continue
		}
		bills = append(bills, &q.bill)
	}
	if len(bills) == 0 {
		return nil
	}
	if err := d.Limiter.Decide(r.Context(), bills...); err != nil {
		return err
	}
	for i, q := range requests {
		if q != nil {
			decisions[i] = d.answerTo(q)
		}
	}
	return nil
}

func (d *door) refund(w http.ResponseWriter, r *http.Request) {
	var q refundRequest
	if !api.Read(w, r, func(body *api.Body) (err error) { q, err = readRefund(body); return err }) {
		return
	}
	charge, err := d.receipts.charge(q.receipt)
	if errors.Is(err, errNoSecret) {
		api.Refuse(w, api.Problem{Status: http.StatusServiceUnavailable, Detail: err.Error()})
		return
	}
	if err != nil {
		api.Fail(w, api.Within("receipt", api.Wrong(err.Error())))
		return
	}
	charge.Cost = q.cost
	charges := []weir.Charge{charge}
	if err := d.Limiter.Refund(r.Context(), charges...); err != nil {
		api.Fail(w, err)
		return
	}
	api.Write(w, http.StatusOK, struct {
		Refunded int64 `json:"refunded"`
	}{charges[0].Receipt.Refunded})
}

func (d *door) check(w http.ResponseWriter, r *http.Request) {
	var q *api.Described
	if !api.Read(w, r, func(body *api.Body) (err error) { q, err = body.Described(); return err }) {
		return
	}
	v := gate.Get()
	defer gate.Put(v)
	v.Door = "http"
	if err := d.Gate.Decide(r.Context(), &q.Call, v); err != nil {
		api.Fail(w, err)
		return
	}
	a := AnswerTo(&v.Bill)
	if q.Receipt {
		a.sign(d.receipts, &v.Bill)
	}
	for i := range a.Charges {
		a.Charges[i].Rule = v.Rules[i].Name
	}
	if v.Rule != nil {
		a.Rule = v.Rule.Name
	}
	d.answer(w, &v.Bill, &a, api.Shows(v), nil)
}

func (d *door) healthz(w http.ResponseWriter, _ *http.Request) {
	api.Write(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"alive"})
}

func (d *door) readyz(w http.ResponseWriter, r *http.Request) {
	s := d.Status(r.Context())
	status := http.StatusOK
	if !s.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, status, s)
}
