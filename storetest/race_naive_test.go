package storetest_test

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// naive is the limiter that everybody writes first: it reads a counter, decides,
// and then writes. Between the two anybody else may have read the same.
type naive struct {
	client rueidis.Client
	set    bool // writes what it read plus one, where the other increments
}

func openNaive(url string, set bool) (weir.Store, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return &naive{client, set}, nil
}

func (n *naive) Caps() weir.Caps { return weir.Caps{Source: "naive", Verbs: []algo.Verb{algo.Take}} }

func (n *naive) Close() error {
	n.client.Close()
	return nil
}

func (n *naive) Apply(ctx context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		bal := &b.Balances()[0]
		if err := n.decide(ctx, bal); err != nil {
			b.Err = &weir.StoreError{Kind: "other", Err: err}
			continue
		}
		b.Settle("naive")
	}
}

func (n *naive) decide(ctx context.Context, bal *weir.Balance) error {
	key := bal.Charge.Key
	used, err := n.client.Do(ctx, n.client.B().Get().Key(key).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	bal.View = algo.View{Cur: used}
	if bal.Fits = used+bal.Cost <= bal.Quota.N; !bal.Fits {
		return nil
	}
	bal.Debited = true
	if n.set {
		return n.client.Do(ctx, n.client.B().Set().Key(key).Value(strconv.FormatInt(used+bal.Cost, 10)).Build()).Error()
	}
	return n.client.Do(ctx, n.client.B().Incrby().Key(key).Increment(bal.Cost).Build()).Error()
}
