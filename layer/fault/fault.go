// Package fault makes a store's server fail on purpose, for a stated time: a
// drill, in which the answers that limits state for an outage are seen before
// there is one.
//
//	redisstore ─ queue ─ breaker ─▶ fault ─▶ client ─▶ Redis
//
// It stands before the client and not before the store, where the other layers
// stand, so that what is drilled is the real thing: deadlines run out, the breaker
// refuses and finds back, debts are paid. A fault never charges anything, and a
// drill always ends by itself.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// The kinds of faults.
const (
	Latency     = "latency"     // every call takes longer
	Stall       = "stall"       // no call is answered
	Unreachable = "unreachable" // nobody listens
	Refusal     = "refusal"     // the server answers with an error
)

// Fault is what is to go wrong.
type Fault struct {
	Kind    string
	Latency time.Duration // of Latency: what is added, more than 0
	Reply   string        // of Refusal: the error's first word, such as READONLY
	Percent int           // of the calls, 1 to 100
}

// Longest is the longest that a drill may last.
const Longest = 10 * time.Minute

// replies are the refusals that can be drilled.
var replies = []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "OOM", "BUSY", "NOPERM", "NOAUTH"}

// Check returns what is wrong with f, as the field and the problem.
func (f *Fault) Check() (field, problem string) {
	switch {
	case f.Kind != Latency && f.Kind != Stall && f.Kind != Unreachable && f.Kind != Refusal:
		return "fault", "must be latency, stall, unreachable or refusal"
	case f.Kind == Latency && (f.Latency <= 0 || f.Latency > time.Minute):
		return "latency", "must be a time such as 500ms, at most 1m"
	case f.Kind == Refusal && !known(f.Reply):
		return "reply", "must be one of " + strings.Join(replies, ", ")
	case f.Percent < 1 || f.Percent > 100:
		return "percent", "must lie between 1 and 100"
	}
	return "", ""
}

func known(reply string) bool {
	for _, r := range replies {
		if r == reply {
			return true
		}
	}
	return false
}

// Calls is how a store calls scripts: a redisstore.Scripter.
type Calls interface {
	EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error)
	Eval(ctx context.Context, text string, keys, args []string) (string, error)
	Close() error
}

// Injector injects faults into the calls that it wraps. The zero value injects
// none. It is safe for concurrent use.
type Injector struct {
	mu  sync.Mutex
	now *drill // nil for none
}

// drill is a fault in force.
type drill struct {
	Fault
	until time.Time
	ended chan struct{}
}

// Begin injects f for d, in place of what was injected before. f has been
// checked. It returns a channel that is closed when that ends.
func (i *Injector) Begin(f Fault, d time.Duration) (ended <-chan struct{}) {
	d = min(d, Longest)
	one := &drill{Fault: f, until: time.Now().Add(d), ended: make(chan struct{})}
	i.mu.Lock()
	i.replace(one)
	i.mu.Unlock()
	time.AfterFunc(d, func() { i.end(one) })
	return one.ended
}

// End ends what is injected.
func (i *Injector) End() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replace(nil)
}

// end ends one, if it is still in force.
func (i *Injector) end(one *drill) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now == one {
		i.replace(nil)
	}
}

// replace ends what is in force and puts one in its place, in one step: of two
// that begin together one ends the other. The caller holds mu.
func (i *Injector) replace(one *drill) {
	if i.now != nil {
		close(i.now.ended)
	}
	i.now = one
}

// Wrap returns calls with the injector's faults in front of them.
func (i *Injector) Wrap(calls Calls) Calls { return &way{i, calls} }

type way struct {
	injector *Injector
	Calls
}

// EvalSHA implements Calls.
func (w *way) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	if err := w.injector.meet(ctx); err != nil {
		return "", err
	}
	return w.Calls.EvalSHA(ctx, sha, keys, args)
}

// Eval implements Calls.
func (w *way) Eval(ctx context.Context, text string, keys, args []string) (string, error) {
	if err := w.injector.meet(ctx); err != nil {
		return "", err
	}
	return w.Calls.Eval(ctx, text, keys, args)
}

var errDrill = errors.New("a drill is on")

// meet lets the fault in force happen to a call, which has not been sent.
func (i *Injector) meet(ctx context.Context) error {
	i.mu.Lock()
	one := i.now
	i.mu.Unlock()
	// The timer that ends a drill may be late; the drill is not.
	if one == nil || !time.Now().Before(one.until) || rand.N(100) >= one.Percent {
		return nil
	}
	switch one.Kind {
	case Unreachable:
		return &net.OpError{Op: "dial", Net: "tcp", Err: errDrill}
	case Refusal:
		return refused(one.Reply)
	case Stall:
		return one.hold(ctx, time.Until(one.until))
	default:
		return one.hold(ctx, min(one.Latency, time.Until(one.until)))
	}
}

// hold waits for d, or for the end of the drill.
func (one *drill) hold(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-one.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refused is an error that looks as if the server had sent it.
type refused string

// Error returns the server's text.
func (r refused) Error() string { return fmt.Sprintf("%s %s", string(r), errDrill) }

// RedisError marks it as the server's own.
func (refused) RedisError() {}
