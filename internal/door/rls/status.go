package rls

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/headers"
)

const (
	ok   = rlsv3.RateLimitResponse_OK
	over = rlsv3.RateLimitResponse_OVER_LIMIT
)

// outcome is what came of one descriptor.
type outcome struct {
	over      bool
	closed    bool // for want of its store
	remaining int64
	used      int64 // before the hits, where the balance is a counter
	reset     time.Duration
}

// judge reads the decision on a descriptor in the terms of the protocol.
func (c *call) judge(s *Service, a *asked) outcome {
	d := c.decision(a)
	o := outcome{over: !d.Allowed, closed: d.Reason == weir.FailedClosed, remaining: a.left, reset: d.ResetAfter}
	if o.reset == 0 && a.rule.Limit.Kind() == algo.FixedWindow {
		now := s.Now()
		if balances := c.bills[a.bill].Balances(); a.charge < len(balances) && balances[a.charge].View.Now > 0 {
			now = time.UnixMicro(balances[a.charge].View.Now)
		}
		o.reset = untilNext(a.rule.Limit.Period(), now)
	}
	if d.Reason == weir.FailedOpen {
		o.remaining = a.rule.Requests
		return o
	}
	if a.rule.Tally && !o.closed {
		// The last unit is spent by what goes over the limit, and by nothing else.
		o.over = o.over || a.left == 0
		o.remaining = max(a.left-1, 0) + a.rule.Beyond()
	}
	o.used = a.rule.Limit.Most() - a.left
	if d.Allowed && !a.refund {
		o.used -= a.hits
	}
	if o.over {
		o.remaining = 0
	}
	if a.refund {
		o.over = false
	}
	return o
}

// response makes the answer to a decided request.
func (c *call) response(s *Service, q *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	r := &rlsv3.RateLimitResponse{OverallCode: ok, Statuses: make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(c.asked))}
	statuses := make([]rlsv3.RateLimitResponse_DescriptorStatus, len(c.asked)) // one allocation for all
	refused, closed := false, false
	quotas, quotasOver := 0, 0
	nearest, least := -1, int64(math.MaxInt64)
	for i := range c.asked {
		a, st := &c.asked[i], &statuses[i]
		r.Statuses[i] = st
		st.Code = ok
		if a.rule == nil {
			continue
		}
		if a.rule.Unlimited {
			st.LimitRemaining = math.MaxUint32
			continue
		}
		o := c.judge(s, a)
		if c.bills[a.bill].Err != nil {
			s.counters.storeErrors.Add(1)
		}
		a.counts.add(a, o, s.Near)
		st.CurrentLimit = a.rule.Reported
		st.LimitRemaining = uint32(min(max(o.remaining, 0), math.MaxUint32))
		st.DurationUntilReset = &durationpb.Duration{Seconds: headers.Seconds(o.reset)}
		if o.over && !a.rule.Shadow {
			st.Code = over
			closed = closed || o.closed
		}
		quota := s.Quota || a.rule.Quota
		switch {
		case quota:
			quotas++
			if st.Code == over {
				quotasOver++
			}
		case st.Code == over:
			refused = true
		}
		if o.remaining < least || st.Code == over {
			nearest, least = i, o.remaining
		}
	}
	if refused || closed || quotas > 0 && quotas == quotasOver {
		r.OverallCode = over
		r = s.shadow(r)
	}
	if s.Headers[0] != "" && nearest >= 0 {
		r.ResponseHeadersToAdd = s.headers(statuses[nearest].CurrentLimit, &statuses[nearest])
	}
	if s.Metadata {
		r.DynamicMetadata = c.metadata(q, statuses)
	}
	return r
}

// shadow lets an answer that refuses pass where the whole service is in shadow.
func (s *Service) shadow(r *rlsv3.RateLimitResponse) *rlsv3.RateLimitResponse {
	if s.Shadow {
		r.OverallCode = ok
		s.counters.shadowed.Add(1)
	}
	return r
}

// headers tells of the descriptor that is nearest to its limit.
func (s *Service) headers(limit *rlsv3.RateLimitResponse_RateLimit, st *rlsv3.RateLimitResponse_DescriptorStatus) []*corev3.HeaderValue {
	return []*corev3.HeaderValue{
		{Key: s.Headers[0], Value: strconv.FormatUint(uint64(limit.GetRequestsPerUnit()), 10)},
		{Key: s.Headers[1], Value: strconv.FormatUint(uint64(st.GetLimitRemaining()), 10)},
		{Key: s.Headers[2], Value: strconv.FormatInt(st.GetDurationUntilReset().GetSeconds(), 10)},
	}
}

// refusal answers OVER_LIMIT where nothing could be decided and a closed rule
// would have had a say.
func (c *call) refusal(q *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	r := &rlsv3.RateLimitResponse{OverallCode: over}
	for i := range q.GetDescriptors() {
		st := &rlsv3.RateLimitResponse_DescriptorStatus{Code: ok}
		if rule := c.asked[i].rule; rule != nil && !rule.Unlimited && rule.Limit.Failure() == weir.Closed {
			st.Code, st.CurrentLimit = over, rule.Reported
			st.DurationUntilReset = durationpb.New(time.Second)
		}
		r.Statuses = append(r.Statuses, st)
	}
	return r
}
