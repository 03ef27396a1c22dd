//go:build unix

package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAPipeIsReadOnce: what a shell hands over as <(zcat …) can be read once, and
// nothing of it is looked at beforehand and lost.
func TestAPipeIsReadOnce(t *testing.T) {
	const lines = 20_000
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(name, os.O_WRONLY, 0)
		for i := 0; i < lines && err == nil; i++ {
			_, err = fmt.Fprintf(w, "192.0.2.1 - - [17/May/2015:10:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 5\n", i/60%60, i%60)
		}
		wrote <- errors.Join(err, w.Close())
	}()
	f, err := Open([]string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for {
		g, err := f.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(g.Records)
		g.Done()
	}
	if err := <-wrote; n != lines || err != nil {
		t.Errorf("%d of %d lines; %v; %+v", n, lines, err, f.Summary())
	}
}

// TestTheEndDoesNotWaitForAPipe: who writes into it may never write again.
func TestTheEndDoesNotWaitForAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0) // does not wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f, err := Open([]string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan struct{})
	go func() { _, _ = f.Next(ctx); close(cancelled) }()
	cancel()
	<-cancelled
	f.Close()
}
