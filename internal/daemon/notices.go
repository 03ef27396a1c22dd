package daemon

import (
	"context"
	"log/slog"

	"github.com/weirhq/weir/redisstore"
)

// notices says what each notice about a shared store's counters means to whoever
// runs it. What is lost stays lost: a balance that is gone begins anew.
var notices = map[string]struct {
	level slog.Level
	text  string
}{
	redisstore.Flushed:    {slog.LevelError, "the store's counters are gone: it was flushed, or restarted or replaced and came back empty; every limit begins anew"},
	redisstore.RolledBack: {slog.LevelError, "the store lost its last writes, as in a failover: what was charged in them may be charged again"},
	redisstore.Evicted:    {slog.LevelError, "the store evicted keys, balances among them: their limits begin anew"},
	redisstore.Replaced:   {slog.LevelWarn, "another server answers for the store, or it was restarted"},
	redisstore.MayEvict:   {slog.LevelWarn, "the store may evict balances when memory runs out; set maxmemory-policy noeviction"},
	redisstore.MayLose:    {slog.LevelWarn, "a failover of the store may lose what was just charged; set min-replicas-to-write 1"},
}

func tellNotice(log *slog.Logger, n redisstore.Notice) {
	about := notices[n.Kind]
	fields := []any{"notice", n.Kind, "count", n.Count}
	if n.Node != "" {
		fields = append(fields, "node", n.Node)
	}
	log.Log(context.Background(), about.level, about.text, fields...)
}

// Losses returns what is known to have been lost of a shared store's counters
// since the start.
func (c *Core) Losses() redisstore.Losses {
	if c.watch == nil {
		return redisstore.Losses{}
	}
	return c.watch.Losses()
}
