package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"
)

// Options says how logs are read. The zero value detects the format.
type Options struct {
	Format string    // one of FormatNames, or "" to detect it, line by line
	Wants  Wants     // fields that are otherwise left empty by some formats
	Spread bool      // spread stamps of whole seconds evenly over their second
	Stdin  io.Reader // what the name - stands for
}

// The windows within which lines may stand in another order than that of time.
const (
	Window      = 10 * time.Minute
	WindowStdin = time.Minute
)

// Files reads several logs as one, in order of time, then file, then line. Each
// is read and taken apart in a goroutine of its own; always the one that is
// furthest behind is read on, so logs of one day from several servers, and parts
// of one log in any order, come out as one log.
//
// A Files is used by one goroutine; Progress may be called from others.
type Files struct {
	options Options
	sources []*source
	window  window
	used    chan *batch
	done    chan *Given
	read    atomic.Int64
	size    int64
	late    int64
	ctx     context.Context
	cancel  context.CancelFunc
}

// source is one log.
type source struct {
	name    string
	number  int
	span    int64 // microseconds
	stdin   bool
	pipe    bool  // it can be read once, and who reads it may wait for ever
	newest  int64 // the latest time read, or where it will begin
	opened  bool
	ended   bool
	batches chan *batch
	counts  Counts
	bad     []Bad
	err     error
}

// batch is what a source's goroutine hands over: records and the room for their
// text, which are used anew when all of the records have been given out and done
// with. The counts are those so far.
type batch struct {
	records []Record
	text    arena
	left    atomic.Int64 // records not done with
	counts  Counts
	bad     []Bad
	err     error
}

// empty returns a batch with room, a used one if there is one.
func (f *Files) empty() *batch {
	select {
	case b := <-f.used:
		return b
	default:
		return &batch{records: make([]Record, batchSize)}
	}
}

// Given is records in order of time. They and their text may be changed, and are
// valid until Done.
type Given struct {
	Records []*Record
	slots   []slot
	files   *Files
}

// Done gives the room of the records back. It may be called from any goroutine.
func (g *Given) Done() {
	for _, s := range g.slots {
		if s.from.left.Add(-1) > 0 {
			continue
		}
		b := s.from
		b.records = b.records[:batchSize]
		clear(b.records)
		b.text.room = b.text.room[:0]
		select {
		case g.files.used <- b:
		default:
		}
	}
	clear(g.slots)
	select {
	case g.files.done <- g:
	default:
	}
}

func (f *Files) given(slots []slot) *Given {
	var g *Given
	select {
	case g = <-f.done:
	default:
		g = &Given{files: f}
	}
	g.slots, g.Records = append(g.slots[:0], slots...), g.Records[:0]
	for i := range g.slots {
		g.Records = append(g.Records, g.slots[i].record)
	}
	return g
}

