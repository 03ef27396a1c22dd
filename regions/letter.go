package regions

import (
	"time"

	"github.com/weirhq/weir/redisstore"
)

// Letter is what one peer must hear, on its way.
type Letter struct {
	Peer  string
	Taken []redisstore.Consumption
	left  time.Duration
}

// LetterBytes bounds a letter's payload, so that no region waits for another's long message and a
// stream of them is bounded too (streamLen).
const LetterBytes = 8 << 10

const mostNumbers = 72 // what a balance costs beside its name, at most: see wire.go

// Letter returns what is due to a peer, or nil for nothing. It must be given to
// Done, whatever came of it.
func (e *Exchange) Letter(name string) *Letter {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[name]
	if len(p.owed) == 0 {
		return nil
	}
	l := &Letter{Peer: name, left: e.settings.Now()}
	room := LetterBytes - 1
	for who := range p.owed {
		room -= len(who.balance) + mostNumbers
		if room < 0 && len(l.Taken) > 0 {
			break
		}
		delete(p.owed, who)
		l.Taken = append(l.Taken, e.known[who].total)
	}
	p.sent++
	return l
}

// Done says whether the peer acknowledged a letter. What it did not is due again.
func (e *Exchange) Done(l *Letter, acknowledged bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[l.Peer]
	p.sent--
	for i := range l.Taken {
		who := accountOf(&l.Taken[i])
		k := e.known[who]
		if !acknowledged {
			e.owe(p, who, k)
		}
		if k.owing--; k.owing == 0 {
			e.owed--
		}
	}
	now := e.settings.Now()
	if p.failing = !acknowledged; p.failing {
		e.stats.Failed++
		return
	}
	e.stats.Told += int64(len(l.Taken))
	p.rtt = now - l.left
	if p.since = now; len(p.owed) == 0 && p.sent == 0 {
		p.since = 0
	}
}

// failing reports whether the peer did not acknowledge the last letter that was
// done.
func (e *Exchange) failing(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peers[name].failing
}
