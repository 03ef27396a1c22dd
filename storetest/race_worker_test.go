package storetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirhq/weir"
)

const (
	workerEnv = "WEIR_RACE_WORKER"
	ready     = "ready"
	patience  = time.Minute // with a machine that does other things too
)

// work is the life of a worker: it reads a race, says that it stands ready,
// waits for the start, runs, and tells how it went, until its input ends.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r race
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if err := enter(&r, lines, out); err != nil {
			return err
		}
	}
	return lines.Err()
}

func enter(r *race, lines *bufio.Scanner, out io.Writer) (err error) {
	store, err := openStore(r)
	if err != nil {
		return err
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if _, err := fmt.Fprintln(out, ready); err != nil {
		return err
	}
	if !lines.Scan() {
		return errors.New("the race was called off")
	}
	result, err := json.Marshal(run(r, l))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(result))
	return err
}

// run has every goroutine of this worker send its bills.
func run(r *race, l *weir.Limiter) (total lap) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		start = make(chan struct{})
	)
	for range goroutines {
		all.Go(func() {
			<-start
			mine := sendBills(ctx, r, l)
			mu.Lock()
			defer mu.Unlock()
			total.Admitted += mine.Admitted
			total.Denied += mine.Denied
			if mine.Error != "" {
				total.Error = mine.Error
			}
		})
	}
	close(start)
	all.Wait()
	return total
}

func sendBills(ctx context.Context, r *race, l *weir.Limiter) (mine lap) {
	charges, err := r.charges()
	for range tries {
		bill := weir.Bill{Charges: charges}
		if err == nil {
			err = errors.Join(l.Decide(ctx, &bill), bill.Err)
		}
		switch {
		case err != nil:
			mine.Error = err.Error()
			return mine
		case bill.Allowed:
			mine.Admitted++
		default:
			mine.Denied++
		}
	}
	return mine
}
