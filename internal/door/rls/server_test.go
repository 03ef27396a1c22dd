package rls

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

const oneRule = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 2}}]"

// serve opens a server on a free port.
func serve(t testing.TB, o ServerOptions) (*Server, string) {
	t.Helper()
	h := newHarness(t, Options{}, "f.yaml", oneRule)
	s := NewServer(h.Service, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(conn *grpc.ClientConn) (rlsv3.RateLimitResponse_Code, error) {
	a, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), request(1, descriptor("k", "v")))
	return a.GetOverallCode(), err
}

func TestServer(t *testing.T) {
	s, addr := serve(t, ServerOptions{})
	conn := dial(t, addr, insecure.NewCredentials())
	for i, want := range []rlsv3.RateLimitResponse_Code{ok, ok, over} {
		if got, err := ask(conn); err != nil || got != want {
			t.Errorf("request %d: %v, %v", i, got, err)
		}
	}
	well := func() healthv1.HealthCheckResponse_ServingStatus {
		a, err := healthv1.NewHealthClient(conn).Check(context.Background(), &healthv1.HealthCheckRequest{Service: "ratelimit"})
		must(t, err)
		return a.GetStatus()
	}
	if got := well(); got != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v", got)
	}
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(context.Background())
	must(t, err)
	must(t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService"},
	}))
	found, err := stream.Recv()
	if err != nil || len(found.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection: %v, %v", found, err)
	}
	must(t, stream.CloseSend())
	_, err = stream.Recv()
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream of reflection ends with %v", err)
	}
	s.Drain()
	if got := well(); got != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while draining: %v", got)
	}
	if got, err := ask(conn); err != nil || got != over {
		t.Errorf("while draining: %v, %v", got, err)
	}
}

func TestToken(t *testing.T) {
	_, addr := serve(t, ServerOptions{Token: "secret"})
	conn := dial(t, addr, insecure.NewCredentials())
	for value, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated, "secret": codes.Unauthenticated, "bearer secret": codes.OK} {
		ctx := context.Background()
		if value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
		}
		_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request(1, descriptor("k", "v")))
		if status.Code(err) != want {
			t.Errorf("%q: %v", value, err)
		}
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		must(t, err)
		must(t, stream.CloseSend())
		if _, err = stream.Recv(); errors.Is(err, io.EOF) != (want == codes.OK) {
			t.Errorf("reflection with %q: %v", value, err)
		}
	}
	if _, err := healthv1.NewHealthClient(conn).Check(context.Background(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a probe without a token: %v", err)
	}
}

// TestTLS has clients without a certificate, with a strange one and with theirs.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ours.issue(t)}}
	_, plain := serve(t, ServerOptions{TLS: func() *tls.Config { return config }})
	mutual := config.Clone()
	mutual.ClientCAs, mutual.ClientAuth = ours.pool, tls.RequireAndVerifyClientCert
	_, both := serve(t, ServerOptions{TLS: func() *tls.Config { return mutual }})
	for _, c := range []struct {
		name, addr string
		client     *tls.Config
		passes     bool
	}{
		{"TLS", plain, &tls.Config{RootCAs: ours.pool}, true},
		{"TLS, another authority", plain, &tls.Config{RootCAs: theirs.pool}, false},
		{"mTLS, no certificate", both, &tls.Config{RootCAs: ours.pool}, false},
		{"mTLS, a strange one", both, &tls.Config{RootCAs: ours.pool, Certificates: []tls.Certificate{theirs.issue(t)}}, false},
		{"mTLS", both, &tls.Config{RootCAs: ours.pool, Certificates: []tls.Certificate{ours.issue(t)}}, true},
	} {
		if _, err := ask(dial(t, c.addr, credentials.NewTLS(c.client))); (err == nil) != c.passes {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := ask(dial(t, plain, insecure.NewCredentials())); err == nil {
		t.Error("plain text passes where TLS is asked for")
	}
}

// TestKeepalive has a client that pings all the time: it is sent away.
func TestKeepalive(t *testing.T) {
	_, addr := serve(t, ServerOptions{})
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	f := http2.NewFramer(conn, conn)
	must(t, f.WriteSettings())
	for i := range 10 {
		must(t, f.WritePing(false, [8]byte{byte(i)}))
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ends with %v, not with a frame that says why", err)
		}
		if away, is := frame.(*http2.GoAwayFrame); is {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm || !strings.Contains(string(away.DebugData()), "too_many_pings") {
				t.Errorf("sent away for %v %s", away.ErrCode, away.DebugData())
			}
			return
		}
	}
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	shape := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, shape, shape, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	a := &authority{cert, key, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) issue(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "weir"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
