package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirhq/weir/bench/onredis"
	"github.com/weirhq/weir/bench/report"
	"github.com/weirhq/weir/internal/testredis"
)

const aboutRedis = `
## Checks decided by Redis

One redis-server, 512 callers in one process that ask again as soon as they are
answered, on the same machine. Weir is strict: every check is decided by Redis,
with neither deny cache nor leases. "Commands" are what Redis ran a check, those
inside a script included. "Saturated" is who could do no more: redis (its one
core), client (its own cores), or neither. Each limiter is measured with every
core of the machine for the client, where Redis has to share, and with all but
one, which Redis has for itself; what it does better with is shown, and said under
"client's cores".

`

// redis compares checks on a server of its own.
func (o *page) redis(ctx context.Context, p plan) error {
	server, err := testredis.Run(testredis.Redis)
	if err != nil {
		return err
	}
	defer server.Stop()
	o.text.WriteString(aboutRedis)
	for _, keys := range []int{10_000, 1} {
		where, limiters := "10,000 keys", onredis.Limiters
		if keys == 1 {
			where, limiters = "one hot key", append(onredis.Limiters[:len(onredis.Limiters):len(onredis.Limiters)], onredis.Borrowing, onredis.Bare)
		}
		rows, err := onredis.Compare(ctx, server.Addr, limiters, onredis.Load(keys, p.duration), p.trips, onredis.WithAndWithoutOne()...)
		if err != nil {
			return err
		}
		fmt.Fprintf(&o.text, "### %s\n\n%s\n", where, redisTable(rows))
		panel := report.Panel{Title: "checks a second on Redis: " + where}
		for _, r := range rows {
			panel.Bars = append(panel.Bars, report.Bar{Name: r.Limiter, Value: r.PerSecond})
		}
		o.panels = append(o.panels, panel)
		o.promiseRedis(keys, where, rows)
	}
	o.text.WriteString("The limiters:\n\n")
	for _, l := range onredis.Limiters {
		fmt.Fprintf(&o.text, "- %s: %s\n", l.Name, l.Note)
	}
	for _, l := range []onredis.Limiter{onredis.Borrowing, onredis.Bare} {
		fmt.Fprintf(&o.text, "- %s: %s\n", l.Name, l.Note)
	}
	if err := o.billsOnRedis(ctx, server.Addr, p); err != nil {
		return err
	}
	return o.openLoop(ctx, server.Addr, p)
}

func redisTable(rows []onredis.Row) string {
	t := report.Table{
		Head:    []string{"limiter", "checks/s", "of Weir's", "p50 µs", "p99 µs", "Redis CPU µs a check", "commands a check", "errors", "client's cores", "saturated"},
		Numbers: []bool{false, true, true, true, true, true, true, true, true, false},
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Limiter, report.Number(r.PerSecond), report.Number(r.PerSecond / rows[0].PerSecond), report.Number(r.P50), report.Number(r.P99),
			report.Number(r.CPU), report.Number(r.Commands), report.Number(float64(r.Errors)), report.Number(float64(r.Cores)), string(r.Saturated),
		})
	}
	return t.String()
}

func (o *page) promiseRedis(keys int, where string, rows []onredis.Row) {
	by := make(map[string]onredis.Row)
	for _, r := range rows {
		by[r.Limiter] = r
	}
	weir, rate, textbook := by[onredis.Weir], by[onredis.RedisRate], by[onredis.Textbook]
	o.aims = append(o.aims, report.Aim{What: where + ": errors", Got: float64(weir.Errors), Bound: 0})
	if keys == 1 {
		o.aims = append(o.aims, report.Aim{
			What: where + ": checks a second, of redis_rate's", Got: weir.PerSecond / rate.PerSecond, Bound: 40, Least: true, Unit: "×",
		}, report.Aim{
			What: where + ": checks a second with max_overshoot 1%, of redis_rate's", Got: by[onredis.Borrowing.Name].PerSecond / rate.PerSecond,
			Bound: 200, Least: true, Unit: "×",
		})
		return
	}
	for _, rival := range []onredis.Row{rate, textbook} {
		o.aims = append(o.aims,
			report.Aim{What: where + ": checks a second, of " + rival.Limiter + "'s", Got: weir.PerSecond / rival.PerSecond, Bound: 10, Least: true, Unit: "×"},
			report.Aim{What: where + ": p99 of " + rival.Limiter + ", of Weir's", Got: rival.P99 / weir.P99, Bound: 6, Least: true, Unit: "×"},
			report.Aim{What: where + ": Redis CPU a check of " + rival.Limiter + ", of Weir's", Got: rival.CPU / weir.CPU, Bound: 8, Least: true, Unit: "×"},
		)
	}
}

