package redisstore

import (
	"context"

	"github.com/redis/rueidis"
)

// Scripter runs scripts on Redis. It is the seam for people who bring a client
// of their own; package goredis adapts go-redis. The reply of every script here
// is one bulk string, which is returned as it is. A Scripter must not run a
// script again after an outcome that it does not know, such as a timeout, and must
// keep neither keys nor args once it has returned, but where it does not know the
// outcome: their room is used again.
type Scripter interface {
	EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error)
	Eval(ctx context.Context, text string, keys, args []string) (string, error)
	Close() error
}

// rueidisScripter is the Scripter that Open makes.
type rueidisScripter struct {
	client func() (rueidis.Client, error)
}

func (s rueidisScripter) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	c, err := s.client()
	if err != nil {
		return "", err
	}
	return c.Do(ctx, c.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToString()
}

func (s rueidisScripter) Eval(ctx context.Context, text string, keys, args []string) (string, error) {
	c, err := s.client()
	if err != nil {
		return "", err
	}
	return c.Do(ctx, c.B().Eval().Script(text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToString()
}
