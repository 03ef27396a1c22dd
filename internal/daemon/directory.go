package daemon

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/directory"
	"github.com/weirhq/weir/identity"
)

// callers is what is known of callers outside the policy file. A daemon whose
// balances are its own has none; the zero value knows nobody.
type callers struct {
	lookups   *identity.Lookups // nil for none
	directory *directory.Directory
}

// openCallers connects to where tenants and API keys are kept, beside the
// balances.
func openCallers(s StoreConfig, log *slog.Logger) (*callers, error) {
	if !s.shared() {
		return &callers{}, nil
	}
	d, err := directory.Open(s.URL, directory.Options{
		Prefix: s.Prefix, Conn: s.Conn,
		OnBad: func(b directory.Bad) {
			log.Warn("a bad value in the store is passed over; the last good one is in force",
				"key", b.Key, "field", b.Field, "problem", b.Problem)
		},
	})
	if err != nil {
		return nil, &StoreError{err}
	}
	outage := outageLog{log: log, what: "tenants and API keys cannot be looked up; those who are known are served as before"}
	l, err := identity.NewLookups(d, identity.LookupOptions{Timeout: s.Timeout, OnError: outage.hear})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &callers{l, d}, nil
}

// Close ends the connection.
func (c *callers) Close() error {
	if c.directory == nil {
		return nil
	}
	return c.directory.Close()
}

// outageLog tells of questions that failed, once in a while: while the store is
// away there are many, and all say the same.
type outageLog struct {
	what string
	log  *slog.Logger
	last atomic.Int64 // seconds
}

const outageEvery = 60 // seconds

func (o *outageLog) hear(err error) {
	now, last := time.Now().Unix(), o.last.Load()
	if now-last < outageEvery || !o.last.CompareAndSwap(last, now) {
		return
	}
	o.log.Warn(o.what, "error", err.Error())
}
