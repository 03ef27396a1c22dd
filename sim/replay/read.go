package replay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/weirhq/weir/sim/accesslog"
)

// A log is long and its requests must be decided one after the other, so the
// work is cut where order does not matter yet, and where it has been kept:
//
//	lines → records │ order, who is it, which limits apply, who came │ decide │ refusals
//	accesslog       │ matcher                                → sheet │ → notes│ tallies
//
// Each part is a goroutine. Deciding takes the longest, and is half of all: so
// whatever needs no balance stands before it, and what goes over to the next part
// is small, is told once for many requests, and has its room used again.

const (
	ahead = 4 // how many batches wait between two parts
	books = 2 * ahead
)

// Read decides every request of the files. after is called now and then, or is
// nil. The error is ctx's.
func (run *Run) Read(ctx context.Context, files *accesslog.Files, after func()) error {
	ctx, stop := context.WithCancel(ctx)
	matched, sheets := make(chan *sheet, ahead), make(chan *sheet, books)
	decided, used := make(chan *notes, ahead), make(chan *notes, books)
	for range books {
		sheets <- new(sheet)
		used <- new(notes)
	}
	var failed error // of the files
	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(matched)
		for {
			given, err := files.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
			s := <-sheets
			s.clear()
			s.given = given
			for _, r := range given.Records {
				run.matcher.match(ctx, r, s)
			}
			matched <- s
		}
	})
	parts.Go(func() {
		defer close(decided)
		for s := range matched {
			n := <-used
			n.clear()
			run.decide(ctx, s, n)
			s.given.Done()
			sheets <- s
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
