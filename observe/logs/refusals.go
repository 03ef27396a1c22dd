package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// perSecond is how many refusals are logged a second. Refusals come in floods,
// and a flood must not become one of lines.
const perSecond = 5

// Refusals is a weir.Observer that logs some refusals, and with each how many
// were left out since the one before.
type Refusals struct {
	log    *slog.Logger
	secret []byte
	second atomic.Int64 // Unix time that logged counts in
	logged atomic.Int64
	left   atomic.Int64 // out, since the last line
	total  atomic.Int64 // left out in all
}

// NewRefusals returns a Refusals that logs keys as hashes under secret.
func NewRefusals(log *slog.Logger, secret []byte) *Refusals {
	return &Refusals{log: log, secret: secret}
}

// Suppressed returns how many refusals were not logged.
func (r *Refusals) Suppressed() int64 { return r.total.Load() }

// Observe implements weir.Observer.
func (r *Refusals) Observe(ctx context.Context, e weir.Event) {
	b := e.Bill
	if b.Allowed || b.Verb != algo.Take || !r.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if now, was := time.Now().Unix(), r.second.Load(); now != was && r.second.CompareAndSwap(was, now) {
		r.logged.Store(0)
	}
	if r.logged.Add(1) > perSecond {
		r.left.Add(1)
		r.total.Add(1)
		return
	}
	note := observe.NoteOf(&e)
	attrs := []slog.Attr{
		slog.String("decision", b.IDText()), slog.String("rule", observe.Rule(note, b)), slog.String("reason", b.Reason.String()),
		slog.String("door", note.DoorName()), slog.String("source", b.Source),
	}
	if tenant := observe.DetailsOf(note).TenantName(); tenant != "" {
		attrs = append(attrs, slog.String("tenant", tenant))
	}
	if c := observe.Charge(b); c != nil {
		attrs = append(attrs, slog.String("key_hash", observe.KeyHash(r.secret, c.Key)))
	}
	if b.RetryAfter != weir.Never {
		attrs = append(attrs, slog.Int64("retry_after_ms", int64((b.RetryAfter+time.Millisecond-1)/time.Millisecond)))
	}
	if left := r.left.Swap(0); left > 0 {
		attrs = append(attrs, slog.Int64("not_logged", left))
	}
	r.log.LogAttrs(ctx, slog.LevelInfo, "refused", attrs...)
}

// ObserveAll implements observe.Batch.
func (r *Refusals) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	for _, b := range bills {
		if !b.Allowed {
			r.Observe(ctx, weir.Event{Bill: b, Elapsed: elapsed})
		}
	}
}
