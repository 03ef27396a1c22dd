package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirhq/weir"
)

// Options configures Run.
type Options struct {
	Histories int      // random histories over all promises; 0 is 10,000
	Seed      uint64   // 0 draws one; the report says which
	First     int      // number of the first history, 0 and more: Seed, First and Histories 1 repeat one
	Only      []string // names of promises; empty is all, and the embedded vectors
}

const (
	usualHistories = 10_000
	perStore       = 500 // histories that share a store, by keys of their own
	maxFailures    = 20  // kept in a report; all are counted
	maxErrors      = 5   // of the store; over it the run ends
)

// Run runs the suite on a store: the embedded vectors, then random histories,
// each of which checks one promise. open is called for every vector and for
// every few hundred histories. A failure's ID is the promise and the number of
// the history, such as "retry#812". The error is one of the store or of ctx,
// not a broken promise.
func Run(ctx context.Context, open Open, o Options) (Report, error) {
	if o.Histories == 0 {
		o.Histories = usualHistories
	}
	// A number out of range would run no history and call it a pass.
	switch {
	case o.Histories < 0:
		return Report{}, &weir.InputError{Field: "histories", Problem: "must not be negative"}
	case o.First < 0 || o.First > math.MaxInt-o.Histories:
		return Report{}, &weir.InputError{Field: "first", Problem: "must lie between 0 and what leaves room for the histories"}
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() | 1
	}
	chosen, err := choose(o.Only)
	if err != nil {
		return Report{}, err
	}
	r := Report{Failures: []Failure{}}
	if len(o.Only) == 0 {
		cases, err := Embedded()
		if err != nil {
			return r, err
		}
		if r, err = Vectors(ctx, cases, open); err != nil {
			return r, err
		}
	}
	r.Seed = o.Seed
	for done := 0; done < o.Histories; done += perStore {
		first := o.First + done
		if err := r.runSome(ctx, open, chosen, o.Seed, first, first+min(perStore, o.Histories-done)); err != nil {
			return r, err
		}
	}
	return r, nil
}

func choose(names []string) ([]promise, error) {
	if len(names) == 0 {
		return promises, nil
	}
	var chosen []promise
	for _, name := range names {
		found := false
		for _, p := range promises {
			if p.name == name {
				chosen, found = append(chosen, p), true
			}
		}
		if !found {
			return nil, &NameError{name}
		}
	}
	return chosen, nil
}

// NameError is a promise asked for that there is not.
type NameError struct{ Name string }

// Error returns the name.
func (e *NameError) Error() string { return fmt.Sprintf("no promise is named %q", e.Name) }

// runSome runs the histories from first up to end on one store.
func (r *Report) runSome(ctx context.Context, open Open, chosen []promise, seed uint64, first, end int) (err error) {
	clock := new(Clock)
	store, err := open(clock)
	if err != nil {
		return err
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for i := first; i < end; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := chosen[i%len(chosen)]
		h := newHistory(ctx, l, store.Caps(), clock, seed, i)
		if !h.can(p.needs) {
			continue
		}
		p.check(h)
		if h.err != nil {
			if r.errors++; r.errors > maxErrors {
				return fmt.Errorf("%s#%d of seed %d: %w", p.name, i, seed, h.err)
			}
			h.fail("error", "none", h.err.Error())
		}
		if h.failure == nil {
			r.Passed++
			continue
		}
		r.Failed++
		if len(r.Failures) < maxFailures {
			h.failure.ID = fmt.Sprintf("%s#%d", p.name, i)
			r.Failures = append(r.Failures, *h.failure)
		}
	}
	return nil
}
