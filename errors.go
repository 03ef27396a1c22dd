package weir

import (
	"errors"
	"strconv"
)

// InputError is bad input: nothing was decided and nothing charged.
type InputError struct {
	Field   string // path of what is wrong, such as charges[1].limit
	Problem string // what is wrong and what would be right
}

// Error returns the field and the problem.
func (e *InputError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

func chargeError(i int, field, problem string) error {
	return &InputError{Field: "charges[" + strconv.Itoa(i) + "]." + field, Problem: problem}
}

// ErrClosed is returned by a Limiter that was closed.
var ErrClosed = errors.New("weir: limiter is closed")

// StoreError is why a store did not decide a bill. It never holds a key.
type StoreError struct {
	// Kind is one word for metrics: unreachable, tls, timeout, overloaded, stale,
	// canceled, readonly, noreplicas, misconf, oom, noperm, loading, masterdown,
	// clusterdown, busy, noscript, calendar, wrong_type, bad_state, secret,
	// unsupported, other. docs/failure.md says what each means.
	Kind string
	Err  error // the cause, or nil

	// Unreachable says that the store could not be talked to at all, as opposed
	// to one that was slow or refused: Open limits admit only then.
	Unreachable bool
	// Unknown says that the bill may have been charged all the same.
	Unknown bool
}

// Error returns the kind and the cause.
func (e *StoreError) Error() string {
	s := "store: " + e.Kind
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }
