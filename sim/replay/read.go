package replay

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/weirhq/weir/sim/accesslog"
)

// A log is long and its requests must be decided one after the other, so the
// work is cut where order does not matter yet:
//
//	lines → records │ order, who is it, which limits apply │ decide │ count
//
// Each part is a goroutine; chunks of steps go round through the last three.

// chunk is steps of one Given. last says that the records are done with after it.
type chunk struct {
	steps []step
	n     int
	given *accesslog.Given // to be given back after the chunk, if any
	err   error
}

const (
	chunkSize = 128
	chunks    = 8
)

// Read decides every request of the files. after is called now and then, or is
// nil. The error is ctx's.
func (run *Run) Read(ctx context.Context, files *accesslog.Files, after func()) error {
	ctx, stop := context.WithCancel(ctx)
	empty, matched, decided := make(chan *chunk, chunks), make(chan *chunk, chunks), make(chan *chunk, chunks)
	for range chunks {
		empty <- &chunk{steps: make([]step, chunkSize)}
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(matched)
		run.matchAll(ctx, files, empty, matched)
	})
	parts.Go(func() {
		defer close(decided)
		for c := range matched {
			for i := range c.steps[:c.n] {
				run.charge(ctx, &c.steps[i])
			}
			decided <- c
		}
	})
	var err error
	for c := range decided {
		if err == nil {
			err = c.err
		}
		for i := range c.steps[:c.n] {
			if err == nil {
				err = run.tally(&c.steps[i])
			}
		}
		if err != nil {
			stop()
		} else if after != nil {
			after()
		}
		if c.given != nil {
			c.given.Done()
		}
		if c.steps != nil {
			empty <- c
		}
	}
	stop()
	parts.Wait()
	return err
}

// matchAll fills chunks until the files end or ctx does.
func (run *Run) matchAll(ctx context.Context, files *accesslog.Files, empty <-chan *chunk, matched chan<- *chunk) {
	for {
		given, err := files.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				matched <- &chunk{err: err}
			}
			return
		}
		for rest := given.Records; len(rest) > 0; {
			c := <-empty
			c.n = min(len(rest), len(c.steps))
			for i, r := range rest[:c.n] {
				run.match(ctx, &c.steps[i], r)
			}
			rest = rest[c.n:]
			c.given = nil
			if len(rest) == 0 {
				c.given = given
			}
			matched <- c
		}
	}
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
