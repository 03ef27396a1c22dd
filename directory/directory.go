// Package directory knows of API keys and tenants what is kept in Redis, beside
// or in place of the policy file:
//
//	weir:api_key:HEX   hash: tenant, plan, disabled; HEX is the lower-case SHA-256 of the key
//	weir:tenant:ID     hash: plan, limit:RULE for a limit of the tenant's own
//
// with the deployment's prefix in place of weir. Whoever sells plans writes them
// with HSET, and every instance follows:
//
//	HSET weir:tenant:acme plan pro "limit:per-tenant" "50/s burst=500"
//
// A Directory answers an identity.Lookups, which asks again every half second
// about those who are there. The answers come from memory: Redis remembers what
// this client has read and tells it of changes (client-side caching), so in the
// steady state nothing is read. Where Redis does not do that each question is
// one read, which is a plain timed re-read. Either way Lookups bounds how old an
// answer may be, and serves what is known while Redis is away.
//
// An ACL user needs HGETALL on the keys above and, to be told of changes, CLIENT
// TRACKING. Modes need HGETALL, HSET, HDEL and PEXPIRE on {prefix}:modes, and TIME.
package directory

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/redisconn"
)

// Options configures a Directory. The zero value is right for production.
type Options struct {
	// Prefix separates deployments that share a Redis; "weir" if empty.
	Prefix string
	// Conn is what a URL cannot carry.
	Conn redisconn.Settings
	// OnBad, if set, hears of each bad value once, on the caller's goroutine.
	OnBad func(Bad)
	// MaxKept bounds how many hashes are remembered for the sake of values that
	// turn bad: 200,000.
	MaxKept int
}

// Bad is a value that cannot be used. The last good one stays in its place.
type Bad struct {
	Key     string // of the hash in Redis
	Field   string // "" if it is no hash at all
	Problem string
}

const (
	defaultPrefix = "weir"
	maxKept       = 200_000

	// cacheBytes holds some 30,000 hashes. Others are read when they are asked
	// about: twice a second for a caller that is there, and not for each request.
	cacheBytes = 16 << 20

	// cacheFor bounds what it can do if the word of a change is lost on its way,
	// which Redis rules out and something between us and Redis may not.
	cacheFor = time.Minute
)

// Directory implements identity.Directory. It is safe for concurrent use.
type Directory struct {
	conn   *redisconn.Conn
	prefix string
	onBad  func(Bad)
	most   int
	bad    atomic.Uint64

	mu   sync.Mutex // never held while asking
	kept map[string]kept
}

// Open connects to url, one of those that redisstore.Open takes. A server that
// cannot be reached is no error: questions fail until it can be. A URL that
// makes no sense, and a server that refuses the credentials, are errors.
func Open(url string, o Options) (*Directory, error) {
	o.Conn.CacheBytes = cacheBytes
	conn, err := redisconn.Open(url, o.Conn)
	if err != nil {
		return nil, err
	}
	d := &Directory{conn: conn, prefix: o.Prefix, onBad: o.OnBad, most: o.MaxKept, kept: make(map[string]kept)}
	if d.prefix == "" {
		d.prefix = defaultPrefix
	}
	if d.most <= 0 {
		d.most = maxKept
	}
	return d, nil
}

// APIKey implements identity.Directory.
func (d *Directory) APIKey(ctx context.Context, id string) (record identity.KeyRecord, found bool, err error) {
	fields, found, err := d.read(ctx, d.prefix+":api_key:"+id, checkKeyField)
	if !found {
		return record, false, err
	}
	disabled, _ := readTruth(fields["disabled"]) // it was checked; absent is no
	return identity.KeyRecord{Tenant: fields["tenant"], Plan: fields["plan"], Disabled: disabled}, true, nil
}

// Tenant implements identity.Directory.
func (d *Directory) Tenant(ctx context.Context, id string) (record identity.TenantRecord, found bool, err error) {
	fields, found, err := d.read(ctx, d.prefix+":tenant:"+id, checkTenantField)
	if !found {
		return record, false, err
	}
	record.Plan = fields["plan"]
	for field, value := range fields {
		if rule, ok := ruleOf(field); ok {
			if record.Limits == nil {
				record.Limits = make(map[string]string)
			}
			record.Limits[rule] = value
		}
	}
	return record, true, nil
}

// read returns the good fields of a hash.
func (d *Directory) read(ctx context.Context, key string, check check) (fields map[string]string, found bool, err error) {
	client, err := d.conn.Client()
	if err != nil {
		return nil, false, err
	}
	raw, err := client.DoCache(ctx, client.B().Hgetall().Key(key).Cache(), cacheFor).AsStrMap()
	if refused, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(refused.Error(), "WRONGTYPE") {
		fields, found = d.keepAll(key)
		return fields, found, nil
	}
	if err != nil {
		return nil, false, err
	}
	fields, found = d.keep(key, raw, check)
	return fields, found, nil
}

// Bad returns how many bad values were met; one that stays counts once.
func (d *Directory) Bad() uint64 { return d.bad.Load() }

// Close ends the connection. Questions fail from then on.
func (d *Directory) Close() error { return d.conn.Close() }
