package regions

import (
	"time"

	"github.com/weirhq/weir/redisstore"
)

// peer is another region, as this instance sees it.
//
// What is due to it stands in two rounds. Letters are made from the first until that
// is empty, and what changes meanwhile waits in the next, so that no key waits for
// ever behind newer ones and the age of the oldest is known without looking at all. A
// round is as old as the first key in it: what is said of its age is never too little,
// and too much by no more than the time in which the round before it was sent.
type peer struct {
	first, next round
	way         map[*Letter]bool // letters on their way
	window      int              // how many of them there may be
	rtt         time.Duration    // of the last acknowledged letter
	early       map[account]redisstore.Consumption
}

// round is balances that became due to a peer at about the same time.
type round struct {
	keys  map[account]bool
	since time.Duration // when the first of them became due
}

func newPeer() *peer {
	return &peer{
		first: newRound(), next: newRound(), way: map[*Letter]bool{}, window: inFlight,
		early: map[account]redisstore.Consumption{},
	}
}

func newRound() round { return round{keys: map[account]bool{}} }

func (r *round) add(who account, since time.Duration) {
	if len(r.keys) == 0 || since < r.since {
		r.since = since
	}
	r.keys[who] = true
}

// owe makes a balance due, and reports whether it was not. What a letter did not
// bring has been due for long and goes first again.
func (p *peer) owe(who account, since time.Duration) bool {
	old := len(p.first.keys) == 0 || since <= p.first.since || p.first.keys[who]
	due := p.first.keys[who] || p.next.keys[who]
	if old {
		delete(p.next.keys, who)
		p.first.add(who, since)
	} else {
		p.next.add(who, since)
	}
	return !due
}

// pick takes balances that are due, the oldest first, until take says that it has no
// room for one; that one stays.
func (p *peer) pick(take func(account) bool) {
	for len(p.first.keys) > 0 {
		for who := range p.first.keys {
			if !take(who) {
				return
			}
			delete(p.first.keys, who)
		}
		p.first, p.next = p.next, newRound()
	}
}

// behind returns for how long the oldest change has been due that the peer has not
// acknowledged, or 0 if it has acknowledged all.
func (p *peer) behind(now time.Duration) time.Duration {
	oldest := now
	if len(p.first.keys) > 0 {
		oldest = min(oldest, p.first.since)
	}
	for l := range p.way {
		oldest = min(oldest, l.since)
	}
	return now - oldest
}

// untold returns how many balances the peer has not acknowledged the last change of.
func (p *peer) untold() int {
	all := map[account]bool{}
	for l := range p.way {
		for i := range l.Taken {
			all[accountOf(&l.Taken[i])] = true
		}
	}
	for _, r := range []round{p.first, p.next} {
		for who := range r.keys {
			all[who] = true
		}
	}
	return len(all)
}

// untold returns how many balances the named peer was not told the last of.
func (e *Exchange) untold(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peers[name].untold()
}
