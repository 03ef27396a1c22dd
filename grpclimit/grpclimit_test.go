package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// echo answers calls and counts them.
type echo struct {
	grpc_testing.UnimplementedTestServiceServer
	calls atomic.Int64
}

func (e *echo) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	e.calls.Add(1)
	return &grpc_testing.SimpleResponse{}, nil
}

func (e *echo) FullDuplexCall(s grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	for {
		if _, err := s.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		e.calls.Add(1)
		if err := s.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// server serves an echo behind limit and returns a client of it.
type server struct {
	echo *echo
	grpc_testing.TestServiceClient
	health healthv1.HealthClient
}

func serve(t *testing.T, limit *Limit, options ...grpc.DialOption) *server {
	t.Helper()
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	out := &server{echo: &echo{}}
	grpc_testing.RegisterTestServiceServer(s, out.echo)
	healthv1.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must(t, err)
	t.Cleanup(func() {
		must(t, conn.Close())
		s.Stop()
		must(t, <-ended)
	})
	out.TestServiceClient, out.health = grpc_testing.NewTestServiceClient(conn), healthv1.NewHealthClient(conn)
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func limiter(t *testing.T, store weir.Store) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Options{Store: store})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

func limit(t *testing.T, l *weir.Limiter, o Options) *Limit {
	t.Helper()
	out, err := New(l, o)
	must(t, err)
	return out
}

func rules(key Key, limits ...weir.Limit) Options {
	return Options{Rules: []Rule{{Key: key, Limits: limits}}}
}

// end is how a call ended, as a client sees it.
type end struct {
	code     codes.Code
	header   metadata.MD
	trailer  metadata.MD
	retry    time.Duration
	violated []string
}

func (s *server) call(ctx context.Context) (e end) {
	_, err := s.UnaryCall(ctx, &grpc_testing.SimpleRequest{}, grpc.Header(&e.header), grpc.Trailer(&e.trailer))
	e.code = status.Code(err)
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			e.retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				e.violated = append(e.violated, v.GetSubject()+" "+v.GetDescription())
			}
		}
	}
	return e
}

func TestUnary(t *testing.T) {
	hourly, err := weir.ParseLimit("2/hour algorithm=fixed_window name=calls")
	must(t, err)
	s := serve(t, limit(t, limiter(t, nil), rules(ByIP(), hourly)))
	ctx := context.Background()
	for i := range 2 {
		if e := s.call(ctx); e.code != codes.OK || e.trailer["ratelimit-remaining"][0] != fmt.Sprint(1-i) {
			t.Errorf("call %d: %+v", i, e)
		}
	}
	e := s.call(ctx)
	if e.code != codes.ResourceExhausted || s.echo.calls.Load() != 2 {
		t.Fatalf("the third call: %+v, %d handled", e, s.echo.calls.Load())
	}
	if strings.Join(e.violated, ";") != "limit:calls at most 2 per h" {
		t.Errorf("violated: %q", e.violated)
	}
	if e.retry <= 0 || fmt.Sprint([]string{fmt.Sprint(e.retry.Milliseconds())}) != fmt.Sprint(e.trailer[Pushback]) {
		t.Errorf("RetryInfo says %v, the pushback %v", e.retry, e.trailer[Pushback])
	}
	for name := range e.header {
		if strings.Contains(name, "ratelimit") || name == Pushback {
			t.Errorf("%s is sent as a header: no client would retry", name)
		}
	}
	if _, err := s.health.Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a health check is refused: %v", err)
	}
}

