package main

import (
	"fmt"
	"runtime"

	"github.com/weirhq/weir/bench/memory"
	"github.com/weirhq/weir/bench/report"
)

const aboutMemory = `## Decisions in memory

Nanoseconds a decision: wall time divided by the decisions of all cores. Keys are
fresh strings in random order, not the very strings that were inserted, and every
charge is admitted. The floor decides nothing: it reads a clock, hashes two
strings, locks and changes one cache line. x/time/rate knows no keys and is used
with the map and lock that people put around it.

`

// memory compares decisions in this process.
func (o *page) memory(p plan) error {
	o.text.WriteString(aboutMemory)
	table := report.Table{Head: []string{"limiter"}, Numbers: []bool{false}}
	for _, l := range memory.Limiters {
		table.Rows = append(table.Rows, []string{l.Name})
	}
	allocs := make([]float64, len(memory.Limiters))
	cores := []int{1}
	if runtime.NumCPU() > 1 {
		cores = append(cores, 2)
	}
	for _, w := range memory.Workloads {
		for _, n := range cores {
			rows, err := memory.Compare(memory.Limiters, w, n, p.rounds)
			if err != nil {
				return err
			}
			where := fmt.Sprintf("%s, %d %s", w.Name, n, plural(n, "core"))
			table.Head = append(table.Head, where)
			table.Numbers = append(table.Numbers, true)
			panel := report.Panel{Title: "ns a decision in memory: " + where}
			for i, r := range rows {
				table.Rows[i] = append(table.Rows[i], report.Number(r.Ns))
				allocs[i] = max(allocs[i], r.Allocs)
				panel.Bars = append(panel.Bars, report.Bar{Name: r.Limiter, Value: r.Ns})
			}
			o.panels = append(o.panels, panel)
			o.promiseMemory(w, n, where, rows)
		}
	}
	table.Head, table.Numbers = append(table.Head, "allocations"), append(table.Numbers, true)
	for i := range allocs {
		table.Rows[i] = append(table.Rows[i], report.Number(allocs[i]))
	}
	o.text.WriteString(table.String())
	if err := o.bills(p); err != nil {
		return err
	}
	return o.footprint(p)
}

// bills compares one limit with five.
func (o *page) bills(p plan) error {
	w := memory.BillWorkload
	rows, err := memory.Compare(memory.Bills, w, 1, p.rounds)
	if err != nil {
		return err
	}
	one, five := rows[0], rows[1]
	fmt.Fprintf(&o.text, "\nThe general way, by which policies decide, on one core with %s: a bill of one limit %s ns, of five %s ns.\n",
		w.Name, report.Number(one.Ns), report.Number(five.Ns))
	o.aims = append(o.aims,
		report.Aim{What: w.Name + ": a bill of five limits, of a bill of one", Got: five.Ns / one.Ns, Bound: 4, Unit: "×"},
		report.Aim{What: w.Name + ": allocations of a bill of five", Got: five.Allocs, Bound: 0},
	)
	return o.refusals(p)
}

// refusals compares what a flood of refused checks costs.
func (o *page) refusals(p plan) error {
	w := memory.RefusalWorkload
	rows, err := memory.Compare(memory.Refusals, w, 1, p.rounds)
	if err != nil {
		return err
	}
	decided, known := rows[0], rows[1]
	fmt.Fprintf(&o.text, "\nA refusal, one core, %s: decided in memory %s ns, known to the deny cache in front of a shared store %s ns.\n",
		w.Name, report.Number(decided.Ns), report.Number(known.Ns))
	o.aims = append(o.aims,
		report.Aim{What: w.Name + ": a refusal known to the deny cache, of one decided in memory", Got: known.Ns / decided.Ns, Bound: 1.5, Unit: "×"},
		report.Aim{What: w.Name + ": allocations of a refusal known to the deny cache", Got: known.Allocs, Bound: 0},
	)
	return nil
}

func (o *page) promiseMemory(w memory.Workload, cores int, where string, rows []memory.Row) {
	by := make(map[string]memory.Row)
	for _, r := range rows {
		by[r.Limiter] = r
	}
	weir := by[memory.Weir]
	bound := 1.0
	if cores == 2 {
		bound = 0.5
		if w.Keys == 1 {
			bound = 0.65
		}
		o.aims = append(o.aims, report.Aim{
			What: where + ": time, of the floor's", Got: weir.Ns / by[memory.Floor].Ns, Bound: 1.7, Unit: "×",
		})
	}
	o.aims = append(o.aims,
		report.Aim{What: where + ": time, of go-limiter's", Got: weir.Ns / by[memory.GoLimiter].Ns, Bound: bound, Unit: "×"},
		report.Aim{What: where + ": allocations", Got: weir.Allocs, Bound: 0},
	)
}

// footprint weighs keys and compares many with few.
func (o *page) footprint(p plan) error {
	f, err := memory.MeasureFootprint(p.keys)
	if err != nil {
		return err
	}
	s, err := memory.MeasureSlowdown(10_000, p.keys, p.rounds/4+1)
	if err != nil {
		return err
	}
	many := report.Number(float64(p.keys))
	fmt.Fprintf(&o.text, "\nAt %s keys a balance takes %s bytes; the key itself is not kept. From 10,000 keys to %s a decision\nslows by %s×, and a plain Go map of counters by %s×: what both wait for is memory.\n",
		many, report.Number(f.BytesPerKey), many, report.Number(s.Weir), report.Number(s.Map))
	o.aims = append(o.aims,
		report.Aim{What: "bytes a key at " + many + " keys", Got: f.BytesPerKey, Bound: 64},
		report.Aim{What: "slowdown from 10,000 to " + many + " keys, of a Go map's", Got: s.Weir / s.Map, Bound: 1.5, Unit: "×"},
	)
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
