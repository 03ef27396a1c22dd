package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirhq/weir/internal/door/rls"
)

// TestRLS opens the grpc, http, resp and admin doors of one daemon: gRPC and /json
// charge the same balance, and its counters are among the metrics.
func TestRLS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "d.yaml"), []byte("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	const asked = `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`
	loopback := Listen{Address: "127.0.0.1:0"}
	err := Run(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), RLS: &rls.Options{Dir: dir},
		Doors: []Door{HTTP(loopback), Admin(loopback), GRPC(loopback), RESP(loopback, "test")},
		Beside: func(ctx context.Context, at map[string]net.Addr) error {
			conn, err := grpc.NewClient(at["grpc"].String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer conn.Close()
			q := new(rlsv3.RateLimitRequest)
			if err := protojson.Unmarshal([]byte(asked), q); err != nil {
				return err
			}
			if a, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, q); err != nil || a.GetOverallCode() != rlsv3.RateLimitResponse_OK {
				t.Errorf("gRPC: %v, %v", a, err)
			}
			res, err := http.Post("http://"+at["http"].String()+"/json", "application/json", strings.NewReader(asked))
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusTooManyRequests {
				t.Errorf("/json: %s", res.Status)
			}
			scraped, err := http.Get("http://" + at["admin"].String() + "/metrics")
			if err != nil {
				return err
			}
			defer scraped.Body.Close()
			text, err := io.ReadAll(scraped.Body)
			if err != nil || !strings.Contains(string(text), `ratelimit_service_rate_limit_over_limit{domain="d",key1="k",key2=""} 1`) {
				t.Errorf("the metrics lack the counters: %v", err)
			}
			top, err := http.Get("http://" + at["admin"].String() + "/v1/top")
			if err != nil {
				return err
			}
			defer top.Body.Close()
			if text, err = io.ReadAll(top.Body); err != nil || !strings.Contains(string(text), `"rule":"d.k","key":"k=v"`) {
				t.Errorf("the hottest key is not shown for people: %s, %v", text, err)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Config{Log: slog.New(slog.DiscardHandler), RLS: &rls.Options{Dir: t.TempDir()}}); err == nil || !strings.Contains(err.Error(), "holds no .yaml file") {
		t.Errorf("without a file: %v", err)
	}
}