const aboutBills = `
### Five limits in one bill

Of a bill of five each limit has a balance of its own for each of 10,000 keys. A
layered one is what a policy makes: one limit is the caller's, and the others are on
what callers share, 100 tenants, 3 plans, 20 endpoints and everybody. With
max_overshoot these are lent to the process by the block, and the store is asked for
the caller's alone.

`

// billsOnRedis compares one limit with five, for one caller and for many.
func (o *page) billsOnRedis(ctx context.Context, addr string, p plan) error {
	o.text.WriteString(aboutBills)
	for _, callers := range []int{1, 512} {
		load := onredis.Load(10_000, p.duration)
		load.Clients = callers
		bills := onredis.Bills
		if callers > 1 { // one asks too seldom to have anything lent
			bills = append(slices.Clone(bills), onredis.Layered...)
		}
		rows, err := onredis.Compare(ctx, addr, bills, load, p.trips, onredis.WithAndWithoutOne()...)
		if err != nil {
			return err
		}
		where := fmt.Sprintf("%d %s", callers, plural(callers, "caller"))
		fmt.Fprintf(&o.text, "%s:\n\n%s\n", where, redisTable(rows))
		o.aims = append(o.aims, report.Aim{
			What: where + ": time for a bill of five limits on Redis, of a bill of one", Got: rows[0].PerSecond / rows[1].PerSecond, Bound: 2, Unit: "×",
		})
		if callers > 1 {
			o.aims = append(o.aims, report.Aim{
				What: where + ": time for a layered bill of five with max_overshoot 1%, of a bill of one", Got: rows[0].PerSecond / rows[3].PerSecond, Bound: 2, Unit: "×",
			})
		}
	}
	return nil
}

const aboutOpenLoop = `
### On schedule

Checks start at a given rate, answered or not, and latency counts from when a
check was meant to start. Each algorithm under 100/min. Published figures of a
setup of ten nodes at 100,000 checks a second, for comparison: token bucket
2.45 ms on average and 7.9 ms at p99 with 68 % CPU, leaky bucket 3.9, 10.8 and
81 %, sliding log 3.2, 8.85 and 74 %.

`

// openLoop asks at fixed rates.
func (o *page) openLoop(ctx context.Context, addr string, p plan) error {
	o.text.WriteString(aboutOpenLoop)
	t := report.Table{
		Head:    []string{"limiter", "checks/s offered", "decided", "mean µs", "p99 µs", "Redis CPU %", "Redis CPU µs a check", "errors", "saturated"},
		Numbers: []bool{false, true, true, true, true, true, true, true, false},
	}
	for _, rate := range onredis.Rates {
		rows, err := onredis.Compare(ctx, addr, onredis.OnSchedule, onredis.Scheduled(rate, p.duration), (p.trips+1)/2, onredis.AllCores()...)
		if err != nil {
			return err
		}
		textbook := rows[len(rows)-1]
		for _, r := range rows {
			t.Rows = append(t.Rows, []string{
				r.Limiter, report.Number(float64(rate)), report.Number(r.PerSecond), report.Number(r.Mean), report.Number(r.P99),
				report.Number(r.CPU * r.PerSecond / 1e4), report.Number(r.CPU), report.Number(float64(r.Errors)), string(r.Saturated),
			})
			if r.Limiter == textbook.Limiter {
				continue
			}
			bound := 1.0
			if rate == onredis.Rates[len(onredis.Rates)-1] {
				bound = 1.0 / 3
			}
			where := fmt.Sprintf("%s at %s a second", r.Limiter, report.Number(float64(rate)))
			o.aims = append(o.aims,
				report.Aim{What: where + ": Redis CPU a check, of the textbook script's", Got: r.CPU / textbook.CPU, Bound: bound, Unit: "×"},
				report.Aim{What: where + ": errors", Got: float64(r.Errors), Bound: 0},
			)
		}
	}
	o.text.WriteString(t.String())
	return nil
}
