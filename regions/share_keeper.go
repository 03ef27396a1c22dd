package regions

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// keeper looks after a region's record of shares. Every instance reads it every
// beat (Options.ShareBeat), and five times in one while it holds nothing; the one that
// leads also changes it, by compare and set, so that two that both think they lead do
// no harm. In the region's server, with {prefix}1:{regions} before them:
//
//	shares        the record; never expires, since a share that is forgotten would
//	              be two regions' at once
//	leader        the instance that leads
//	asked         units asked for by space, in all
//	said:PEER     what a peer said last, which it writes here itself; expires when
//	              it is no news any more
type keeper struct {
	s      *Service
	shares *ShareKeeper
	saying map[string]chan struct{} // room for one message on its way to each peer
}

func newKeeper(s *Service) *keeper {
	k := &keeper{s, NewShareKeeper(s.Exchange), map[string]chan struct{}{}}
	for peer := range s.o.Peers {
		k.saying[peer] = make(chan struct{}, 1)
	}
	return k
}

// hasty is how many beats there are in the time of one while the region holds
// nothing: it waits to hear from its peers, and refuses everybody until it has.
const (
	hasty       = 5
	sayLife     = 4                      // beats
	sayWithin   = 2                      // beats; less than settling, so that what is old does not come last
	beginWithin = 500 * time.Millisecond // then a start goes on without the record
)

func (k *keeper) beats(n int) time.Duration { return time.Duration(n) * k.s.settings.ShareBeat }

// begin puts the record that is there in force before anybody is decided.
func (k *keeper) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	_ = k.read(ctx) // the beats ask again, and say what is wrong
}

func (k *keeper) keep(ctx context.Context) {
	for {
		beat := k.beat
		if len(k.s.shares.shared()) == 0 {
			beat = k.read // a policy to come finds it in force
		}
		k.s.report("the shares of this region cannot be looked after", beat(ctx))
		next := time.NewTimer(k.pause())
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-k.s.shares.changed:
		case <-next.C:
		}
		next.Stop()
	}
}

// pause is how long it is to the next beat.
func (k *keeper) pause() time.Duration {
	if len(k.s.shares.shared()) > 0 && !k.s.shares.holds() {
		return k.beats(1) / hasty
	}
	return k.beats(1)
}

// read is a beat that changes nothing.
func (k *keeper) read(ctx context.Context) error {
	client, err := k.s.home.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = k.hold(ctx, client)
	return err
}

// hold reads the record and puts it in force.
func (k *keeper) hold(ctx context.Context, client rueidis.Client) (record string, err error) {
	at := k.s.settings.Now() // before it is asked: an answer may be late
	record, err = text(client.Do(ctx, client.B().Get().Key(k.s.key("shares")).Build()))
	if err != nil {
		return "", err
	}
	return record, k.shares.Hold(record, at)
}

// beat reads the record, puts it in force and, as the leader, changes it and
// tells the peers.
func (k *keeper) beat(service context.Context) error {
	s := k.s
	client, err := s.home.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(service, patience)
	defer cancel()
	record, err := k.hold(ctx, client)
	if err != nil {
		return err
	}
	for space, units := range s.shares.counted() {
		err = errors.Join(err, s.home.Came(client.Do(ctx, client.B().Hincrby().Key(s.key("asked")).Field(space).Increment(units).Build()).Error()))
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
		if heard[peer], err = k.heard(ctx, client, peer); err != nil {
			return err
		}
	}
	asked, err := client.Do(ctx, client.B().Hgetall().Key(s.key("asked")).Build()).AsIntMap()
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
	for peer, room := range k.saying {
		select {
		case room <- struct{}{}:
			s.done.Go(func() {
				s.reportAway(peer, k.say(service, peer, body))
				<-room
			})
		default: // what was said before has not arrived; the next says all of it
		}
	}
	return nil
}

// say writes what this region says of its shares into a peer's server: what is
// said takes the place of what was, so that nothing piles up there.
func (k *keeper) say(ctx context.Context, peer, body string) error {
	client, err := k.s.away[peer].Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.beats(sayWithin))
	defer cancel()
	return k.s.away[peer].Came(client.Do(ctx, client.B().Set().Key(k.s.key("said:"+k.s.o.Region)).
		Value(k.s.o.Store.Fingerprint()+" "+body).Px(k.beats(sayLife)).Build()).Error())
}

// heard returns what a peer said a moment ago, or "".
func (k *keeper) heard(ctx context.Context, client rueidis.Client, peer string) (string, error) {
	said, err := text(client.Do(ctx, client.B().Get().Key(k.s.key("said:"+peer)).Build()))
	if err != nil || said == "" {
		return "", err
	}
	secret, body, _ := strings.Cut(said, " ")
	if secret != k.s.o.Store.Fingerprint() {
		err, body = errSecret, ""
	}
	k.s.report("messages of region "+peer+" are not understood", err)
	return body, nil
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
	key := k.s.key("leader")
	err := client.Do(ctx, client.B().Set().Key(key).Value(k.s.id).Nx().Px(k.beats(sayLife)).Build()).Error()
	if err == nil || !rueidis.IsRedisNil(err) {
		return err == nil, k.s.home.Came(err)
	}
	who, err := text(client.Do(ctx, client.B().Get().Key(key).Build()))
	if err != nil || who != k.s.id {
		return false, err
	}
	return true, client.Do(ctx, client.B().Pexpire().Key(key).Milliseconds(k.beats(sayLife).Milliseconds()).Build()).Error()
}

// write replaces the record, if nobody else has.
func (k *keeper) write(ctx context.Context, client rueidis.Client, was, is string) error {
	at := k.s.settings.Now()
	swapped, err := sharesScript.Exec(ctx, client, []string{k.s.key("shares")}, []string{was, is}).AsInt64()
	if err == nil && swapped == 0 {
		return errors.New("another instance changed the record of shares")
	}
	if err != nil {
		return err
	}
	return k.shares.Hold(is, at)
}
