package check

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/door/guard"
)

func (d *door) take(w http.ResponseWriter, r *http.Request) { d.decide(w, r, algo.Take) }
func (d *door) peek(w http.ResponseWriter, r *http.Request) { d.decide(w, r, algo.Peek) }

func (d *door) decide(w http.ResponseWriter, r *http.Request, verb algo.Verb) {
	var q *request
	if !read(w, r, func(body *walker) (err error) { q, err = body.readBill(verb); return err }) {
		return
	}
	if err := d.Limiter.Decide(r.Context(), &q.bill); err != nil {
		refuse(w, q.placed(err))
		return
	}
	d.answer(w, &q.bill, d.answerTo(q), nil)
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
	a := AnswerTo(&q.bill)
	if q.receipt {
		a.sign(d.receipts, &q.bill)
	}
	return a
}

// answer writes a decision with its status and header fields.
func (d *door) answer(w http.ResponseWriter, b *weir.Bill, a Answer, shows []headers.Show) {
	h := d.Format().Answer(b, shows)
	h.Write(w.Header())
	write(w, h.Status, a)
}

// write answers with a JSON body. A peer that has gone away needs none.
func write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		guard.Refuse(w, guard.Problem{Status: http.StatusInternalServerError, Detail: "the answer could not be written"})
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// fault stands in a batch for a bill that was bad.
type fault struct {
	Error string `json:"error"`
	Field string `json:"field"`
}

func faultOf(err error) fault {
	var input *weir.InputError
	if errors.As(err, &input) {
		return fault{input.Problem, input.Field}
	}
	return fault{Error: err.Error()}
}

func (d *door) batch(w http.ResponseWriter, r *http.Request) {
	var requests []*request // nil where the bill is bad
	var decisions []any
	given := false
	if !read(w, r, func(body *walker) error {
		err := body.object([]string{"bills"}, func(int) error {
			given = true
			return body.array(maxBills, func(int) error {
				q, err := body.readBillAlone()
				requests, decisions = append(requests, q), append(decisions, nil)
				if err != nil {
					decisions[len(decisions)-1] = faultOf(err)
				}
				return nil
			})
		})
		if err == nil && !given {
			err = within("bills", wrong("is missing"))
		}
		return err
	}) {
		return
	}
	if err := d.decideAll(r, requests, decisions); err != nil {
		refuse(w, err)
		return
	}
	if decisions == nil {
		decisions = []any{}
	}
	write(w, http.StatusOK, struct {
		Decisions []any `json:"decisions"`
	}{decisions})
}

// readBillAlone reads one bill of a batch and ends behind it, good or bad.
func (w *walker) readBillAlone() (*request, error) {
	start := w.at
	q, err := w.readBill(algo.Take)
	if err != nil {
		w.at = start
		w.skip()
		return nil, err
	}
	return q, nil
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
			decisions[i] = faultOf(q.placed(err))
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
	if !read(w, r, func(body *walker) (err error) { q, err = body.readRefund(); return err }) {
		return
	}
	charge, err := d.receipts.charge(q.receipt)
	if err != nil {
		refuse(w, within("receipt", wrong(err.Error())))
		return
	}
	charge.Cost = q.cost
	charges := []weir.Charge{charge}
	if err := d.Limiter.Refund(r.Context(), charges...); err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, struct {
		Refunded int64 `json:"refunded"`
	}{charges[0].Receipt.Refunded})
}

func (d *door) check(w http.ResponseWriter, r *http.Request) {
	var q *checkRequest
	if !read(w, r, func(body *walker) (err error) { q, err = body.readCheck(); return err }) {
		return
	}
	v := gate.Get()
	defer gate.Put(v)
	v.Door = "http"
	if err := d.Gate.Decide(r.Context(), &q.call, v); err != nil {
		refuse(w, err)
		return
	}
	a := AnswerTo(&v.Bill)
	if q.receipt {
		a.sign(d.receipts, &v.Bill)
	}
	for i := range a.Charges {
		a.Charges[i].Rule = v.Rules[i].Name
	}
	if v.Rule != nil {
		a.Rule = v.Rule.Name
	}
	d.answer(w, &v.Bill, a, Shows(v))
}

// ReadCall reads the body of check for another door. It has answered the request
// if the body is bad.
func ReadCall(w http.ResponseWriter, r *http.Request) (call *identity.Call, ok bool) {
	var q *checkRequest
	if !read(w, r, func(body *walker) (err error) { q, err = body.readCheck(); return err }) {
		return nil, false
	}
	return &q.call, true
}

// Shows says how the charges of v appear in response headers.
func Shows(v *gate.Verdict) []headers.Show {
	shows := make([]headers.Show, len(v.Rules))
	for i, rule := range v.Rules {
		shows[i] = headers.Show{Name: rule.Name, Hidden: !v.Shown(i)}
	}
	return shows
}

func (d *door) healthz(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, struct {
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
	write(w, status, s)
}
