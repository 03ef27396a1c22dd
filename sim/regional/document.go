package regional

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/regions"
)

//go:embed regions.md.tmpl
var prose string

// Document writes docs/regions.md and its pictures, by their path beside it: the
// prose, with what the simulation found in its places. It is the same at every run.
func Document(ctx context.Context) (text string, pictures map[string]string, err error) {
	text, pictures = prose, map[string]string{}
	for _, part := range []struct {
		mark string
		make func(context.Context, map[string]string) (string, error)
	}{{"lags", lags}, {"partition", parted}, {"fleet", fleets}} {
		made, err := part.make(ctx, pictures)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", part.mark, err)
		}
		text = strings.Replace(text, "<!-- "+part.mark+" -->\n", made, 1)
	}
	return text, pictures, nil
}

// lags is a table, and the curve of three regions.
func lags(ctx context.Context, pictures map[string]string) (string, error) {
	var b strings.Builder
	b.WriteString("| regions | lag | bound | beyond the limit | all know after | 3 · (interval + lag) |\n|--:|--:|--:|--:|--:|--:|\n")
	var xs []float64
	measured, bound := curve{"measured", "global", nil}, curve{"bound", "bound", nil}
	for _, count := range []int{2, 3, 5, 10} {
		for _, ms := range []int{20, 50, 120, 250, 500} {
			lag := time.Duration(ms) * time.Millisecond
			o := Options{Regions: count, Lag: lag, Length: 10 * time.Second}
			if err := o.Fill(); err != nil {
				return "", err
			}
			row, err := run(ctx, o, policy.ScopeGlobal)
			if err != nil {
				return "", err
			}
			if count == 3 {
				xs = append(xs, float64(ms))
				measured.ys, bound.ys = append(measured.ys, float64(row.Overshoot)), append(bound.ys, float64(row.Bound))
			}
			fmt.Fprintf(&b, "| %d | %s | %d | %d | %d ms | %d ms |\n", count, o.Lag, row.Bound, row.Overshoot, row.ConvergedMS, 3*(o.Interval+o.Lag).Milliseconds())
		}
	}
	pictures["regions/lag.svg"] = draw("what three regions admit beyond 100/s, by the lag between them", "ms of lag", "units beyond the limit", xs, []curve{measured, bound})
	return b.String(), nil
}

// parted is the course of a partition.
func parted(ctx context.Context, pictures map[string]string) (string, error) {
	o := Options{Regions: 3, Partition: 30 * time.Second}
	if err := o.Fill(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| scope | admitted in 60 s | beyond the limit | bound |\n|---|--:|--:|--:|\n")
	var xs []float64
	var curves []curve
	for _, one := range []struct {
		scope policy.Scope
		class string
	}{{policy.ScopeRegion, ""}, {policy.ScopeGlobal, "global"}, {policy.ScopeShare, "share"}} {
		row, err := run(ctx, o, one.scope)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d |\n", row.Scope, row.Admitted, row.Overshoot, row.Bound)
		if one.class == "" {
			continue
		}
		c, bound := curve{name: row.Scope, class: one.class}, curve{name: "bound of " + row.Scope, class: "bound"}
		xs = xs[:0]
		for i, n := range row.Beyond {
			xs = append(xs, (time.Duration(i) * Step).Seconds())
			c.ys, bound.ys = append(c.ys, float64(n)), append(bound.ys, float64(row.Bound))
		}
		curves = append(curves, c)
		if row.Bound > 0 {
			curves = append(curves, bound)
		}
	}
	pictures["regions/partition.svg"] = draw("what three regions have admitted beyond 100/s, parted from the 15th to the 45th second", "s", "units beyond the limit", xs, curves)
	return b.String(), nil
}

// fleets simulates the exchange of ten regions and a thousand instances at a
// thousandth of the keys, and at it of the admissions, and shows the whole.
func fleets(ctx context.Context, _ map[string]string) (string, error) {
	const scale = 1000
	var b strings.Builder
	b.WriteString("| a key is used every | admissions/s | interval | changes told/s | bytes/s, all | bytes/s into a region | bytes a change | XADD/s into a region |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, one := range []struct {
		every    int // seconds
		interval time.Duration
	}{{100, 200 * time.Millisecond}, {10, 200 * time.Millisecond}, {10, 500 * time.Millisecond}} {
		f := Fleet{Regions: 10, Instances: 1000, Keys: 10_000, Uses: 10_000 / one.every, Interval: one.interval, Length: 2 * time.Second}
		t, err := f.Run(ctx)
		if err != nil {
			return "", err
		}
		ways := int64(f.Instances) * int64(f.Regions-1) * int64(time.Second/one.interval) // from an instance to a peer, in a second
		letters := ways * (1 + t.Bytes*scale/ways/regions.LetterBytes)
		fmt.Fprintf(&b, "| %d s | %d | %s | %s | %s | %s | %d | %d |\n", one.every, f.Uses*scale, one.interval,
			inMillions(t.Changes*scale), inMillions(t.Bytes*scale), inMillions(t.Bytes*scale/int64(f.Regions)), t.Bytes/t.Changes, letters/int64(f.Regions))
	}
	return b.String(), nil
}

func inMillions(n int64) string { return fmt.Sprintf("%.1f million", float64(n)/1e6) }
