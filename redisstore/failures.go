package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/batch"
	"github.com/weirhq/weir/internal/redisconn"
)

// refusal returns the text of an error that the server itself answered with, as
// opposed to one of the way to it.
func refusal(err error) (text string, ok bool) {
	var e *rueidis.RedisError
	if errors.As(err, &e) && !e.IsNil() {
		return e.Error(), true
	}
	var other interface {
		error
		RedisError() // what go-redis marks its own with
	}
	if errors.As(err, &other) {
		return other.Error(), true
	}
	return "", false
}

// replyError returns the StoreError for an error that the server answered with.
// The text goes no further than its first word: what follows may name a key.
func replyError(text string) *weir.StoreError {
	word, _, _ := strings.Cut(strings.TrimPrefix(text, "ERR "), " ")
	k, ok := kindOfWord[strings.TrimSuffix(word, ":")]
	if !ok {
		return &weir.StoreError{Kind: "other", Err: errors.New("redis refused the script")}
	}
	return &weir.StoreError{Kind: k.name, Unreachable: k.unreachable}
}

// Refused returns what a server that is there means by refusing, where err holds
// its reply: that it is full, a replica, or forbids it. It is nil for everything
// else, also for a server that answers and says that nobody can be served.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	if text, ok := refusal(err); ok {
		if e := replyError(text); !e.Unreachable {
			return e
		}
	}
	return nil
}

// storeError returns the StoreError for err, which is not nil.
func storeError(err error) *weir.StoreError {
	var se *weir.StoreError
	var timeout net.Error
	var dial *net.OpError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &se):
		return se
	case errors.Is(err, batch.ErrFull):
		return &weir.StoreError{Kind: "overloaded", Err: err}
	case errors.Is(err, batch.ErrUnknown):
		return &weir.StoreError{Kind: "timeout", Err: err, Unknown: true}
	case errors.Is(err, batch.ErrLate):
		return &weir.StoreError{Kind: "timeout", Err: err}
	case errors.Is(err, batch.ErrClosed):
		return &weir.StoreError{Kind: "unreachable", Err: err, Unreachable: true}
	case errors.Is(err, context.Canceled):
		return &weir.StoreError{Kind: "canceled", Err: context.Canceled, Unknown: true}
	case errors.As(err, &certificate), errors.As(err, &alert):
		return &weir.StoreError{Kind: "tls", Err: err, Unreachable: true}
	case errors.Is(err, redisconn.ErrDown):
		if text, ok := refusal(err); ok { // it answers, and refuses us or is not ready
			return replyError(text)
		}
		return &weir.StoreError{Kind: "unreachable", Err: err, Unreachable: true}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &weir.StoreError{Kind: "unreachable", Err: err, Unreachable: true}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return &weir.StoreError{Kind: "timeout", Err: context.DeadlineExceeded, Unknown: true}
	case errors.Is(err, io.EOF), errors.As(err, &dial):
		return &weir.StoreError{Kind: "unreachable", Err: err, Unreachable: true, Unknown: true}
	}
	return &weir.StoreError{Kind: "other", Err: err, Unknown: true}
}
