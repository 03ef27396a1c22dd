package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/weirhq/weir/observe/stream"
)

// fileSource reads segments of events from a position on, "segment:offset". The
// target keeps the position with the events, so nothing is acknowledged here.
type fileSource struct {
	path   string
	number int   // of the segment; 0 before the first
	offset int64 // in it
	log    *slog.Logger
}

func openFiles(path, position string, log *slog.Logger) (source, error) {
	s := &fileSource{path: path, log: log}
	if position == "" {
		return s, nil
	}
	number, offset, _ := strings.Cut(position, ":")
	var errs [2]error
	s.number, errs[0] = strconv.Atoi(number)
	s.offset, errs[1] = strconv.ParseInt(offset, 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("the position that was kept is none: %w", err)
	}
	return s, nil
}

func (s *fileSource) next(ctx context.Context) (b batch, err error) {
	segments, err := stream.Segments(s.path)
	if err != nil {
		return b, err
	}
	if n := len(segments); n > 0 && segments[n-1].Number < s.number {
		s.log.Warn("segments begin anew; all that are there are read", "read_to", s.number, "newest", segments[n-1].Number)
		s.number = 0
	}
	for i, segment := range segments {
		if segment.Number < s.number {
			continue
		}
		if segment.Number != s.number {
			if s.number > 0 && segment.Number > s.number+1 {
				s.log.Warn("segments were removed before they were read", "from", s.number+1, "to", segment.Number-1)
			}
			s.number, s.offset = segment.Number, 0
		}
		if b, err = s.read(segment.Path, i < len(segments)-1); err != nil || !b.empty() {
			return b, err
		}
	}
	return b, ctx.Err()
}

// read reads whole lines. In a segment that is over, what is behind the last line
// was cut off when its writer was killed.
func (s *fileSource) read(path string, over bool) (b batch, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return b, err
	}
	if info.Size() < s.offset {
		s.log.Warn("a segment is shorter than what was read of it; it is read again", "segment", s.number)
		s.offset = 0
	}
	if _, err := f.Seek(s.offset, io.SeekStart); err != nil {
		return b, err
	}
	lines := bufio.NewReaderSize(f, 1<<16)
	at := s.offset
	for len(b.events)+b.bad < batchEvents {
		line, err := lines.ReadBytes('\n')
		if err != nil && !(errors.Is(err, io.EOF) && over && len(line) > 0) {
			if errors.Is(err, io.EOF) {
				break
			}
			return b, err
		}
		at += int64(len(line))
		if e, err := stream.FromLine(line); err == nil {
			b.events = append(b.events, e)
		} else {
			b.bad++
		}
	}
	if at > s.offset {
		b.position = fmt.Sprintf("%d:%d", s.number, at)
	}
	return b, nil
}

func (s *fileSource) acknowledge(_ context.Context, b batch) error {
	_, offset, _ := strings.Cut(b.position, ":")
	var err error
	s.offset, err = strconv.ParseInt(offset, 10, 64)
	return err
}

func (s *fileSource) close() error { return nil }
