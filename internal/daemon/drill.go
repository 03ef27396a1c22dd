package daemon

import (
	"log/slog"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/layer/fault"
	"github.com/weirhq/weir/redisstore"
)

// drills has faults injected into the way to the store when it is asked to, and
// writes down who asked.
type drills struct {
	injector fault.Injector
	log      *slog.Logger
}

// through puts the injector in front of the store's client.
func (d *drills) through(calls redisstore.Scripter) redisstore.Scripter {
	return d.injector.Wrap(calls)
}

// Begin implements admin.Drills.
func (d *drills) Begin(ask admin.Drill) (until time.Time, err error) {
	until = time.Now().Add(ask.For)
	if ask.For <= 0 {
		d.log.Warn("a drill is ended", "by", ask.By, "from", ask.From)
		d.injector.End()
		return until, nil
	}
	f := fault.Fault{Kind: ask.Fault, Latency: ask.Latency, Reply: ask.Reply, Percent: ask.Percent}
	if field, problem := f.Check(); field != "" {
		return until, &weir.InputError{Field: field, Problem: problem}
	}
	d.log.Warn("a drill begins: the store fails on purpose", "fault", f.Kind, "latency", f.Latency.String(), "reply", f.Reply,
		"percent", f.Percent, "until", until.UTC().Format(time.RFC3339), "by", ask.By, "from", ask.From)
	ended := d.injector.Begin(f, ask.For)
	go func() {
		<-ended // at its time at the latest
		d.log.Warn("the drill is over", "fault", f.Kind)
	}()
	return until, nil
}
