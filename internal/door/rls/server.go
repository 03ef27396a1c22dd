package rls

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// ServerOptions configures NewServer.
type ServerOptions struct {
	TLS   func() *tls.Config // the one in force, asked at each handshake; nil for plain text
	Token string             // that callers must show, or ""
	// Trace begins the span of a question, whose metadata field returns, or is nil.
	Trace func(ctx context.Context, field func(name string) string) (in context.Context, end func())
}

// Server serves a Service over gRPC, with health and reflection.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

// healthNames are what a probe may ask for: everything, what that server calls
// itself, and the service.
var healthNames = []string{"", "ratelimit", rlsv3.RateLimitService_ServiceDesc.ServiceName}

// Limits on those who connect. A caller opens one connection and keeps it; one
// that opens a thousand, or holds them open half made, gets no memory for it.
const (
	maxMessage    = 1 << 20
	maxHeaderList = 16 << 10
	maxStreams    = 1 << 16
	handshake     = 10 * time.Second
	pingEvery     = 10 * time.Second // no more often
	idleProbe     = 2 * time.Minute
	probeWithin   = 20 * time.Second
)

// GRPCOptions are what the door sets for every server. They are for whoever
// measures one beside it.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaderList), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idleProbe, Timeout: probeWithin}),
	}
}

// NewServer returns a server that does not yet serve.
func NewServer(s *Service, o ServerOptions) *Server {
	options := GRPCOptions()
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2"},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				c := o.TLS().Clone()
				c.NextProtos = []string{"h2"}
				return c, nil
			},
		})))
	}
	if o.Token != "" {
		options = append(options, grpc.UnaryInterceptor(o.unary), grpc.StreamInterceptor(o.stream))
	}
	out := &Server{grpc: grpc.NewServer(options...), health: health.NewServer()}
	rlsv3.RegisterRateLimitServiceServer(out.grpc, answerer{s, o.Trace})
	healthv1.RegisterHealthServer(out.grpc, out.health)
	reflection.Register(out.grpc)
	for _, name := range healthNames {
		out.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	return out
}

// answerer is the Service as gRPC knows it.
type answerer struct {
	*Service
	trace func(ctx context.Context, field func(name string) string) (context.Context, func())
}

// ShouldRateLimit implements the service.
func (a answerer) ShouldRateLimit(ctx context.Context, q *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	if a.trace != nil {
		md, _ := metadata.FromIncomingContext(ctx)
		var end func()
		ctx, end = a.trace(ctx, func(name string) string {
			if values := md.Get(name); len(values) > 0 {
				return values[0]
			}
			return ""
		})
		defer end()
	}
	return a.Decide(ctx, q)
}

// admits reports whether the caller has shown the token. Health is asked for by
// probes, which have none.
func (o *ServerOptions) admits(ctx context.Context, method string) error {
	if strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(o.Token)) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "this door takes a token: authorization: Bearer TOKEN")
}

func (o *ServerOptions) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := o.admits(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, q)
}

func (o *ServerOptions) stream(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := o.admits(s.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(server, s)
}

// Serve serves until Shutdown, which is no error.
func (s *Server) Serve(l net.Listener) error {
	return s.grpc.Serve(l)
}

// Drain tells probes that the end is near; callers are still served.
func (s *Server) Drain() {
	for _, name := range healthNames {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_NOT_SERVING)
	}
}

// Shutdown sends callers away and waits until what is in flight is answered or
// ctx ends, and cuts off the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown() // ends watches, which would be in flight for ever
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}
