package regions

import (
	"encoding/json"
	"fmt"
	"time"
)

// ShareKeeper decides over a region's record of shares: it takes what was given,
// waits, and gives. It keeps nothing that matters, talks to nobody, and forgets what
// it saw when another instance led meanwhile. It is used by one goroutine at a time.
type ShareKeeper struct {
	e        *Exchange
	settling time.Duration
	asked    map[string]int64         // by space, when last read
	waits    map[string]time.Duration // space and peer → since when this instance has seen its part wait
	regains  time.Duration            // since when a lost record could be made up, or 0
	stepped  time.Duration            // when it was last asked
}

// said is what a region says of its shares.
type said struct {
	Lost bool   `json:"lost,omitempty"` // it has no record
	Held record `json:"held"`
}

// NewShareKeeper returns a keeper of the shares that e's Layer cuts limits to.
func NewShareKeeper(e *Exchange) *ShareKeeper {
	return &ShareKeeper{e: e, settling: settling(e.settings.ShareBeat), asked: map[string]int64{}, waits: map[string]time.Duration{}}
}

// Hold puts a record in force that was read at an instant of Settings.Now; "" is a
// record that was lost, which holds nothing.
func (k *ShareKeeper) Hold(text string, at time.Duration) error {
	r, err := readRecord(text)
	if err == nil {
		k.e.shares.hold(r, at)
	}
	return err
}

// Asked returns the units that were asked for, by space, since it was last called.
func (k *ShareKeeper) Asked() map[string]int64 { return k.e.shares.counted() }

func readRecord(text string) (r record, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("the record of shares: %w", err)
	}
	return r, nil
}

// Step returns the record that is to take the place of one, and what to say to
// the peers. heard is what each of them said a moment ago, "" for nothing; asked the
// units asked for in all.
func (k *ShareKeeper) Step(record string, heard map[string]string, asked map[string]int64) (next, message string, err error) {
	was, err := readRecord(record)
	if err != nil {
		return record, "", err
	}
	theirs, err := k.heard(heard)
	if err != nil {
		return record, "", err
	}
	spaces, now := k.e.shares.shared(), k.e.settings.Now()
	if now-k.stepped > k.settling { // sooner no other leads
		clear(k.asked)
		clear(k.waits)
		k.regains = 0
	}
	k.stepped = now
	is := was.clone()
	if was == nil {
		is = k.regain(theirs, spaces, now)
	} else {
		k.measure(is, asked, spaces)
		k.move(is, theirs, spaces, now)
	}
	if is != nil {
		k.regains = 0
		body, err := json.Marshal(is)
		if err != nil {
			return record, "", err
		}
		record = string(body)
	}
	body, err := json.Marshal(said{Lost: is == nil, Held: is})
	return record, string(body), err
}

// heard reads what peers said.
func (k *ShareKeeper) heard(bodies map[string]string) (map[string]*said, error) {
	m := map[string]*said{}
	for peer, body := range bodies {
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
// while one is silent. Where nobody is known to have given anything, that is at once,
// and a first gift that is still on its way is found by move; else what was on its way
// has had time to come.
func (k *ShareKeeper) regain(theirs map[string]*said, spaces map[string]time.Duration, now time.Duration) record {
	if len(theirs) < len(k.e.order) {
		k.regains = 0
		return nil
	}
	r, me, longest := record{}, k.e.settings.Region, k.settling
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
		longest = max(longest, refill+k.settling)
	}
	if k.regains == 0 {
		k.regains = now
	}
	if moved && now-k.regains < longest {
		return nil
	}
	return r
}

// measure writes into r what is asked for, as it goes to and fro.
func (k *ShareKeeper) measure(r record, asked map[string]int64, spaces map[string]time.Duration) {
	for space := range spaces {
		total, h := asked[space], r.at(space)
		if before, known := k.asked[space]; known && total >= before {
			h.Asked = (h.Asked + (total-before)*10) / 2 // tenths, so that little is not nothing
		}
		k.asked[space] = total
	}
}

// move takes what was given, lets what has waited long enough be used, and gives.
func (k *ShareKeeper) move(r record, theirs map[string]*said, spaces map[string]time.Duration, now time.Duration) {
	me := k.e.settings.Region
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
			// More was taken than is known to be given: the first gift was on its way
			// when the record of it was lost, and another was made up at once.
			h.Given[peer] = max(h.Given[peer], other.Taken[me])
			still = still && h.Given[peer] == other.Taken[me]
			for _, n := range other.Waiting {
				still = still && n == 0
			}
		}
		for peer, n := range h.Waiting {
			at := space + " " + peer
			switch since, seen := k.waits[at]; {
			case n == 0:
			case !seen, others[peer] != nil && others[peer].Given[me] < h.Taken[peer]: // who forgot a gift uses it
				k.waits[at], still = now, false
			case now-since >= refill+k.settling:
				delete(h.Waiting, peer)
				delete(k.waits, at)
			default:
				still = false
			}
		}
		if !still || len(others) < len(k.e.order) {
			continue // parted, or something is on its way
		}
		if to, n := h.give(k.e.shares.equal, others); n > 0 {
			h.Given[to] += n
		}
	}
}
