package regions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	s       *Service
	first   share
	asked   map[string]int64     // by space, when last read
	waits   map[string]time.Time // space and peer → since when this instance has seen its part wait
	regains time.Time            // since when a lost record could be made up, or zero
}

// said is what a region says of its shares.
type said struct {
	Lost bool   `json:"lost,omitempty"` // it has no record
	Held record `json:"held"`
}

const (
	shareBeat = time.Second
	sayLife   = 4 * shareBeat
)

func (s *Service) keepShares(ctx context.Context) {
	k := &keeper{s: s, first: whole / share(len(s.away)+1), asked: map[string]int64{}, waits: map[string]time.Time{}}
	tick := time.NewTicker(shareBeat)
	defer tick.Stop()
	for {
		if spaces := s.shares.shared(); len(spaces) > 0 {
			s.report("the shares of this region cannot be looked after", k.beat(ctx, spaces))
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
func (k *keeper) beat(ctx context.Context, spaces map[string]time.Duration) error {
	s := k.s
	client, err := s.home.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := text(client.Do(ctx, client.B().Get().Key(s.shareKey("shares")).Build()))
	if err != nil {
		return err
	}
	var r record
	if text != "" {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return fmt.Errorf("the record of shares: %w", err)
		}
	}
	s.shares.hold(r, k.first)
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
	theirs, err := k.heard(ctx, client)
	if err != nil {
		return err
	}
	now := time.Now()
	next := r.clone()
	if text == "" {
		next = k.regain(theirs, spaces, now)
	} else {
		if err := k.measure(ctx, client, next, spaces); err != nil {
			return err
		}
		k.move(next, theirs, spaces, now)
	}
	if next != nil {
		if err := k.write(ctx, client, text, next); err != nil {
			return err
		}
	}
	body, err := json.Marshal(said{Lost: next == nil, Held: next})
	if err != nil {
		return err
	}
	for peer := range s.away {
		s.done.Go(func() {
			err := s.post(context.WithoutCancel(ctx), peer, "s", string(body))
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

// heard returns what each peer said a moment ago.
func (k *keeper) heard(ctx context.Context, client rueidis.Client) (map[string]*said, error) {
	m := map[string]*said{}
	for peer := range k.s.away {
		body, err := text(client.Do(ctx, client.B().Get().Key(k.s.shareKey("said:"+peer)).Build()))
		if err != nil {
			return nil, err
		}
		if body == "" {
			continue
		}
		var one said
		if err := json.Unmarshal([]byte(body), &one); err != nil {
			return nil, fmt.Errorf("what region %s says of its shares: %w", peer, err)
		}
		for space, h := range one.Held {
			if h == nil {
				delete(one.Held, space)
			}
		}
		if one.Held == nil {
			one.Held = record{}
		}
		m[peer] = &one
	}
	return m, nil
}

// regain makes up a record that is not there, from what every peer says: nil
// while one is silent. Where nobody ever gave anything, that is at once; else what
// was on its way has had time to come.
func (k *keeper) regain(theirs map[string]*said, spaces map[string]time.Duration, now time.Time) record {
	if len(theirs) < len(k.s.away) {
		k.regains = time.Time{}
		return nil
	}
	r, me, longest := record{}, k.s.o.Region, settling
	moved := false
	for peer, one := range theirs {
		for space, h := range one.Held {
			mine := r.at(space)
			if n := h.Taken[me]; n > 0 {
				mine.Given[peer], moved = n, true
			}
			if n := h.Given[me]; n > 0 {
				mine.Taken[peer], moved = n, true
			}
		}
	}
	for _, refill := range spaces {
		longest = max(longest, refill+settling)
	}
	if k.regains.IsZero() {
		k.regains = now
	}
	if moved && now.Sub(k.regains) < longest {
		return nil
	}
	return r
}

// measure writes into r what is asked for, as it goes to and fro.
func (k *keeper) measure(ctx context.Context, client rueidis.Client, r record, spaces map[string]time.Duration) error {
	all, err := client.Do(ctx, client.B().Hgetall().Key(k.s.shareKey("asked")).Build()).AsStrMap()
	if err != nil {
		return err
	}
	for space := range spaces {
		total, _ := strconv.ParseInt(all[space], 10, 64) // absent: nobody asked
		h := r.at(space)
		if before, known := k.asked[space]; known && total >= before {
			h.Asked = (h.Asked + (total-before)*10) / 2 // tenths, so that little is not nothing
		}
		k.asked[space] = total
	}
	return nil
}

// move takes what was given, lets what has waited long enough be used, and gives.
func (k *keeper) move(r record, theirs map[string]*said, spaces map[string]time.Duration, now time.Time) {
	me := k.s.o.Region
	for space, refill := range spaces {
		h := r.at(space)
		others := map[string]*holding{}
		still := true
		for peer, one := range theirs {
			if one.Lost {
				continue
			}
			other := one.Held.at(space)
			others[peer] = other
			if h.take(me, peer, other) {
				k.waits[space+" "+peer] = now
			}
			still = still && h.Given[peer] == other.Taken[me]
			for _, n := range other.Waiting {
				still = still && n == 0
			}
		}
		for peer, n := range h.Waiting {
			at := space + " " + peer
			switch since, seen := k.waits[at]; {
			case n == 0:
			case !seen:
				k.waits[at], still = now, false
			case now.Sub(since) >= refill+settling:
				delete(h.Waiting, peer)
				delete(k.waits, at)
			default:
				still = false
			}
		}
		if !still || len(others) < len(k.s.away) {
			continue // parted, or something is on its way
		}
		if to, n := h.give(k.first, others); n > 0 {
			h.Given[to] += n
		}
	}
}

// writeScript replaces the record if it is what it was.
const writeScript = `if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2]) return 1`

func (k *keeper) write(ctx context.Context, client rueidis.Client, was string, r record) error {
	body, err := json.Marshal(r)
	if err != nil || string(body) == was {
		return err
	}
	swapped, err := client.Do(ctx, client.B().Eval().Script(writeScript).Numkeys(1).Key(k.s.shareKey("shares")).
		Arg(was, string(body)).Build()).AsInt64()
	if err == nil && swapped == 0 {
		return errors.New("another instance changed the record of shares")
	}
	if err == nil {
		k.s.shares.hold(r, k.first)
	}
	return err
}
