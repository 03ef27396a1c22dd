package sim

import (
	"context"
	"slices"
	"time"

	"github.com/weirhq/weir"
)

// Preset is a traffic, and the limit it is made to show. The traffic is the same
// whatever limit it is put against.
type Preset struct {
	Name   string
	About  string // one sentence: what comes
	Shows  string // what there is to see
	Limit  weir.Limit
	Length time.Duration // of the run
	Step   time.Duration // of its timeline

	arrivals traffic
	under    func(ctx context.Context, p *Preset, limit weir.Limit) (Row, error)   // or nil: through one Limiter
	beside   func(ctx context.Context, p *Preset, limit weir.Limit) ([]Row, error) // or nil
}

// Find returns the preset of that name, or nil.
func Find(name string) *Preset {
	i := slices.IndexFunc(Presets, func(p *Preset) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return Presets[i]
}

const (
	second = time.Second
	minute = time.Minute
)

// Presets are all there are. They must not be changed.
var Presets = []*Preset{
	{
		Name:  "burst",
		About: "100 requests at 0:59 and 100 more at 1:01.",
		Shows: "A fixed window forgets everything at 1:00 and lets all 200 through within two seconds: twice what it says for a minute.",
		Limit: weir.PerMinute(100), Length: 2 * minute, Step: second,
		arrivals: then(together(59*second, 100), together(61*second, 100)),
	},
	{
		Name:  "steady",
		About: "A request every 400 ms, evenly, for five minutes: half as much again as the limit.",
		Shows: "Even traffic is where the algorithms nearly agree. A token bucket lasts for two minutes and then drops one here and there; the windows stop for the rest of a minute. A leaky bucket that may not hold anything drops what comes 400 ms after the last, so every other request.",
		Limit: weir.PerMinute(100), Length: 5 * minute, Step: second,
		arrivals: evenly(0, 5*minute, 400*time.Millisecond, 1),
	},
	{
		Name:  "edge",
		About: "100 requests at 0:59, then 20 a second until 3:00.",
		Shows: "The worst that each can be made to do: everything there is at once, and everything that comes back within a period of it.",
		Limit: weir.PerMinute(100), Length: 3 * minute, Step: second,
		arrivals: then(together(59*second, 100), evenly(59*second+50*time.Millisecond, 3*minute, 50*time.Millisecond, 1)),
	},
	{
		Name:  "herd",
		About: "10,000 clients that were refused for 10 seconds come back at the very moment they were told.",
		Shows: "All of them ask at once and nine in ten are refused again. With the jitter that Weir adds to every wait it names (a fifth of it here, so over two seconds) three times as many get in, and the peak is a twentieth.",
		Limit: weir.PerSecond(1000), Length: 15 * second, Step: 100 * time.Millisecond,
		arrivals: together(10*second, 10_000),
		beside:   jittered,
	},
	{
		Name:  "sawtooth",
		About: "From nothing to six requests a second within 40 seconds, and again, and again.",
		Shows: "A bucket refills while little comes and lets the tops through; a window cares only for what fell into it.",
		Limit: weir.PerMinute(100), Length: 4 * minute, Step: second,
		arrivals: then(
			rising(0, 40*second, 6), rising(40*second, 80*second, 6), rising(80*second, 2*minute, 6),
			rising(2*minute, 160*second, 6), rising(160*second, 200*second, 6), rising(200*second, 4*minute, 6)),
	},
	{
		Name:  "ramp",
		About: "From nothing to five requests a second within four minutes.",
		Shows: "Nobody is refused before the rate passes the limit. From there on the buckets admit an even stream, the fixed window and the log one block a minute.",
		Limit: weir.PerMinute(100), Length: 4 * minute, Step: second,
		arrivals: rising(0, 4*minute, 5),
	},
	{
		Name:  "idle-burst",
		About: "Nothing for three minutes, then 150 requests at once; a minute of nothing, and 150 again.",
		Shows: "Being idle earns nothing beyond the burst. A leaky bucket without a burst takes one at a time.",
		Limit: weir.PerMinute(100), Length: 5 * minute, Step: second,
		arrivals: then(together(3*minute, 150), together(4*minute, 150)),
	},
	{
		Name:  "skew",
		About: "60 requests at once every two seconds, through three instances whose clocks stand two seconds behind, right, and two seconds ahead.",
		Shows: "Weir asks the store's clock, so the instances' do not matter. A script that believes its callers mints tokens each time one that is ahead follows one that is behind. A counter that is read and then raised admits whoever reads before the others have written.",
		Limit: weir.PerMinute(100), Length: 3 * minute, Step: second,
		arrivals: skewed,
		beside:   rivals,
	},
	{
		Name:  "instances",
		About: "2,000 requests a second through four instances, for three seconds from 0:02 and from 0:35 on.",
		Shows: "A shared store makes four instances one limiter. With leases (max_overshoot 10 %) they borrow units in blocks and ask it less; what they hold may be spent a little late, by at most what was allowed out. Instances that share nothing admit the whole limit each.",
		Limit: weir.PerMinute(5000), Length: 40 * second, Step: 200 * time.Millisecond,
		arrivals: hot,
		beside:   several,
	},
	{
		Name:  "outage",
		About: "Ten requests a second through three instances; from 1:00 to 2:00 the store is away.",
		Shows: "Each limit says what happens then. open admits everything and closed nothing; local lets each instance apply the whole limit by itself, share its part of it. The rows above are local, which is the default.",
		Limit: weir.PerMinute(100), Length: 3 * minute, Step: second,
		arrivals: evenly(0, 3*minute, 100*time.Millisecond, 3),
		under:    failsLocally,
		beside:   failures,
	},
}
