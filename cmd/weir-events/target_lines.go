package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/weirhq/weir/observe/stream"
)

// linesTarget appends events to a file of JSON lines, which one process at a time
// may write. What may come again are the last batches before a crash, so the IDs
// of the last lines are enough to keep each once.
type linesTarget struct {
	file   *os.File
	path   string
	size   int64
	known  map[string]bool
	recent []string // in the order of the file
	next   int      // of recent, when it is full
}

const (
	recentIDs  = 200_000
	recentTail = 128 << 20 // bytes of the file that are read for them
)

func openLines(path string) (target, error) {
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	t := &linesTarget{file: f, path: path, known: map[string]bool{}}
	if err := t.recall(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, misuse("%w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another process writes it: %w", path, err), f.Close())
	}
	return f, nil
}

// follow begins the file anew if it is no longer under its name: somebody moved it
// away or removed it, and nobody would find what is written to it. What it held stays
// known.
func (t *linesTarget) follow() error {
	here, err := t.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(t.path)
	switch {
	case err == nil && os.SameFile(there, here):
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	f, err := openLocked(t.path)
	if err != nil {
		return err
	}
	last, size := t.file, t.size
	t.file = f
	if err := t.recall(); err != nil {
		t.file, t.size = last, size
		return errors.Join(err, f.Close())
	}
	return last.Close()
}

// recall reads the IDs of the last lines and cuts off a line that was not written
// whole.
func (t *linesTarget) recall() error {
	end, err := t.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	start := max(0, end-recentTail)
	if _, err := t.file.Seek(start, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(t.file, 1<<16)
	t.size = start
	for first := start > 0; ; first = false {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		t.size += int64(len(line))
		if e, err := stream.FromLine(line); err == nil && !first {
			t.remember(e.ID)
		}
	}
	if err := t.file.Truncate(t.size); err != nil {
		return err
	}
	_, err = t.file.Seek(t.size, io.SeekStart)
	return err
}

func (t *linesTarget) remember(id string) {
	t.known[id] = true
	if len(t.recent) < recentIDs {
		t.recent = append(t.recent, id)
		return
	}
	delete(t.known, t.recent[t.next])
	t.recent[t.next] = id
	t.next = (t.next + 1) % recentIDs
}

func (t *linesTarget) positionPath() string { return t.path + ".position" }

// positions returns the lines of the file of positions, "POSITION SOURCE".
func (t *linesTarget) positions() (lines []string, err error) {
	text, err := os.ReadFile(t.positionPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	return lines, err
}

func (t *linesTarget) position(_ context.Context, source string) (string, error) {
	lines, err := t.positions()
	for _, line := range lines {
		if position, name, _ := strings.Cut(line, " "); name == source {
			return position, err
		}
	}
	return "", err
}

func (t *linesTarget) keep(_ context.Context, source string, b batch) (added int64, err error) {
	var text []byte
	var fresh []string
	for i := range b.events {
		e := &b.events[i]
		if t.known[e.ID] || slices.Contains(fresh, e.ID) {
			continue
		}
		if text, err = e.AppendLine(text); err != nil {
			return 0, err
		}
		fresh = append(fresh, e.ID)
	}
	if err := t.append(text); err != nil {
		return 0, err
	}
	for _, id := range fresh {
		t.remember(id)
	}
	if b.position != "" {
		if err := t.keepPosition(b.position, source); err != nil {
			return 0, err
		}
	}
	return int64(len(fresh)), nil
}

// append writes text to the disk, or nothing of it.
func (t *linesTarget) append(text []byte) error {
	if err := t.follow(); err != nil {
		return err
	}
	n, err := t.file.Write(text)
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		_, seek := t.file.Seek(t.size, io.SeekStart)
		return errors.Join(err, t.file.Truncate(t.size), seek)
	}
	t.size += int64(n)
	return nil
}

func (t *linesTarget) keepPosition(position, source string) error {
	lines, err := t.positions()
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { _, name, _ := strings.Cut(line, " "); return name == source })
	lines = append(lines, position+" "+source)
	next := t.positionPath() + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o640); err != nil {
		return err
	}
	return os.Rename(next, t.positionPath())
}

func (t *linesTarget) close() error { return t.file.Close() }
