package logs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

const (
	unreadableEvery = time.Minute // a balance is told of once in this
	unreadableLines = 5           // in that time
)

// Unreadable is a weir.Observer that logs balances which the store finds to be
// something else, or in a form it does not know. Such a key is left as it is, and
// what falls on it gets its limit's stated answer for as long as it stands.
type Unreadable struct {
	log    *slog.Logger
	secret []byte

	mu    sync.Mutex
	since time.Time
	told  map[string]bool // key hashes, since then
	left  int64           // bills that no line told of, since the last line
}

// NewUnreadable returns an Unreadable that logs keys as hashes under secret.
func NewUnreadable(log *slog.Logger, secret []byte) *Unreadable {
	return &Unreadable{log: log, secret: secret, told: map[string]bool{}}
}

// Observe implements weir.Observer.
func (u *Unreadable) Observe(ctx context.Context, e weir.Event) {
	if e.Bill.Err != nil { // what an admitted bill needs none of is apart, and allocates
		u.tell(ctx, &e)
	}
}

// ObserveAll implements observe.Batch.
func (u *Unreadable) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	for _, b := range bills {
		if b.Err != nil {
			u.Observe(ctx, weir.Event{Bill: b, Elapsed: elapsed})
		}
	}
}

func (u *Unreadable) tell(ctx context.Context, e *weir.Event) {
	b := e.Bill
	var se *weir.StoreError
	if !errors.As(b.Err, &se) || se.Kind != "wrong_type" && se.Kind != "bad_state" {
		return
	}
	// Which of a bill's balances it is, the store does not say.
	var hashes []string
	for i := range b.Balances() {
		if hash := observe.KeyHash(u.secret, b.Balances()[i].Charge.Key); !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	keys := strings.Join(hashes, " ")
	left, ok := u.take(keys)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("kind", se.Kind), slog.String("rule", observe.Rule(observe.NoteOf(e), b)), slog.String("key_hash", keys),
	}
	if left > 0 {
		attrs = append(attrs, slog.Int64("not_logged", left))
	}
	u.log.LogAttrs(ctx, slog.LevelError, "a balance in the store cannot be read: its limits give their stated answers until the key is removed", attrs...)
}

// take reports whether a line may tell of keys, and how many bills had none since
// the last.
func (u *Unreadable) take(keys string) (left int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.Sub(u.since) >= unreadableEvery {
		u.since = now
		clear(u.told)
	}
	if u.told[keys] || len(u.told) == unreadableLines {
		u.left++
		return 0, false
	}
	u.told[keys] = true
	left, u.left = u.left, 0
	return left, true
}
