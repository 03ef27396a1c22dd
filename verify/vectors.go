package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
)

// Case is one vector: steps against a store that starts empty.
type Case struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch_us"` // added to every At
	Steps []Step `json:"steps"`
}

// Step is one bill and the answer expected; nil fields are not checked.
type Step struct {
	At      int64  `json:"at_us"`
	Key     string `json:"key"`
	Limit   string `json:"limit"`
	Cost    *int64 `json:"cost"`
	Charges []struct {
		Key   string `json:"key"`
		Limit string `json:"limit"`
		Cost  *int64 `json:"cost"`
	} `json:"charges"`

	Allowed    *bool  `json:"allowed"`
	Remaining  *int64 `json:"remaining"`
	RetryAfter *int64 `json:"retry_after_us"`
	ResetAfter *int64 `json:"reset_after_us"`
	Delay      *int64 `json:"delay_us"`
	Binding    *int64 `json:"binding"`
}

// Failure is one field of one step that came out otherwise.
type Failure struct {
	ID    string `json:"id"`
	Step  int    `json:"step"`
	Field string `json:"field"`
	Want  any    `json:"want"`
	Got   any    `json:"got"`
}

// Report counts cases, or histories and cases.
type Report struct {
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures"`
	Seed     uint64    `json:"seed,omitempty"` // of Run

	errors int
}

// ReadCases reads vectors, one JSON object a line. Unknown fields are errors,
// with the line.
func ReadCases(r io.Reader) ([]Case, error) {
	var cases []Case
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var c Case
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if d.More() {
			return nil, fmt.Errorf("line %d: more than one object", n)
		}
		if c.ID == "" || len(c.Steps) == 0 {
			return nil, fmt.Errorf("line %d: a case needs an id and steps", n)
		}
		cases = append(cases, c)
	}
	return cases, lines.Err()
}

// Clock is a virtual clock, in microseconds since the Unix epoch, that a store
// under test reads.
type Clock struct{ now atomic.Int64 }

// Now returns the time last set.
func (c *Clock) Now() int64 { return c.now.Load() }

// Set moves the clock, back as well as forward.
func (c *Clock) Set(us int64) { c.now.Store(us) }

// Open returns an empty store that reads clock.
type Open func(clock *Clock) (weir.Store, error)

// Vectors runs every case on an empty store of its own and compares each answer
// to the microsecond.
func Vectors(ctx context.Context, cases []Case, open Open) (Report, error) {
	r := Report{Failures: []Failure{}}
	for i := range cases {
		failures, err := cases[i].run(ctx, open)
		if err != nil {
			return r, fmt.Errorf("%s: %w", cases[i].ID, err)
		}
		if len(failures) == 0 {
			r.Passed++
			continue
		}
		r.Failed++
		r.Failures = append(r.Failures, failures...)
	}
	return r, nil
}

func (c *Case) run(ctx context.Context, open Open) (failures []Failure, err error) {
	clock := new(Clock)
	store, err := open(clock)
	if err != nil {
		return nil, err
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for i := range c.Steps {
		s := &c.Steps[i]
		clock.Set(c.Epoch + s.At)
		bill, err := s.bill()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		if err := l.Decide(ctx, bill); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		if bill.Err != nil {
			return nil, fmt.Errorf("step %d: %w", i, bill.Err)
		}
		if f := s.compare(c.ID, i, &bill.Decision); f != nil {
			failures = append(failures, *f)
			break // what follows only repeats it
		}
	}
	return failures, nil
}

func (s *Step) bill() (*weir.Bill, error) {
	charges := s.Charges
	if charges == nil {
		charges = append(charges, struct {
			Key   string `json:"key"`
			Limit string `json:"limit"`
			Cost  *int64 `json:"cost"`
		}{s.Key, s.Limit, s.Cost})
	}
	bill := new(weir.Bill)
	for _, c := range charges {
		limit, err := weir.ParseLimit(c.Limit)
		if err != nil {
			return nil, err
		}
		charge := limit.Charge(c.Key)
		if c.Cost != nil {
			charge.Cost, charge.Peek = *c.Cost, *c.Cost == 0
		}
		bill.Charges = append(bill.Charges, charge)
	}
	return bill, nil
}

// compare returns the first field that differs.
func (s *Step) compare(id string, step int, d *weir.Decision) *Failure {
	if s.Allowed != nil && *s.Allowed != d.Allowed {
		return &Failure{id, step, "allowed", *s.Allowed, d.Allowed}
	}
	delay := int64(0)
	if s.Delay != nil {
		delay = *s.Delay
	}
	for _, f := range []struct {
		name string
		want *int64
		got  int64
	}{
		{"binding", s.Binding, int64(d.Binding)},
		{"remaining", s.Remaining, d.Remaining},
		{"retry_after_us", s.RetryAfter, micros(d.RetryAfter)},
		{"reset_after_us", s.ResetAfter, micros(d.ResetAfter)},
		{"delay_us", &delay, micros(d.Delay)},
	} {
		if f.want != nil && *f.want != f.got {
			return &Failure{id, step, f.name, *f.want, f.got}
		}
	}
	return nil
}

// micros returns d in microseconds; Never stays -1.
func micros(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return int64(d / time.Microsecond)
}
