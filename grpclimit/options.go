package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// Options configures New and Policy.
type Options struct {
	// Rules are charged together for every call: admitted by all, or charged by
	// none.
	Rules []Rule

	// Cost returns how many units a call costs, at least 1; nil for 1. request is
	// the message of a unary call, and of a stream where Messages is set; it is
	// nil when a stream opens. A call for which it returns less ends with
	// INVALID_ARGUMENT and is charged nothing.
	Cost func(ctx context.Context, method string, request any) int64
	// Messages charges a stream for every message that the client sends, beside
	// its opening. The message that is denied ends the stream.
	Messages bool
	// Skip reports that a call is not limited at all. Nil skips health checks and
	// reflection.
	Skip func(ctx context.Context, method string) bool

	// Space keeps these balances apart from those of other spaces.
	Space string
	// Address says whom a call without a key is charged to; nil for its direct
	// peer. Behind a proxy that should be ByIP(trusted...).
	Address Key

	// MaxDelay bounds how long a leaky bucket may hold a call; 0 for 30 s. A call
	// that would wait longer is denied, and charged nothing.
	MaxDelay time.Duration
	// MaxWaiting bounds how many calls and messages these interceptors hold at a
	// time; 0 for 1000. Beyond it, one that would have to wait is denied, so that
	// waiting calls cannot use up memory.
	MaxWaiting int

	// Headers says what clients are shown.
	Headers headers.Options
}

// Rule is a key and the limits on it.
type Rule struct {
	Key    Key
	Limits []weir.Limit
	// Plan returns the limits for this call, by what its caller pays for; if it
	// returns none, Limits hold.
	Plan func(ctx context.Context, method string) []weir.Limit
	// Hidden keeps the rule out of trailers and details.
	Hidden bool
}

const (
	defaultMaxDelay   = 30 * time.Second
	defaultMaxWaiting = 1000
)

// Exempt reports whether a method is one that must not be limited: health checks
// and reflection.
func Exempt(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasPrefix(method, "/grpc.reflection.")
}

// check returns an error that names the option that is wrong.
func (o *Options) check(l *weir.Limiter) error {
	switch {
	case l == nil:
		return errors.New("grpclimit: the limiter is nil")
	case len(o.Rules) == 0:
		return errors.New("grpclimit: no rules; an interceptor without one would limit nothing")
	case o.MaxDelay < 0:
		return errors.New("grpclimit: MaxDelay is negative")
	case o.MaxWaiting < 0:
		return errors.New("grpclimit: MaxWaiting is negative")
	}
	for i := range o.Rules {
		rule := &o.Rules[i]
		switch {
		case rule.Key == nil:
			return fmt.Errorf("grpclimit: Rules[%d].Key is nil", i)
		case len(rule.Limits) == 0 && rule.Plan == nil:
			return fmt.Errorf("grpclimit: Rules[%d] has no limits", i)
		}
		for j, limit := range rule.Limits {
			if err := limit.Check(); err != nil {
				return fmt.Errorf("grpclimit: Rules[%d].Limits[%d]: %w", i, j, err)
			}
		}
	}
	return nil
}

func (o *Options) checkPolicy(l *weir.Limiter, g *gate.Gate) error {
	switch {
	case l == nil || g == nil:
		return errors.New("grpclimit: the limiter or the gate is nil")
	case len(o.Rules) > 0 || o.Space != "" || o.Address != nil:
		return errors.New("grpclimit: Rules, Space and Address are the policy's to say")
	case o.MaxDelay < 0:
		return errors.New("grpclimit: MaxDelay is negative")
	case o.MaxWaiting < 0:
		return errors.New("grpclimit: MaxWaiting is negative")
	}
	return nil
}
