package grpclimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// Limit is a pair of server interceptors. It is safe for concurrent use.
type Limit struct {
	Options
	limiter *weir.Limiter
	gate    *gate.Gate // decides in place of Rules, or nil
	format  *headers.Format
	waiting atomic.Int64 // calls and messages being decided or held
}

// New returns interceptors that apply o, or an error that names the option that
// is wrong.
func New(l *weir.Limiter, o Options) (*Limit, error) {
	if err := o.check(l); err != nil {
		return nil, err
	}
	return build(&Limit{Options: o, limiter: l})
}

// Policy returns interceptors that apply the policy of g, whose limiter is l: a
// call is a POST to the path /package.Service/Method, and its metadata are its
// header fields. Rules, Space and Address are the policy's and must be left
// empty; what Cost returns stands in for the costs of the policy.
func Policy(l *weir.Limiter, g *gate.Gate, o Options) (*Limit, error) {
	if err := o.checkPolicy(l, g); err != nil {
		return nil, err
	}
	return build(&Limit{Options: o, limiter: l, gate: g})
}

// build fills in the defaults.
func build(l *Limit) (*Limit, error) {
	var err error
	if l.format, err = headers.New(l.Headers); err != nil {
		return nil, err
	}
	if l.MaxDelay == 0 {
		l.MaxDelay = defaultMaxDelay
	}
	if l.MaxWaiting == 0 {
		l.MaxWaiting = defaultMaxWaiting
	}
	if l.Address == nil {
		l.Address = ByIP()
	}
	if l.Skip == nil {
		l.Skip = func(_ context.Context, method string) bool { return Exempt(method) }
	}
	return l, nil
}

// Unary implements grpc.UnaryServerInterceptor.
func (l *Limit) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !l.Skip(ctx, info.FullMethod) {
		trailer, err := l.admit(ctx, info.FullMethod, request)
		if len(trailer) > 0 {
			// The one error is that of a context that is no server's.
			_ = grpc.SetTrailer(ctx, trailer)
		}
		if err != nil {
			return nil, err
		}
	}
	return next(ctx, request)
}

// Stream implements grpc.StreamServerInterceptor.
func (l *Limit) Stream(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if l.Skip(s.Context(), info.FullMethod) {
		return next(server, s)
	}
	trailer, err := l.admit(s.Context(), info.FullMethod, nil)
	if err != nil || !l.Messages {
		s.SetTrailer(trailer)
		if err != nil {
			return err
		}
		return next(server, s)
	}
	counted := &stream{ServerStream: s, limit: l, method: info.FullMethod, last: trailer}
	defer counted.end()
	return next(server, counted)
}

// stream charges the messages of its client. Its trailers tell of the last one:
// what is set twice is sent twice.
type stream struct {
	grpc.ServerStream
	limit  *Limit
	method string

	mu   sync.Mutex // a handler may receive on another goroutine
	last metadata.MD
}

// end sets the trailers.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.SetTrailer(s.last)
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	trailer, err := s.limit.admit(s.Context(), s.method, m)
	if len(trailer) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = trailer
	}
	return err
}

// admit decides a call, and sits out its delay. It returns what its client is
// told in trailers, and a status if the call is not to go on.
func (l *Limit) admit(ctx context.Context, method string, request any) (metadata.MD, error) {
	cost := int64(0)
	if l.Cost != nil {
		if cost = l.Cost(ctx, method, request); cost < 1 {
			return nil, status.Error(codes.InvalidArgument, "a call costs at least 1")
		}
	}
	// A place is taken before the decision, since what is charged for a wait cannot
	// be taken back unseen.
	longest := l.MaxDelay
	if l.waiting.Add(1) > int64(l.MaxWaiting) {
		longest = 0
	}
	defer l.waiting.Add(-1)
	var bill *weir.Bill
	var shows []headers.Show
	if l.gate != nil {
		v := gate.Get()
		defer gate.Put(v)
		v.Door, v.NoWait, v.MaxDelay = "grpclimit", longest == 0, longest
		call := callOf(ctx, method)
		call.Cost = cost
		if err := l.gate.Decide(ctx, &call, v); err != nil {
			return nil, undecided(err)
		}
		bill = &v.Bill
		for i := range v.Rules {
			shows = append(shows, headers.Show{Name: v.Rules[i].Name, Hidden: !v.Shown(i)})
		}
	} else {
		bill, shows = l.bill(ctx, method, max(cost, 1))
		gate.BoundWaits(bill.Charges, longest)
		if err := l.limiter.Decide(ctx, bill); err != nil {
			return nil, undecided(err)
		}
	}
	answer := l.format.Answer(bill, shows)
	if bill.Allowed {
		if err := l.limiter.Hold(ctx, bill); err != nil {
			return nil, undecided(err)
		}
		return trailerOf(&answer), nil
	}
	trailer, err := refuse(&answer, bill, shows)
	return trailer, err
}

// bill makes the bill of a call by the rules.
func (l *Limit) bill(ctx context.Context, method string, cost int64) (*weir.Bill, []headers.Show) {
	b := new(weir.Bill)
	var shows []headers.Show
	for i := range l.Rules {
		rule := &l.Rules[i]
		limits := rule.Limits
		if rule.Plan != nil {
			if plan := rule.Plan(ctx, method); len(plan) > 0 {
				limits = plan
			}
		}
		key := l.key(ctx, method, rule)
		for _, limit := range limits {
			b.Charges = append(b.Charges, weir.Charge{Key: key, Limit: limit, Cost: cost, Space: l.Space})
			shows = append(shows, headers.Show{Hidden: rule.Hidden})
		}
	}
	return b, shows
}

// key returns whom a rule charges. Who has no key of its own is charged as such,
// so that no value a client can send is the same balance.
func (l *Limit) key(ctx context.Context, method string, rule *Rule) string {
	if key := rule.Key(ctx, method); key != "" {
		return key
	}
	if address := l.Address(ctx, method); address != "" {
		return "keyless:" + address
	}
	return "keyless:no address"
}

// undecided returns the status of a call that could not be decided.
func undecided(err error) error {
	var input *weir.InputError
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller has gone")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "there was no time to decide")
	case errors.As(err, &input):
		return status.Error(codes.Internal, "the call cannot be limited: "+input.Error())
	}
	return status.Error(codes.Unavailable, "the call could not be decided")
}
