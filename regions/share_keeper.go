package regions

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// keeper looks after a region's record of shares. Every instance reads it every
// second; the one that leads also changes it, by compare and set, so that two that
// both think they lead do no harm. In the region's server, with {prefix}1:{regions}
// before them:
//
//	shares        the record; never expires, since a share that is forgotten would
//	              be two regions' at once
//	leader        the instance that leads
//	asked         units asked for by space, in all
//	said:PEER     what a peer said last; expires when it is no news any more
type keeper struct {
	s      *Service
	shares *ShareKeeper
}

const (
	shareBeat = time.Second
	sayLife   = 4 * shareBeat
)

func (s *Service) keepShares(ctx context.Context) {
	k := &keeper{s, NewShareKeeper(s.Exchange)}
	tick := time.NewTicker(shareBeat)
	defer tick.Stop()
	for {
		if len(s.shares.shared()) > 0 {
			s.report("the shares of this region cannot be looked after", k.beat(ctx))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) shareKey(name string) string { return s.o.Store.Prefix() + "1:{regions}" + name }

// heardShares keeps what a peer said for the instance that leads.
func (s *Service) heardShares(ctx context.Context, from, body string) error {
	if s.away[from] == nil {
		return nil
	}
	client, err := s.home.Client()
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(s.shareKey("said:"+from)).Value(body).Px(sayLife).Build()).Error()
}

// beat reads the record, puts it in force and, as the leader, changes it and
// tells the peers.
func (k *keeper) beat(ctx context.Context) error {
	s := k.s
	client, err := s.home.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	record, err := text(client.Do(ctx, client.B().Get().Key(s.shareKey("shares")).Build()))
	if err != nil {
		return err
	}
	if err := k.shares.Hold(record); err != nil {
		return err
	}
	for space, units := range s.shares.counted() {
		err = errors.Join(err, client.Do(ctx, client.B().Hincrby().Key(s.shareKey("asked")).Field(space).Increment(units).Build()).Error())
	}
	if err != nil {
		return err
	}
	leads, err := k.leads(ctx, client)
	if err != nil || !leads {
		return err
	}
	heard := map[string]string{}
	for peer := range s.away {
		if heard[peer], err = text(client.Do(ctx, client.B().Get().Key(s.shareKey("said:"+peer)).Build())); err != nil {
			return err
		}
	}
	asked, err := client.Do(ctx, client.B().Hgetall().Key(s.shareKey("asked")).Build()).AsIntMap()
	if err != nil {
		return err
	}
	next, body, err := k.shares.Step(record, heard, asked)
	if err != nil {
		return err
	}
	if next != record {
		if err := k.write(ctx, client, record, next); err != nil {
			return err
		}
	}
	for peer := range s.away {
		s.done.Go(func() {
			err := s.post(context.WithoutCancel(ctx), peer, "s", body)
			s.report("region "+peer+" does not take messages; they wait", err)
		})
	}
	return nil
}

func text(r rueidis.RedisResult) (string, error) {
	s, err := r.ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return s, err
}

// leads reports whether this instance leads, which it does until it fails to say
// so for some beats.
func (k *keeper) leads(ctx context.Context, client rueidis.Client) (bool, error) {
	key := k.s.shareKey("leader")
	err := client.Do(ctx, client.B().Set().Key(key).Value(k.s.id).Nx().Px(sayLife).Build()).Error()
	if err == nil || !rueidis.IsRedisNil(err) {
		return err == nil, err
	}
	who, err := text(client.Do(ctx, client.B().Get().Key(key).Build()))
	if err != nil || who != k.s.id {
		return false, err
	}
	return true, client.Do(ctx, client.B().Pexpire().Key(key).Milliseconds(sayLife.Milliseconds()).Build()).Error()
}

// writeScript replaces the record if it is what it was.
const writeScript = `if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2]) return 1`

func (k *keeper) write(ctx context.Context, client rueidis.Client, was, is string) error {
	swapped, err := client.Do(ctx, client.B().Eval().Script(writeScript).Numkeys(1).Key(k.s.shareKey("shares")).Arg(was, is).Build()).AsInt64()
	if err == nil && swapped == 0 {
		return errors.New("another instance changed the record of shares")
	}
	if err != nil {
		return err
	}
	return k.shares.Hold(is)
}
