package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Events in a file are lines in segments, numbered upwards:
//
//	events.jsonl ─▶ events.000001.jsonl  events.000002.jsonl  …
//
// A segment is never renamed, so whoever reads knows where it was, and the oldest
// are removed. A process begins a segment of its own when it starts, so the last
// line of a segment may be cut off where a process was killed, and no other. Two
// processes must not write to one name.

// FileOptions configures ToFile.
type FileOptions struct {
	Path  string
	Bytes int64 // of a segment; 64 MiB if 0
	Keep  int   // segments; 16 if 0
}

const (
	defaultSegment = 64 << 20
	defaultKeep    = 16
	digits         = 6
)

type fileSink struct {
	o      FileOptions
	file   *os.File
	number int
	size   int64
	torn   bool // its last line is cut off, and stays so
	line   []byte
}

// ToFile returns a sink that writes to segments of o.Path.
func ToFile(o FileOptions) (Sink, error) {
	if o.Bytes <= 0 {
		o.Bytes = defaultSegment
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if err := dropEmpty(o.Path); err != nil {
		return nil, err
	}
	s := &fileSink{o: o}
	return s, s.turn()
}

// dropEmpty removes the newest segments as long as nothing is in them, which those
// leave who began and wrote nothing: a daemon that is started again and again, and
// fails, would else push out with them what was written. Who still has one open
// finds it gone.
func dropEmpty(path string) error {
	segments, err := Segments(path)
	for i := len(segments) - 1; i >= 0 && err == nil; i-- {
		var info os.FileInfo
		if info, err = os.Stat(segments[i].Path); err != nil || info.Size() > 0 {
			break
		}
		err = os.Remove(segments[i].Path)
	}
	return err
}

// Write implements Sink.
func (s *fileSink) Write(_ context.Context, events []Event) (written int, err error) {
	if s.size >= s.o.Bytes || s.torn || s.gone() {
		if err := s.turn(); err != nil {
			return 0, err
		}
	}
	s.line = s.line[:0]
	for i := range events {
		if s.line, err = events[i].AppendLine(s.line); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(s.line)
	if err != nil { // a full disk: nothing of it stands, so that all of it can be written again
		return 0, errors.Join(err, s.undo(n))
	}
	s.size += int64(n)
	return len(events), nil
}

// gone says that the segment is no longer under its name: somebody removed or moved
// it or its folder. What is written to it then nobody finds.
func (s *fileSink) gone() bool {
	there, err := os.Stat(segmentPath(s.o.Path, s.number))
	if err != nil {
		return true
	}
	here, err := s.file.Stat()
	return err != nil || !os.SameFile(there, here)
}

// undo takes back n bytes that were written of what did not fit. Where that fails, the
// segment ends there: a line after half a one would be lost with it.
func (s *fileSink) undo(n int) error {
	if n == 0 {
		return nil
	}
	err := s.file.Truncate(s.size)
	if err == nil {
		_, err = s.file.Seek(s.size, io.SeekStart)
	}
	s.torn = err != nil
	return err
}

// turn begins the next segment and removes those that are too old.
func (s *fileSink) turn() error {
	segments, err := Segments(s.o.Path)
	if err != nil {
		return err
	}
	if n := len(segments); n > 0 { // another process may be ending
		s.number = max(s.number, segments[n-1].Number)
	}
	next, err := os.OpenFile(segmentPath(s.o.Path, s.number+1), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	last := s.file
	s.file, s.size, s.torn = next, 0, false
	s.number++
	if last != nil {
		// It stays behind whatever is wrong with it: the next segment is there now,
		// and cannot be begun twice.
		if err := errors.Join(last.Sync(), last.Close()); err != nil {
			return err
		}
	}
	for _, old := range segments[:max(0, len(segments)+1-s.o.Keep)] {
		if err := os.Remove(old.Path); err != nil {
			return err
		}
	}
	return nil
}

// Close implements Sink.
func (s *fileSink) Close() error { return errors.Join(s.file.Sync(), s.file.Close()) }

// Segment is one file of events.
type Segment struct {
	Path   string
	Number int // from 1; larger is later
}

// Segments returns the segments of path that are there, oldest first.
func Segments(path string) ([]Segment, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	head, ext := splitExt(filepath.Base(path))
	var all []Segment
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), head+".")
		middle, ok2 := strings.CutSuffix(middle, ext)
		if n, err := strconv.Atoi(middle); ok && ok2 && err == nil && n > 0 && len(middle) >= digits {
			all = append(all, Segment{filepath.Join(filepath.Dir(path), e.Name()), n})
		}
	}
	slices.SortFunc(all, func(a, b Segment) int { return a.Number - b.Number })
	return all, nil
}

func segmentPath(path string, number int) string {
	head, ext := splitExt(path)
	return fmt.Sprintf("%s.%0*d%s", head, digits, number, ext)
}

func splitExt(path string) (head, ext string) {
	ext = filepath.Ext(path)
	return strings.TrimSuffix(path, ext), ext
}
