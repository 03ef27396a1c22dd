package loadgen

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Usage is what a Redis has used and done since it started, from INFO. Over
// several nodes all fields are sums but Busiest.
type Usage struct {
	CPU      time.Duration    // all threads, user and system
	Busiest  time.Duration    // the main thread, which runs the commands, of the node where it used most
	Commands map[string]int64 // calls by command, scripts' own included
}

// ReadUsage asks every node that client knows.
func ReadUsage(ctx context.Context, client rueidis.Client) (Usage, error) {
	total := Usage{Commands: make(map[string]int64)}
	for _, node := range client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("cpu", "commandstats").Build()).ToString()
		if err != nil {
			return total, fmt.Errorf("INFO: %w", err)
		}
		if err := total.add(info); err != nil {
			return total, fmt.Errorf("INFO: %w", err)
		}
	}
	return total, nil
}

// add reads one node's INFO.
func (u *Usage) add(info string) error {
	var all, main time.Duration
	for line := range strings.Lines(info) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		switch name {
		case "used_cpu_user", "used_cpu_sys", "used_cpu_user_main_thread", "used_cpu_sys_main_thread":
			d, err := time.ParseDuration(value + "s")
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if strings.HasSuffix(name, "_main_thread") {
				main += d
			} else {
				all += d
			}
		default:
			if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				n, err := strconv.ParseInt(calls, 10, 64)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				u.Commands[command] += n
			}
		}
	}
	if main == 0 {
		main = all // a server that does not tell them apart
	}
	u.CPU += all
	u.Busiest = max(u.Busiest, main)
	return nil
}

// Since returns what was used after before.
func (u *Usage) Since(before *Usage) Usage {
	d := Usage{CPU: u.CPU - before.CPU, Busiest: u.Busiest - before.Busiest, Commands: make(map[string]int64)}
	for command, n := range u.Commands {
		if n -= before.Commands[command]; n != 0 {
			d.Commands[command] = n
		}
	}
	return d
}
