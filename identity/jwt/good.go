package jwt

import (
	"sync"
	"time"
)

// mostGood bounds how many tokens are remembered. A signature takes from 30 µs
// (Ed25519) to 100 µs to check, a hash of the token a microsecond.
const mostGood = 4096

// goodTokens remembers whose the tokens are that were verified, by their SHA-256:
// a look into memory shows no token. Bad ones are not remembered, since anybody
// can make up as many as he likes. The zero value is empty.
type goodTokens struct {
	mu    sync.RWMutex // never held while verifying
	users map[[32]byte]goodToken
}

type goodToken struct {
	user string
	end  time.Time // from then on it has expired
}

func (g *goodTokens) find(print [32]byte, now time.Time) (string, bool) {
	g.mu.RLock()
	t, ok := g.users[print]
	g.mu.RUnlock()
	return t.user, ok && now.Before(t.end)
}

// add remembers a token. Of a full memory what has expired is dropped, or else
// any one: maps are walked in no order.
func (g *goodTokens) add(print [32]byte, user string, end, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == nil {
		g.users = make(map[[32]byte]goodToken)
	}
	if len(g.users) >= mostGood {
		g.makeRoom(now)
	}
	g.users[print] = goodToken{user, end}
}

func (g *goodTokens) makeRoom(now time.Time) {
	looked := 0
	for print, t := range g.users {
		if looked++; !now.Before(t.end) || looked == 16 {
			delete(g.users, print)
			if looked >= 16 {
				return
			}
		}
	}
}
