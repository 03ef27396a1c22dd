// Package goredis lets a Weir store run on a go-redis client.
//
//	store, err := goredis.Open(&redis.Options{Addr: "127.0.0.1:6379"}, redisstore.Options{})
//
// go-redis by default ignores the deadline of a context while it reads, and
// sends a command again after a timeout, which charges twice. Open sets both
// right; a client made elsewhere is refused by New unless they are.
package goredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/weir/redisstore"
)

// Open makes a client from o, with retries off and contexts obeyed, and a store
// on it. The store closes the client.
func Open(o *redis.Options, so redisstore.Options) (*redisstore.Store, error) {
	set := *o
	set.MaxRetries = -1
	set.ContextTimeoutEnabled = true
	return New(redis.NewClient(&set), so)
}

// New returns a store on client, which the store closes. The client must have
// been made with MaxRetries -1 and ContextTimeoutEnabled.
func New(client *redis.Client, so redisstore.Options) (*redisstore.Store, error) {
	o := client.Options()
	// go-redis turns -1 into 0 when it makes a client, and 0 into its default.
	if o.MaxRetries > 0 {
		return nil, errors.New("goredis: set MaxRetries to -1: a script sent again after a timeout charges twice")
	}
	if !o.ContextTimeoutEnabled {
		return nil, errors.New("goredis: set ContextTimeoutEnabled: without it a decision waits for ReadTimeout")
	}
	store, err := redisstore.New(scripter{client}, so)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return store, nil
}

// scripter is a redisstore.Scripter.
type scripter struct{ client *redis.Client }

func (s scripter) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return text(s.client.EvalSha(ctx, sha, keys, anys(args)...))
}

func (s scripter) Eval(ctx context.Context, script string, keys, args []string) (string, error) {
	return text(s.client.Eval(ctx, script, keys, anys(args)...))
}

func (s scripter) Close() error { return s.client.Close() }

func text(c *redis.Cmd) (string, error) {
	v, err := c.Result()
	if err != nil {
		return "", err
	}
	reply, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("goredis: the script replied with %T", v)
	}
	return reply, nil
}

func anys(args []string) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}
