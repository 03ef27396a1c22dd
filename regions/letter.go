package regions

import (
	"time"

	"github.com/weirhq/weir/redisstore"
)

// Letter is what one peer must hear, on its way.
type Letter struct {
	Peer    string
	Taken   []redisstore.Consumption
	payload []byte        // Taken, as wire.go has it
	since   time.Duration // when what is oldest in it became due
	left    time.Duration
}

// LetterBytes bounds a letter's payload. That is a hundred ordinary keys, about one
// script call of who hears it, so that no region waits for another's long message; and
// it bounds the bytes of a stream of letters (streamLen). Many changed keys take many
// letters and no longer ones: to post one costs a hundredth of what to hear it does.
const LetterBytes = 8 << 10

// inFlight bounds letters on their way to one peer: 512 KiB, some 6,000 ordinary keys,
// which a region's server hears in about 0.2 s (docs/regions.md). More would only wait
// there; and a way that brings as much within patience carries no more than 100 KB/s.
const inFlight = 64

// Letter returns what is due to a peer, or nil for nothing, or where as much is on its
// way as may be. It must be given to Done, whatever came of it.
//
// To a peer that did not acknowledge a letter one goes at a time, to find out when it
// does again, and with each that it acknowledges one more.
func (e *Exchange) Letter(name string) *Letter {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[name]
	if len(p.first.keys) == 0 || len(p.way) >= p.window {
		return nil
	}
	l := &Letter{Peer: name, payload: encode(nil), since: p.first.since, left: e.settings.Now()}
	p.pick(func(who account) bool {
		c := &e.known[who].total
		longer := encodeOne(l.payload, c)
		if len(longer) > LetterBytes && len(l.Taken) > 0 {
			return false
		}
		l.payload, l.Taken = longer, append(l.Taken, *c)
		return true
	})
	p.way[l] = true
	return l
}

// Done says whether the peer acknowledged a letter. What it did not is due again.
func (e *Exchange) Done(l *Letter, acknowledged bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[l.Peer]
	delete(p.way, l)
	for i := range l.Taken {
		who := accountOf(&l.Taken[i])
		k := e.known[who]
		if !acknowledged {
			k.owe(p, who, l.since)
		}
		k.owing--
		e.forget(who, k)
	}
	if !acknowledged {
		e.stats.Failed++
		p.window = 1
		return
	}
	e.stats.Told += int64(len(l.Taken))
	p.rtt = e.settings.Now() - l.left
	p.window = min(p.window+1, inFlight)
}
