package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/loadgen"
)

// With --procs bench runs itself: each part connects, says it is ready, and
// begins when its standard input ends, so that all begin as one.
//
//	bench ──start──▶ part: opens the store, prints "ready"
//	bench ──close stdin──▶ part: runs, prints its result as JSON, exits

// partResult is a part's result on its way.
type partResult struct {
	loadgen.Result
	Buckets map[int]uint64 `json:"buckets"`
}

const ready = "ready"

// runPart is what a part does.
func (b *bench) runPart(ctx context.Context, limit weir.Limit, stdin io.Reader, stdout io.Writer) error {
	limiter, err := b.open()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, ready); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stdin); err != nil {
		return err
	}
	result := loadgen.Run(ctx, b.load, asker(limiter, limit))
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(partResult{*result, result.Latency.Sparse()})
}

// part is a process that carries a part of the load.
type part struct {
	cmd   *exec.Cmd
	start io.Closer
	out   *bufio.Reader
}

// runParts starts the parts, lets them run as one and adds up their results.
func (b *bench) runParts(ctx context.Context, progress func(int64, time.Duration)) (total *loadgen.Result, err error) {
	var parts []*part
	defer func() {
		for _, p := range parts {
			// Closing what is closed, and ending what has ended, is no fault here.
			_ = p.start.Close()
			if fault := p.cmd.Wait(); fault != nil {
				err = errors.Join(err, fmt.Errorf("a process of the bench: %w", fault))
			}
		}
	}()
	for i := range b.procs {
		p, err := b.startPart(ctx, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	for _, p := range parts {
		if line, err := p.out.ReadString('\n'); err != nil || line != ready+"\n" {
			return nil, fmt.Errorf("a process of the bench did not get ready: %q %w", line, err)
		}
	}
	for _, p := range parts {
		if err := p.start.Close(); err != nil {
			return nil, err
		}
	}
	stop := tell(progress)
	defer stop()
	total = new(loadgen.Result)
	for _, p := range parts {
		var r partResult
		if err := json.NewDecoder(p.out).Decode(&r); err != nil {
			return nil, fmt.Errorf("the result of a process of the bench: %w", err)
		}
		r.Latency.AddSparse(r.Buckets)
		total.Merge(&r.Result)
	}
	return total, nil
}

// startPart starts part i of the load.
func (b *bench) startPart(ctx context.Context, i int) (*part, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	share := func(n int) string { return strconv.Itoa(n/b.procs + min(1, max(0, n%b.procs-i))) }
	args := []string{
		"bench", "--part", strconv.Itoa(i), "--limit", b.limit, "--store", b.store, "--key-prefix", b.prefix,
		"--clients", share(b.load.Clients), "--rate", share(b.load.Rate), "--keys", strconv.Itoa(b.load.Keys),
		"--duration", b.load.Duration.String(), "--seed", strconv.FormatUint(b.load.Seed+uint64(i), 10),
	}
	switch b.load.Spread {
	case loadgen.Zipf:
		args = append(args, "--zipf")
	case loadgen.Hot:
		args = append(args, "--hot")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &part{cmd, stdin, bufio.NewReader(stdout)}, nil
}

// tell shows the time passing while the parts, which count, are not asked.
func tell(progress func(int64, time.Duration)) (stop func()) {
	began, tick, done := time.Now(), time.NewTicker(loadgen.Tick), make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				progress(0, time.Since(began))
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
		<-stopped
	}
}

// onThisMachine reports whether addr, host:port, is this machine.
func onThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && identity.IsLoopback(host)
}