// TestPushback has a client with a retry policy, which is what obeys pushback.
func TestPushback(t *testing.T) {
	const retry = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`
	for _, c := range []struct {
		name, limit string
		code        codes.Code
		decided     int64
	}{
		{"waits and succeeds", "1/500ms", codes.OK, 2},
		{"is told not to", "0/s", codes.ResourceExhausted, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := weir.ParseLimit(c.limit)
			must(t, err)
			var decided atomic.Int64
			l := limiter(t, nil)
			s := serve(t, limit(t, l, rules(By("k", func(context.Context, string) string {
				decided.Add(1)
				return "k"
			}), parsed)), grpc.WithDefaultServiceConfig(retry))
			_, err = l.Take(context.Background(), weir.Charge{Key: "k:k", Limit: parsed, Cost: 1})
			must(t, err)
			if e := s.call(context.Background()); e.code != c.code || decided.Load() != c.decided {
				t.Errorf("%v after %d attempts, want %v after %d", e.code, decided.Load(), c.code, c.decided)
			}
		})
	}
}

// lost is a store that nothing reaches.
type lost struct{}

func (lost) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: true, Err: errors.New("no route")}
	}
}
func (lost) Caps() weir.Caps { return weir.Caps{Source: "redis", Verbs: []algo.Verb{algo.Take}} }
func (lost) Close() error    { return nil }

func TestWithoutStore(t *testing.T) {
	for f, want := range map[weir.Failure]codes.Code{weir.Closed: codes.Unavailable, weir.Open: codes.OK, weir.Local: codes.OK} {
		s := serve(t, limit(t, limiter(t, lost{}), rules(Everyone(), weir.PerMinute(5).OnFailure(f))))
		if e := s.call(context.Background()); e.code != want || want != codes.OK && e.retry == 0 {
			t.Errorf("%v: %+v", f, e)
		}
	}
}

func TestStream(t *testing.T) {
	hourly, err := weir.ParseLimit("3/hour algorithm=fixed_window")
	must(t, err)
	for messages, handled := range map[bool]int{false: 5, true: 2} { // the opening is one
		o := rules(Everyone(), hourly)
		o.Messages = messages
		s := serve(t, limit(t, limiter(t, nil), o))
		stream, err := s.FullDuplexCall(context.Background())
		must(t, err)
		n := 0
		for ; n < 5; n++ {
			if err = stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
				break
			}
			if _, err = stream.Recv(); err != nil {
				break
			}
		}
		if n != handled || messages != (status.Code(err) == codes.ResourceExhausted) || messages != (len(stream.Trailer()[Pushback]) == 1) {
			t.Errorf("messages=%v: %d handled, then %v with %v", messages, n, err, stream.Trailer())
		}
		must(t, stream.CloseSend())
	}
}

func TestKeys(t *testing.T) {
	proxies := netip.MustParsePrefix("127.0.0.0/8")
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.Pairs("x-forwarded-for", "198.51.100.7", "x-key", "a", "twice", "1", "twice", "2"))
	const method = "/grpc.testing.TestService/UnaryCall"
	for _, c := range []struct {
		name string
		key  Key
		want string
	}{
		{"a trusted proxy", ByIP(proxies), "ip:198.51.100.7"},
		{"nobody is trusted", ByIP(), "ip:127.0.0.1"},
		{"metadata", ByMetadata("X-Key"), "metadata:x-key:a"},
		{"metadata, twice", ByMetadata("twice"), "keyless:ip:127.0.0.1"},
		{"method", ByMethod(), "method:" + method},
		{"first", First(ByMetadata("none"), ByMetadata("x-key")), "metadata:x-key:a"},
		{"joined", Join(ByMetadata("x-key"), ByMethod()), "16:metadata:x-key:a42:method:" + method},
		{"joined, one missing", Join(ByMetadata("none"), ByMethod()), "keyless:ip:127.0.0.1"},
		{"by a kind with a colon", By("user:trial", func(context.Context, string) string { return "u" }), "user%3Atrial:u"},
		{"by value", By("user", func(context.Context, string) string { return "u" }), "user:u"},
	} {
		l := limiter(t, nil)
		s := serve(t, limit(t, l, rules(c.key, weir.Per(1, time.Hour))))
		if e := s.call(ctx); e.code != codes.OK {
			t.Fatalf("%s: %+v", c.name, e)
		}
		key := c.want
		if address, ok := strings.CutPrefix(strings.TrimPrefix(key, "keyless:"), "ip:"); ok {
			prefix := strings.TrimSuffix(key, "ip:"+address) + "ip:"
			key = string(identity.AppendNetwork([]byte(prefix), netip.PrefixFrom(netip.MustParseAddr(address), 32)))
		}
		if d, err := l.Peek(ctx, weir.Charge{Key: key, Limit: weir.Per(1, time.Hour), Cost: 1}); err != nil || d.Allowed {
			t.Errorf("%s: the call was not charged to %q", c.name, key)
		}
	}
}

func TestCostSkipAndDelay(t *testing.T) {
	o := rules(Everyone(), weir.Per(5, time.Hour))
	o.Cost = func(_ context.Context, _ string, request any) int64 {
		return int64(request.(*grpc_testing.SimpleRequest).GetResponseSize())
	}
	s := serve(t, limit(t, limiter(t, nil), o))
	for _, c := range []struct {
		cost int32
		want codes.Code
	}{{4, codes.OK}, {2, codes.ResourceExhausted}, {1, codes.OK}, {0, codes.InvalidArgument}, {6, codes.ResourceExhausted}} {
		_, err := s.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{ResponseSize: c.cost})
		if status.Code(err) != c.want {
			t.Errorf("cost %d: %v", c.cost, err)
		}
	}

	o = rules(Everyone(), weir.Per(1, time.Hour))
	o.Skip = func(_ context.Context, method string) bool { return strings.HasSuffix(method, "/UnaryCall") }
	s = serve(t, limit(t, limiter(t, nil), o))
	for range 3 {
		if e := s.call(context.Background()); e.code != codes.OK {
			t.Errorf("a call that is skipped: %+v", e)
		}
	}

	queue, err := weir.ParseLimit("1/200ms algorithm=leaky_bucket burst=5")
	must(t, err)
	o = rules(Everyone(), queue)
	o.MaxDelay = 250 * time.Millisecond
	s = serve(t, limit(t, limiter(t, nil), o))
	began := time.Now()
	first, second := s.call(context.Background()), s.call(context.Background())
	if first.code != codes.OK || second.code != codes.OK || time.Since(began) < 190*time.Millisecond {
		t.Errorf("%v, %v after %v: the second is held", first.code, second.code, time.Since(began))
	}
}

func TestPolicy(t *testing.T) {
	key, err := identity.ParsePart("ip")
	must(t, err)
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{{
		Name: "echo", Match: policy.Conditions{Methods: []string{"POST"}, Paths: []string{"/grpc.testing.TestService/*"}}, Key: []identity.Part{key}, Limit: weir.Per(1, time.Hour),
	}}})
	must(t, err)
	l := limiter(t, nil)
	lim, err := Policy(l, gate.New(l, nil, p), Options{})
	must(t, err)
	s := serve(t, lim)
	first, second := s.call(context.Background()), s.call(context.Background())
	if first.code != codes.OK || second.code != codes.ResourceExhausted || strings.Join(second.violated, ";") != "limit:echo at most 1 per h" {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestClient has a client that waits for its own limit and for the server.
func TestClient(t *testing.T) {
	own, err := weir.ParseLimit("1/300ms")
	must(t, err)
	l := limiter(t, nil)
	c, err := NewClient(ClientOptions{Limiter: l, Charges: func(context.Context, string) []weir.Charge { return []weir.Charge{own.Charge("server")} }, MaxWait: 2 * time.Second})
	must(t, err)
	s := serve(t, limit(t, limiter(t, nil), rules(Everyone(), weir.Per(3, 365*24*time.Hour))), grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream))
	began := time.Now()
	for range 3 {
		if e := s.call(context.Background()); e.code != codes.OK {
			t.Fatalf("%+v", e)
		}
	}
	if took := time.Since(began); took < 590*time.Millisecond {
		t.Errorf("three calls at one in 300 ms took %v", took)
	}
	if e := s.call(context.Background()); e.code != codes.ResourceExhausted || e.retry == 0 {
		t.Fatalf("the server refuses: %+v", e)
	}
	handled := s.echo.calls.Load()
	if e := s.call(context.Background()); e.code != codes.ResourceExhausted || e.retry != 0 || s.echo.calls.Load() != handled {
		t.Errorf("a call that the server would refuse for months: %+v", e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if e := s.call(ctx); e.code != codes.Canceled {
		t.Errorf("a caller that has gone: %+v", e)
	}
}

func TestMistakes(t *testing.T) {
	l := limiter(t, nil)
	for want, o := range map[string]Options{
		"no rules":                 {},
		"Rules[0].Key is nil":      {Rules: []Rule{{}}},
		"Rules[0] has no limits":   {Rules: []Rule{{Key: Everyone()}}},
		"Rules[0].Limits[0]":       rules(Everyone(), weir.Limit{}),
		"grpclimit: MaxDelay is n": {Rules: []Rule{{Key: Everyone(), Limits: []weir.Limit{weir.PerSecond(1)}}}, MaxDelay: -1},
		"grpclimit: MaxWaiting is": {Rules: []Rule{{Key: Everyone(), Limits: []weir.Limit{weir.PerSecond(1)}}}, MaxWaiting: -1},
	} {
		if _, err := New(l, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no limiter is taken")
	}
	if _, err := Policy(l, nil, Options{}); err == nil {
		t.Error("no gate is taken")
	}
	if _, err := NewClient(ClientOptions{Limiter: l}); err == nil {
		t.Error("a limiter without charges is taken")
	}
}