// Open opens logs by name; - is Options.Stdin. The error is that of a file that
// cannot be opened, or an unknown format. Close must be called.
func Open(names []string, o Options) (*Files, error) {
	if _, err := newParser(o.Format, 0); err != nil {
		return nil, err
	}
	f := &Files{options: o, window: window{least: heldLeast, most: heldMost}, used: make(chan *batch, 32), done: make(chan *Given, 8)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for i, name := range names {
		s := &source{name: name, number: i, span: Window.Microseconds(), newest: math.MinInt64}
		f.sources = append(f.sources, s)
		if name == "-" {
			s.stdin, s.pipe, s.span = true, true, WindowStdin.Microseconds()
			continue
		}
		begins, size, err := f.peek(s)
		if err != nil {
			f.cancel()
			return nil, err
		}
		f.size += size
		if len(names) > 1 {
			s.newest = begins
		}
	}
	return f, nil
}

// peek returns about when a log begins, so that it is opened when its time has
// come and not before: there may be many.
func (f *Files) peek(s *source) (begins, size int64, err error) {
	begins = math.MinInt64
	if info, err := os.Stat(s.name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		s.pipe = true // as <(zcat log.gz): what is looked at now is gone when it is read
		return begins, 0, nil
	}
	file, err := os.Open(s.name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	if info.IsDir() {
		return 0, 0, fmt.Errorf("%s is a folder; name the logs in it", s.name)
	}
	r, err := NewReader(io.LimitReader(file, 256<<10), s.number, f.options)
	if err != nil {
		return begins, info.Size(), nil // told when it is read
	}
	defer r.Close()
	var room [16]Record
	n, _ := r.Read(room[:])
	for i := range room[:n] {
		if i == 0 || room[i].At < begins {
			begins = room[i].At
		}
	}
	return begins, info.Size(), nil
}

// Close ends the reading.
func (f *Files) Close() {
	f.cancel()
	for _, s := range f.sources {
		if s.opened && !s.pipe {
			for range s.batches { // until its goroutine has ended
			}
		}
	}
}

// Next returns the next records in order. The error is io.EOF at the end, or
// ctx's; a log that breaks off is in the Summary.
func (f *Files) Next(ctx context.Context) (*Given, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		behind, until := f.furthestBehind()
		n := f.window.ready(until, behind == nil)
		if n > givenMost && !f.options.Spread {
			n = givenMost
		}
		if n > 0 {
			slots := f.window.release(n)
			if f.options.Spread && behind != nil {
				slots = f.window.unsplit(slots)
			}
			g := f.given(slots)
			if f.options.Spread {
				spread(g.Records)
			}
			return g, nil
		}
		if behind == nil {
			return nil, io.EOF
		}
		f.advance(ctx, behind)
	}
}

// givenMost is how many records are given out at once, but for Spread, which
// gives out whole seconds.
const givenMost = 1024

// furthestBehind returns the source to read on, none at the end, and the time
// that nothing comes before any more.
func (f *Files) furthestBehind() (behind *source, until int64) {
	until = math.MaxInt64
	for _, s := range f.sources {
		if s.ended {
			continue
		}
		if behind == nil || s.newest < behind.newest {
			behind = s
		}
		if s.newest == math.MinInt64 {
			until = math.MinInt64
		} else {
			until = min(until, s.newest-s.span)
		}
	}
	return behind, until
}

// advance takes one more batch of a source.
func (f *Files) advance(ctx context.Context, s *source) {
	if !s.opened {
		s.opened = true
		s.batches = make(chan *batch, 8)
		go f.readAll(s)
	}
	var b *batch
	select {
	case b = <-s.batches:
	case <-ctx.Done():
		return
	}
	s.counts, s.bad = b.counts, b.bad
	if b.err != nil {
		s.ended = true
		if !errors.Is(b.err, io.EOF) {
			s.err = b.err
		}
	}
	for i := range b.records {
		at := b.records[i].At
		if s.newest != math.MinInt64 && at < s.newest-s.span {
			f.late++
		}
		s.newest = max(s.newest, at)
	}
	b.left.Store(int64(len(b.records)))
	f.window.add(b)
}

// readAll reads a source to its end or until Close.
func (f *Files) readAll(s *source) {
	defer close(s.batches)
	send := func(b *batch) bool {
		select {
		case s.batches <- b:
			return b.err == nil
		case <-f.ctx.Done():
			return false
		}
	}
	from := f.options.Stdin
	if !s.stdin {
		file, err := os.Open(s.name)
		if err != nil {
			send(&batch{err: err})
			return
		}
		defer file.Close()
		from = file
	}
	if from == nil {
		send(&batch{err: io.EOF})
		return
	}
	r, err := NewReader(&counter{from, &f.read}, s.number, f.options)
	if err != nil {
		send(&batch{err: err})
		return
	}
	defer r.Close()
	for {
		b := f.empty()
		r.parser.arena = b.text
		n, err := r.Read(b.records)
		b.text = r.parser.arena
		b.records, b.counts, b.bad, b.err = b.records[:n], r.Counts, r.Examples, err
		if !send(b) {
			return
		}
	}
}

// counter counts the bytes read, compressed ones as they are.
type counter struct {
	from io.Reader
	n    *atomic.Int64
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// Progress returns how many bytes of the files have been read, and how many
// there are; standard input counts among the read alone.
func (f *Files) Progress() (read, size int64) { return f.read.Load(), f.size }

// Summary is what became of the lines of all files.
type Summary struct {
	Counts
	Examples []Bad // the first few bad lines of each file
	// Late lines stand further back than the window allows behind a line before
	// them, Misplaced ones so far that their place had gone: they count at the
	// time reached by then.
	Late, Misplaced int64
	Unread          []string // files with lines and not one request
	Broken          []error  // files that broke off
}

// Summary sums up what has been read so far.
func (f *Files) Summary() Summary {
	sum := Summary{Late: f.late, Misplaced: f.window.misplaced}
	for _, s := range f.sources {
		sum.Requests += s.counts.Requests
		sum.Bad += s.counts.Bad
		sum.Aside += s.counts.Aside
		sum.Examples = append(sum.Examples, s.bad...)
		if s.counts.Requests == 0 && s.counts.Bad > 0 {
			sum.Unread = append(sum.Unread, s.name)
		}
		if s.err != nil {
			sum.Broken = append(sum.Broken, fmt.Errorf("%s: after line %d: %w", s.name, s.counts.Requests+s.counts.Bad+s.counts.Aside, s.err))
		}
	}
	return sum
}

// Name returns the name of a file by its number.
func (f *Files) Name(number int) string { return f.sources[number].name }
