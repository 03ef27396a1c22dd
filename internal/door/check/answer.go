package check

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// Answer is a decision as this door writes it. Times are milliseconds, rounded
// up; a wait of -1 never ends. Limit and Remaining are null where there is none.
type Answer struct {
	Outcome
	Binding int       `json:"binding"`
	ID      string    `json:"decision,omitempty"` // names a refusal, for weir why
	Receipt string    `json:"receipt,omitempty"`  // of a bill of one charge
	Charges []Outcome `json:"charges"`
}

// Outcome is the decision on a bill, or on one charge of it.
type Outcome struct {
	Rule         string `json:"rule,omitempty"`
	Allowed      bool   `json:"allowed"`
	Reason       string `json:"reason"`
	Source       string `json:"source"`
	Limit        *int64 `json:"limit"`
	Remaining    *int64 `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	Shadow       bool   `json:"shadow,omitempty"`
	Token        string `json:"receipt,omitempty"` // of one charge
}

// AnswerTo returns the answer to a decided bill, which it points into.
func AnswerTo(b *weir.Bill) Answer { return answerTo(b, nil) }

// answerTo is AnswerTo with room for charges.
func answerTo(b *weir.Bill, room []Outcome) Answer {
	a := Answer{Outcome: outcome(&b.Decision), Binding: int(b.Binding), ID: b.IDText(), Charges: append(room[:0], make([]Outcome, len(b.Charges))...)}
	for i := range a.Charges { // a refusal without a bill has charges and no Each
		if i < len(b.Each) {
			a.Charges[i] = outcome(&b.Each[i])
		}
		a.Charges[i].Shadow = b.Charges[i].Trial != 0
	}
	return a
}

func outcome(d *weir.Decision) Outcome {
	o := Outcome{
		Allowed: d.Allowed, Reason: d.Reason.String(), Source: d.Source,
		RetryAfterMS: headers.Milliseconds(d.RetryAfter), ResetAfterMS: headers.Milliseconds(d.ResetAfter), DelayMS: headers.Milliseconds(d.Delay),
	}
	if d.Limit != weir.Unbounded {
		o.Limit, o.Remaining = &d.Limit, &d.Remaining
	}
	return o
}

// sign adds the receipts of what was debited.
func (a *Answer) sign(r receipts, b *weir.Bill) {
	if !b.Allowed || b.Err != nil {
		return // debited nowhere, or in a store that no receipt leads to
	}
	for i := range b.Charges {
		if b.Charges[i].Receipt.ID != 0 {
			a.Charges[i].Token = r.token(&b.Charges[i])
		}
	}
	if len(a.Charges) == 1 {
		a.Receipt = a.Charges[0].Token
	}
}
