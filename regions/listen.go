package regions

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/redisconn"
)

// Letters lie in this region's stream until one of its instances has heard them:
//
//	stream ─ read ──▶ hear ─▶ balances here ─▶ finish, out of the stream
//	  │ taken by one that died      │ the store failed: it stays
//	  └─ claim, after reclaim ◀─────┘
//
// The instances are one consumer group, so each letter goes to one of them. One that
// is heard twice does no harm: letters tell totals. A letter that nobody will ever
// understand is finished all the same, and told of as a fault: kept, it would come
// back for ever.

const (
	block     = 500 * time.Millisecond
	reclaim   = 5 * time.Second // letters that an instance took and did not finish
	silence   = time.Hour       // instances that have not read for so long are gone
	group     = "weir"
	readBatch = 64
)

// listen hears the letters in this region's stream, which its instances share.
func (s *Service) listen(ctx context.Context) {
	var claimed time.Time // who starts asks at once: the one before may have been killed
	for ctx.Err() == nil {
		client, err := s.home.Client()
		if err == nil {
			if time.Since(claimed) > reclaim {
				claimed = time.Now()
				var more bool
				more, err = s.claim(ctx, client)
				if err = errors.Join(err, s.leave(ctx, client, "")); more && err == nil {
					claimed = time.Time{} // what was left comes before what is new
				}
			} else {
				err = s.read(ctx, client)
			}
			err = s.home.Came(err)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if strings.Contains(err.Error(), "NOGROUP") { // at first, and after a flush
			err = client.Do(ctx, client.B().XgroupCreate().Key(s.key("in")).Group(group).Id("0").Mkstream().Build()).Error()
			if err == nil || strings.Contains(err.Error(), "BUSYGROUP") {
				continue
			}
		}
		what := unreadable
		if undebited := (*debitError)(nil); errors.As(err, &undebited) {
			what = undebitable
		}
		s.report(what, err)
		select {
		case <-ctx.Done():
		case <-time.After(block):
		}
	}
}

// read waits for letters and hears them.
func (s *Service) read(ctx context.Context, client rueidis.Client) error {
	streams, err := client.Do(ctx, client.B().Xreadgroup().Group(group, s.id).Count(readBatch).Block(block.Milliseconds()).
		Streams().Key(s.key("in")).Id(">").Build()).AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	s.report(unreadable, nil)
	return s.hearAll(ctx, client, streams[s.key("in")])
}

// claim takes over letters that another instance took and did not finish, and reports
// whether there may be more.
func (s *Service) claim(ctx context.Context, client rueidis.Client) (more bool, err error) {
	reply, err := client.Do(ctx, client.B().Xautoclaim().Key(s.key("in")).Group(group).Consumer(s.id).
		MinIdleTime(strconv.FormatInt(reclaim.Milliseconds(), 10)).Start("0-0").Count(readBatch).Build()).ToArray()
	if err != nil || len(reply) < 2 {
		return false, err
	}
	entries, err := redisconn.Claimed(&reply[1])
	if err != nil {
		return false, err
	}
	return len(entries) == readBatch, s.hearAll(ctx, client, entries)
}

// leave takes instances that are gone out of the group, and the one that is named.
func (s *Service) leave(ctx context.Context, client rueidis.Client, name string) error {
	return leaveScript.Exec(ctx, client, []string{s.key("in")},
		[]string{group, name, strconv.FormatInt(silence.Milliseconds(), 10)}).Error()
}

// hearAll hears letters and takes them out of the stream. While this region's
// store fails they stay, for whoever can, and the error is a debitError.
func (s *Service) hearAll(ctx context.Context, client rueidis.Client, entries []rueidis.XRangeEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var ids []string
	var errs []error
	for _, entry := range entries {
		err := s.hear(ctx, entry.FieldValues)
		unread := (*letterError)(nil)
		switch from := entry.FieldValues["f"]; {
		case err != nil && !errors.As(err, &unread):
			errs = append(errs, &debitError{err})
			continue
		case s.away[from] == nil: // whoever writes into the stream chose the name
			s.faults.came("a region that is not among peers sends messages", errStranger)
		default:
			s.report("messages of region "+from+" are not understood", err)
		}
		ids = append(ids, entry.ID)
	}
	if len(errs) == 0 {
		s.report(undebitable, nil)
	}
	if len(ids) > 0 {
		errs = append(errs, finishScript.Exec(ctx, client, []string{s.key("in")}, append([]string{group}, ids...)).Error())
	}
	return errors.Join(errs...)
}

// What can be wrong with the way from the stream to the balances.
const (
	unreadable  = "this region's stream cannot be read"
	undebitable = "what other regions took cannot be debited"
)

// debitError is a letter that was read, and waits until the store debits it.
type debitError struct{ err error }

func (e *debitError) Error() string { return e.err.Error() }
func (e *debitError) Unwrap() error { return e.err }

// letterError is a letter that will not be understood later either.
type letterError struct{ err error }

func (e *letterError) Error() string { return e.err.Error() }

var (
	errStranger = errors.New("name it in peers, or take this region out of its peers")
	errSecret   = errors.New("it has another key secret")
)

// hear hears one letter.
func (s *Service) hear(ctx context.Context, fields map[string]string) error {
	if s.away[fields["f"]] == nil {
		return nil
	}
	if fields["k"] != s.o.Store.Fingerprint() {
		return &letterError{errSecret}
	}
	taken, err := decode([]byte(fields["b"]))
	if err != nil {
		return &letterError{err}
	}
	return s.Exchange.Hear(ctx, fields["f"], taken)
}
