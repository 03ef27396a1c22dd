package onredis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/bench/rounds"
	"github.com/weirhq/weir/internal/loadgen"
)

// Row is what a limiter cost, medians over the rounds.
type Row struct {
	Limiter   string
	PerSecond float64 // checks decided
	P50, P99  float64 // microseconds
	Mean      float64 // microseconds
	CPU       float64 // microseconds of Redis a check
	Commands  float64 // commands that Redis ran a check, a script's own included
	Errors    int64   // over all rounds
	Saturated loadgen.Side
	Cores     int // that the client had
}

// Compare puts the load on each limiter in turn, n times, with as many cores for the
// client as clients says, each in turn too; where that is not all of them, the server
// has the others for itself. The better of its rows is a limiter's: a client on every
// core takes Redis's from it, which costs some limiters more than the core was worth,
// and gains others a little. Before each measurement the same load runs unmeasured for a
// quarter as long.
func Compare(ctx context.Context, addr string, limiters []Limiter, load loadgen.Load, n int, clients ...int) ([]Row, error) {
	server, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	pid, err := processOf(ctx, server)
	if err != nil {
		return nil, err
	}
	machine, err := coresWith(pid)
	if err != nil {
		return nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer func() { _ = machine.share(runtime.NumCPU()) }() // everything is measured by then
	all := make([][]series, len(limiters))
	opens := make([]func() loadgen.Ask, len(limiters))
	for i, l := range limiters {
		check, end, err := l.Open(addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		defer func() { _ = end() }() // everything is measured by then
		for _, c := range clients {
			all[i] = append(all[i], series{limiter: l.Name, cores: c})
		}
		opens[i] = func() loadgen.Ask { return asking(check()) }
	}
	for round := range n {
		for i := range limiters {
			for j := range all[i] {
				runtime.GOMAXPROCS(all[i][j].cores)
				if err := machine.share(all[i][j].cores); err != nil {
					return nil, err
				}
				load.Seed = uint64(round + 1)
				warm := load
				warm.Duration /= 4
				loadgen.Run(ctx, warm, opens[i])
				if err := all[i][j].measure(ctx, server, load, opens[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	rows := make([]Row, len(limiters))
	for i := range all {
		for j := range all[i] {
			if r := all[i][j].row(); j == 0 || r.PerSecond > rows[i].PerSecond {
				rows[i] = r
			}
		}
	}
	return rows, ctx.Err()
}

// processOf returns the server's process on this machine.
func processOf(ctx context.Context, server rueidis.Client) (int, error) {
	info, err := server.Do(ctx, server.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(text)
		}
	}
	return 0, errors.New("the server does not tell its process_id")
}

// AllCores is every core for the client.
func AllCores() []int { return []int{runtime.NumCPU()} }

// WithAndWithoutOne is every core for the client, and all but one.
func WithAndWithoutOne() []int {
	if n := runtime.NumCPU(); n > 1 {
		return []int{n, n - 1}
	}
	return AllCores()
}

// asking turns a check into what the load generator calls.
func asking(check Check) loadgen.Ask {
	return func(ctx context.Context, key string) loadgen.Outcome {
		switch allowed, err := check(ctx, key); {
		case err != nil:
			return loadgen.Failed
		case allowed:
			return loadgen.Allowed
		}
		return loadgen.Denied
	}
}

// series is what was measured of one limiter, round by round.
type series struct {
	limiter                                  string
	cores                                    int
	perSecond, p50, p99, mean, cpu, commands []float64
	errors                                   int64
	sides                                    map[loadgen.Side]int
}

func (s *series) measure(ctx context.Context, server rueidis.Client, load loadgen.Load, open func() loadgen.Ask) error {
	before, err := loadgen.ReadUsage(ctx, server)
	if err != nil {
		return err
	}
	result := loadgen.Run(ctx, load, open)
	after, err := loadgen.ReadUsage(ctx, server)
	if err != nil {
		return err
	}
	used := after.Since(&before)
	delete(used.Commands, "info")
	commands := int64(0)
	for _, calls := range used.Commands {
		commands += calls
	}
	report := loadgen.NewReport(result, &used, s.cores, s.cores == runtime.NumCPU())
	s.perSecond = append(s.perSecond, float64(report.ChecksPerSecond))
	s.p50 = append(s.p50, report.P50)
	s.p99 = append(s.p99, report.P99)
	s.mean = append(s.mean, float64(result.Latency.Mean().Microseconds()))
	s.cpu = append(s.cpu, report.RedisCPUPerCheck)
	s.commands = append(s.commands, float64(commands)/float64(max(1, result.Allowed+result.Denied)))
	s.errors += report.Errors
	if s.sides == nil {
		s.sides = make(map[loadgen.Side]int)
	}
	s.sides[report.Saturated]++
	return nil
}

func (s *series) row() Row {
	side := loadgen.Neither
	for candidate, n := range s.sides {
		if n > s.sides[side] {
			side = candidate
		}
	}
	return Row{
		Limiter: s.limiter, Errors: s.errors, Saturated: side, Cores: s.cores,
		PerSecond: rounds.Median(s.perSecond), P50: rounds.Median(s.p50), P99: rounds.Median(s.p99), Mean: rounds.Median(s.mean),
		CPU: rounds.Median(s.cpu), Commands: rounds.Median(s.commands),
	}
}

// Load is the load that the limiters are compared under: 512 callers.
func Load(keys int, d time.Duration) loadgen.Load {
	load := loadgen.Load{Clients: 512, Keys: keys, Duration: d}
	if keys == 1 {
		load.Spread = loadgen.Hot
	}
	return load
}

// Rates are the schedules, in checks a second.
var Rates = []int{10_000, 50_000, 100_000}

// Scheduled is the load of a schedule.
func Scheduled(rate int, d time.Duration) loadgen.Load {
	load := Load(10_000, d)
	load.Rate = rate
	return load
}
