package check

import (
	"encoding/json"
	"strconv"
)

// The text of an answer is what encoding/json makes of it, held to that by test.
// It is written by hand because a request spends more on being marshalled than on
// being decided.

// append appends the answer as JSON.
func (a *Answer) append(to []byte) []byte {
	to = a.Outcome.appendFields(append(to, '{'))
	to = appendNumber(to, `,"binding":`, int64(a.Binding))
	to = appendGiven(to, `,"decision":`, a.ID)
	to = appendGiven(to, `,"receipt":`, a.Receipt)
	to = append(to, `,"charges":[`...)
	for i := range a.Charges {
		if i > 0 {
			to = append(to, ',')
		}
		o := &a.Charges[i]
		to = o.appendFields(append(to, '{'))
		to = append(appendGiven(to, `,"receipt":`, o.Token), '}')
	}
	return append(to, "]}"...)
}

// appendFields appends the fields that bills and charges have.
func (o *Outcome) appendFields(to []byte) []byte {
	if o.Rule != "" {
		to = append(appendText(append(to, `"rule":`...), o.Rule), ',')
	}
	to = strconv.AppendBool(append(to, `"allowed":`...), o.Allowed)
	to = appendText(append(to, `,"reason":`...), o.Reason)
	to = appendText(append(to, `,"source":`...), o.Source)
	if o.Limit == nil {
		to = append(to, `,"limit":null,"remaining":null`...)
	} else {
		to = appendNumber(to, `,"limit":`, *o.Limit)
		to = appendNumber(to, `,"remaining":`, *o.Remaining)
	}
	to = appendNumber(to, `,"retry_after_ms":`, o.RetryAfterMS)
	to = appendNumber(to, `,"reset_after_ms":`, o.ResetAfterMS)
	to = appendNumber(to, `,"delay_ms":`, o.DelayMS)
	if o.Shadow {
		to = append(to, `,"shadow":true`...)
	}
	return to
}

func appendNumber(to []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(to, name...), n, 10)
}

// appendGiven appends a field, unless it is empty.
func appendGiven(to []byte, name, s string) []byte {
	if s == "" {
		return to
	}
	return appendText(append(to, name...), s)
}

// appendText appends s in quotes. All but names of rules is plain.
func appendText(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				return append(to, `""`...) // cannot be: it is a string
			}
			return append(to, text...)
		}
	}
	to = append(append(to, '"'), s...)
	return append(to, '"')
}
