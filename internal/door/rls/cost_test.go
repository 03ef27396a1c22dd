package rls

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirhq/weir/internal/doorcost"
	"github.com/weirhq/weir/internal/testredis"
)

func TestMain(m *testing.M) {
	doorcost.Main(m, func(kind string) {
		if kind == "constant" {
			serveOther(constant{})
			return
		}
		how, addr, _ := strings.Cut(kind, " ")
		serveOther(&plain{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64}), how == "pipelined"})
	})
}

// serveOther serves another implementation behind the same gRPC server.
func serveOther(other rlsv3.RateLimitServiceServer) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := grpc.NewServer(GRPCOptions()...)
	rlsv3.RegisterRateLimitServiceServer(s, other)
	go func() { _ = s.Serve(l) }()
	doorcost.Ready(l.Addr().String())
	s.Stop()
}

// constant answers what a rule that admits answers.
type constant struct{}

func (constant) ShouldRateLimit(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return admitted(1000, 999, 60), nil
}

func admitted(limit, left uint32, reset int64) *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{OverallCode: ok, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{
		Code: ok, LimitRemaining: left, DurationUntilReset: &durationpb.Duration{Seconds: reset},
		CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: rlsv3.RateLimitResponse_RateLimit_MINUTE},
	}}}
}

// plain is what people write first: one INCRBY and one EXPIRE a call, or both in
// one pipeline, as that server sends them.
type plain struct {
	client    *redis.Client
	pipelined bool
}

func (p *plain) ShouldRateLimit(ctx context.Context, q *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	now := time.Now().Unix()
	e := q.GetDescriptors()[0].GetEntries()[0]
	key := fmt.Sprintf("%s_%s_%s_%d", q.GetDomain(), e.GetKey(), e.GetValue(), now/60*60)
	var n *redis.IntCmd
	if p.pipelined {
		pipe := p.client.Pipeline()
		n = pipe.IncrBy(ctx, key, 1)
		pipe.Expire(ctx, key, time.Minute)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
	} else {
		n = p.client.IncrBy(ctx, key, 1)
		if err := n.Err(); err != nil {
			return nil, err
		}
		if err := p.client.Expire(ctx, key, time.Minute).Err(); err != nil {
			return nil, err
		}
	}
	const limit = 1_000_000
	return admitted(limit, uint32(max(0, limit-n.Val())), 60-now%60), nil
}

// load asks for calls decisions over a few connections and returns how long it
// took.
func load(t *testing.T, addr string, calls int) time.Duration {
	t.Helper()
	const conns, callers, keys = 4, 128, 10_000
	var left atomic.Int64
	left.Store(int64(calls))
	var all sync.WaitGroup
	began := time.Now()
	for range conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		defer conn.Close()
		client := rlsv3.NewRateLimitServiceClient(conn)
		for range callers / conns {
			all.Go(func() {
				for n := left.Add(-1); n >= 0; n = left.Add(-1) {
					if _, err := client.ShouldRateLimit(context.Background(), request(1, descriptor("user", fmt.Sprint(n%keys)))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	return time.Since(began)
}

// files writes the configuration that the load falls under.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "d.yaml"), []byte("domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1000000}}]\n"), 0o644))
	return dir
}

// TestCost is the door beside a constant behind the same gRPC server.
func TestCost(t *testing.T) {
	door := func(t *testing.T) *doorcost.Server {
		return doorcost.Weir(t, "grpc", "--http", "off", "--admin", "off", "--grpc", "127.0.0.1:0", "--rls-config", files(t))
	}
	most := 1.2
	if !doorcost.Long() {
		most = 3 // short rounds on a busy machine
	}
	doorcost.Compare(t, "RLS", door, doorcost.Constant, doorcost.Scale(40_000), most, func(t *testing.T, addr string, calls int) { load(t, addr, calls) })
}

// TestThroughput is the door on Redis beside a plain INCRBY and EXPIRE a call on
// the same Redis, behind the same gRPC server. What is compared is how many calls
// a second of CPU gives, that of the server and of Redis: here the callers share
// the cores, so that the clock on the wall would measure them.
func TestThroughput(t *testing.T) {
	server := testredis.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	info, err := client.InfoMap(context.Background(), "server").Result()
	must(t, err)
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	must(t, err)
	store := &doorcost.Server{PID: pid}
	door := doorcost.Weir(t, "grpc", "--http", "off", "--admin", "off", "--grpc", "127.0.0.1:0", "--rls-config", files(t), "--store", server.URL())
	all := []*doorcost.Server{door, doorcost.Serve(t, "plain "+server.Addr), doorcost.Serve(t, "pipelined "+server.Addr)}
	calls := doorcost.Scale(40_000)
	for _, s := range all {
		load(t, s.Addr, calls/4)
	}
	var plainly, pipelined, walls []float64
	for range doorcost.Rounds() {
		var cost, wall [3]float64
		for i, s := range all {
			before := s.CPU(t) + store.CPU(t)
			wall[i] = load(t, s.Addr, calls).Seconds()
			cost[i] = (s.CPU(t) + store.CPU(t) - before).Seconds()
		}
		plainly, pipelined, walls = append(plainly, cost[1]/cost[0]), append(pipelined, cost[2]/cost[0]), append(walls, wall[1]/wall[0])
	}
	least := 2.0
	if !doorcost.Long() {
		least = 0.5 // short rounds on a busy machine
	}
	ratio := doorcost.Median(plainly)
	t.Logf("RLS on Redis: %.2f times the calls a second of CPU that INCRBY and EXPIRE give, at least %.2f (median of %d rounds: %.2f); %.2f times those of both in one pipeline; by the wall, callers included, %.2f times",
		ratio, least, len(plainly), plainly, doorcost.Median(pipelined), doorcost.Median(walls))
	if ratio < least {
		t.Errorf("%.2f times the throughput is less than %.2f", ratio, least)
	}
}

// TestCrowd has idle and slow connections at the door.
func TestCrowd(t *testing.T) {
	door := doorcost.Weir(t, "grpc", "--http", "off", "--admin", "off", "--grpc", "127.0.0.1:0", "--rls-config", files(t))
	conn := dial(t, door.Addr, insecure.NewCredentials())
	doorcost.Crowd(t, door, "PRI * HTTP/2.0\r\n\r\nSM", func() error {
		a, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), request(1, descriptor("user", "u")))
		if err == nil && a.GetOverallCode() != ok {
			err = fmt.Errorf("%v", a)
		}
		return err
	})
}
