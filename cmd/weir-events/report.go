package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/observe"
	"github.com/weirhq/weir/observe/stream"
)

// report is what is known of a span of time. Counts are sums of weights.
type report struct {
	From    string         `json:"from"` // of the first event, RFC 3339; empty if there is none
	To      string         `json:"to"`
	Rules   []ruleCounts   `json:"rules"`
	Callers []callerCounts `json:"callers"`
	Hours   []hourCounts   `json:"hours"`
}

type ruleCounts struct {
	Rule     string `json:"rule"`
	Admitted int64  `json:"admitted"`
	Denied   int64  `json:"denied"`
}

type callerCounts struct {
	Key    string `json:"key"` // the hash of one
	Denied int64  `json:"denied"`
}

type hourCounts struct {
	Hour   string `json:"hour"` // its beginning
	Rule   string `json:"rule"`
	Denied int64  `json:"denied"`
}

func newReport() *cobra.Command {
	var from string
	var since time.Duration
	var callers int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "report --from sqlite:FILE|postgres://…|jsonl:FILE",
		Short:   "Say who was refused, by which rules and when",
		Example: `  weir-events report --from sqlite:events.db --since 24h`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 || callers < 0 {
				return misuse("--since and --callers must not be below 0")
			}
			begin := int64(math.MinInt64)
			if since > 0 {
				begin = time.Now().Add(-since).UnixMilli()
			}
			t, err := readTally(cmd.Context(), from, begin, callers)
			if err != nil {
				return err
			}
			r := t.report(callers)
			if asJSON {
				text, err := json.MarshalIndent(r, "", "  ")
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
				return err
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", os.Getenv("WEIR_FROM"), "the database: sqlite:FILE, postgres://… or jsonl:FILE")
	f.DurationVar(&since, "since", 0, "how far back, such as 24h; 0 is everything")
	f.IntVar(&callers, "callers", 20, "how many callers to name")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// tally is the sums that a report is made of.
type tally struct {
	first, last int64 // milliseconds; first is above last if there is nothing
	rules       map[string]*[2]float64
	callers     map[string]float64
	hours       map[hour]float64
}

type hour struct {
	begin int64 // hours since the epoch
	rule  string
}

func newTally() *tally {
	return &tally{first: math.MaxInt64, last: math.MinInt64, rules: map[string]*[2]float64{}, callers: map[string]float64{}, hours: map[hour]float64{}}
}

func (t *tally) rule(name string, allowed bool, weight float64) {
	counts := t.rules[name]
	if counts == nil {
		counts = new([2]float64)
		t.rules[name] = counts
	}
	if allowed {
		counts[0] += weight
	} else {
		counts[1] += weight
	}
}

// readTally sums up what is in a database since a time in milliseconds, with so many
// callers at least.
func readTally(ctx context.Context, from string, since int64, callers int) (*tally, error) {
	if path, ok := strings.CutPrefix(from, "jsonl:"); ok {
		return tallyLines(path, since)
	}
	db, err := openRead(from)
	if err != nil {
		return nil, err
	}
	t, err := db.tally(ctx, since, callers)
	return t, errors.Join(err, db.close())
}

func tallyLines(path string, since int64) (*tally, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, misuse("%w", err)
	}
	defer f.Close()
	t := newTally()
	lines := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return t, nil // a last line that is not whole is still being written
		}
		if err != nil {
			return nil, err
		}
		e, err := stream.FromLine(line)
		if err != nil || e.TimeMS < since {
			continue
		}
		t.first, t.last = min(t.first, e.TimeMS), max(t.last, e.TimeMS)
		t.rule(e.Rule, e.Allowed, e.Weight)
		if !e.Allowed {
			t.callers[e.KeyHash] += e.Weight
			t.hours[hour{e.TimeMS / 3_600_000, e.Rule}] += e.Weight
		}
	}
}

// tally has the database sum up, and return so many callers.
func (t *sqlTarget) tally(ctx context.Context, since int64, callers int) (*tally, error) {
	sums := newTally()
	failed := false // one error is enough
	each := func(query string, row func(scan func(...any) error) error, more ...any) (err error) {
		if failed {
			return nil
		}
		defer func() { failed = err != nil }()
		rows, err := t.db.QueryContext(ctx, query, append([]any{since}, more...)...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	var name string
	var weight float64
	return sums, errors.Join(
		each(`SELECT min(ts_ms), max(ts_ms) FROM weir_events WHERE ts_ms >= $1 HAVING count(*) > 0`, func(scan func(...any) error) error {
			return scan(&sums.first, &sums.last)
		}),
		each(`SELECT rule, allowed, sum(weight) FROM weir_events WHERE ts_ms >= $1 GROUP BY rule, allowed`, func(scan func(...any) error) error {
			var allowed bool
			err := scan(&name, &allowed, &weight)
			sums.rule(name, allowed, weight)
			return err
		}),
		each(`SELECT key_hash, sum(weight) FROM weir_events WHERE ts_ms >= $1 AND NOT allowed AND key_hash <> '' GROUP BY key_hash ORDER BY 2 DESC, 1 LIMIT $2`, func(scan func(...any) error) error {
			err := scan(&name, &weight)
			sums.callers[name] = weight
			return err
		}, max(callers, 0)),
		each(`SELECT ts_ms / 3600000, rule, sum(weight) FROM weir_events WHERE ts_ms >= $1 AND NOT allowed GROUP BY 1, 2`, func(scan func(...any) error) error {
			var h hour
			err := scan(&h.begin, &h.rule, &weight)
			sums.hours[h] = weight
			return err
		}),
	)
}

func (t *tally) report(callers int) *report {
	r := &report{Rules: []ruleCounts{}, Callers: []callerCounts{}, Hours: []hourCounts{}}
	if t.first <= t.last {
		r.From, r.To = stamp(t.first), stamp(t.last)
	}
	for name, n := range t.rules {
		r.Rules = append(r.Rules, ruleCounts{name, whole(n[0]), whole(n[1])})
	}
	slices.SortFunc(r.Rules, func(a, b ruleCounts) int { return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Rule, b.Rule)) })
	for key, n := range t.callers {
		if key != "" {
			r.Callers = append(r.Callers, callerCounts{key, whole(n)})
		}
	}
	slices.SortFunc(r.Callers, func(a, b callerCounts) int { return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key)) })
	r.Callers = r.Callers[:min(len(r.Callers), max(callers, 0))]
	for h, n := range t.hours {
		r.Hours = append(r.Hours, hourCounts{stamp(h.begin * 3_600_000), h.rule, whole(n)})
	}
	slices.SortFunc(r.Hours, func(a, b hourCounts) int { return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Rule, b.Rule)) })
	return r
}

func whole(weight float64) int64 { return int64(math.Round(weight)) }

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	if r.From == "" {
		line("there are no events")
		return t.Flush()
	}
	line("%s to %s", r.From, r.To)
	line("\nrule\tadmitted\tdenied")
	for _, c := range r.Rules {
		line("%s\t%d\t%d", observe.Harmless(c.Rule), c.Admitted, c.Denied)
	}
	line("\ncaller (hash of the key)\tdenied")
	for _, c := range r.Callers {
		line("%s\t%d", observe.Harmless(c.Key), c.Denied)
	}
	line("\nhour\trule\tdenied")
	for _, c := range r.Hours {
		line("%s\t%s\t%d", c.Hour, observe.Harmless(c.Rule), c.Denied)
	}
	return t.Flush()
}
