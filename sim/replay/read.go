package replay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// A log is long and its requests must be decided one after the other, so the
// work is cut where order does not matter yet, and where it has been kept:
//
//	lines → records │ order, sketch │ who is it, which limits apply, decide │ count
//
// Each part is a goroutine. What goes from one to the next is small.

const (
	ahead = 4 // how many batches wait between two parts
	books = 2 * ahead
)

// sheet is records in order, with what the policy says of each without its caller.
type sheet struct {
	given    *accesslog.Given
	sketches []*policy.Sketch
}

// Read decides every request of the files. after is called now and then, or is
// nil. The error is ctx's.
func (run *Run) Read(ctx context.Context, files *accesslog.Files, after func()) error {
	ctx, stop := context.WithCancel(ctx)
	ordered, decided, used := make(chan *sheet, ahead), make(chan *notes, ahead), make(chan *notes, books)
	for range books {
		used <- new(notes)
	}
	var failed error // of the files
	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(ordered)
		known := newSketches(run.gate)
		for {
			given, err := files.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
			s := &sheet{given: given, sketches: make([]*policy.Sketch, len(given.Records))}
			for i, r := range given.Records {
				s.sketches[i] = known.of(r)
			}
			ordered <- s
		}
	})
	parts.Go(func() {
		defer close(decided)
		for s := range ordered {
			n := <-used
			n.clear()
			for _, r := range s.given.Records { // all at once, so that the waits for memory overlap
				run.touched += r.At
			}
			for i, r := range s.given.Records {
				run.verdict.Sketch = s.sketches[i]
				run.decide(ctx, r, n)
			}
			s.given.Done()
			decided <- n
		}
	})
	var err error
	for n := range decided {
		if err == nil {
			err = run.count(n)
		}
		if err != nil {
			stop()
		} else if after != nil {
			after()
		}
		used <- n
	}
	stop()
	parts.Wait()
	return cmp.Or(err, failed)
}

// ReadInto decides every request of the files in each of the runs, for comparing
// them. The records must have what all of them want.
func ReadInto(ctx context.Context, files *accesslog.Files, after func(), runs ...*Run) error {
	for {
		given, err := files.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range given.Records {
			for _, run := range runs {
				if err := run.Take(ctx, r); err != nil {
					return err
				}
			}
		}
		given.Done()
		after()
	}
}
