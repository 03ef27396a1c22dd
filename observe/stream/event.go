package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Event is one decision as it is written down: in a Redis stream as fields, in a
// file as one line of JSON, under the same names.
type Event struct {
	ID       string `json:"id"`    // 32 hex digits; of a refusal, the one its caller was told
	TimeMS   int64  `json:"ts_ms"` // milliseconds since the Unix epoch, on this machine's clock
	Instance string `json:"instance"`
	Rule     string `json:"rule"` // that decided; adhoc, or none
	Tenant   string `json:"tenant"`
	Plan     string `json:"plan"`
	Route    string `json:"route"`    // the pattern by which the rule matched
	KeyHash  string `json:"key_hash"` // see observe.KeyHash; empty where no charge decided
	Cost     int64  `json:"cost"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason"`
	Source   string `json:"source"`
	// Weight is how many decisions the event stands for: 1, or of admitted ones
	// that are sampled as many more as were left out. Sums of it are right.
	Weight float64 `json:"weight"`
}

// fieldCount is how many fields an event has.
const fieldCount = 13

// Fields returns names and values in turn, for XADD.
func (e *Event) Fields() []string {
	return []string{
		"id", e.ID, "ts_ms", strconv.FormatInt(e.TimeMS, 10), "instance", e.Instance, "rule", e.Rule,
		"tenant", e.Tenant, "plan", e.Plan, "route", e.Route, "key_hash", e.KeyHash, "cost", strconv.FormatInt(e.Cost, 10),
		"allowed", strconv.FormatBool(e.Allowed), "reason", e.Reason, "source", e.Source, "weight", strconv.FormatFloat(e.Weight, 'g', -1, 64),
	}
}

// FromFields reads an event of a stream. Fields that it does not know are left
// out: a newer writer may have them.
func FromFields(fields map[string]string) (e Event, err error) {
	e = Event{
		ID: fields["id"], Instance: fields["instance"], Rule: fields["rule"], Tenant: fields["tenant"], Plan: fields["plan"],
		Route: fields["route"], KeyHash: fields["key_hash"], Reason: fields["reason"], Source: fields["source"],
	}
	var errs [4]error
	e.TimeMS, errs[0] = strconv.ParseInt(fields["ts_ms"], 10, 64)
	e.Cost, errs[1] = strconv.ParseInt(fields["cost"], 10, 64)
	e.Allowed, errs[2] = strconv.ParseBool(fields["allowed"])
	e.Weight, errs[3] = strconv.ParseFloat(fields["weight"], 64)
	return e, errors.Join(append(errs[:], e.check())...)
}

// AppendLine appends the event as a line of JSON.
func (e *Event) AppendLine(to []byte) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return to, err
	}
	return append(append(to, text...), '\n'), nil
}

// FromLine reads an event of a file.
func FromLine(line []byte) (e Event, err error) {
	if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
		return e, err
	}
	return e, e.check()
}

// longestID is more than any writer has reason for: ours have 32 digits. PostgreSQL
// keeps what is up to 2,704 bytes long under a key.
const longestID = 256

// check refuses what no database would take: one such entry of a stream would keep
// all that is behind it from being kept.
func (e *Event) check() error {
	if e.ID == "" {
		return errors.New("the event has no id")
	}
	if len(e.ID) > longestID {
		return fmt.Errorf("an id of %d bytes", len(e.ID))
	}
	if strings.ContainsFunc(e.ID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the event's id is no word")
	}
	if !(e.Weight > 0) || math.IsInf(e.Weight, 0) {
		return fmt.Errorf("a weight of %v", e.Weight)
	}
	return nil
}
