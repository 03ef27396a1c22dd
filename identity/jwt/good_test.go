package jwt

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jwtlib "github.com/golang-jwt/jwt/v5"
)

// A token is verified once and known until it expires; one that differs in a
// letter is not known, and other keys know none.
func TestGoodTokensAreRemembered(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	at := now
	open := func() *Verifier {
		v, err := New(Options{KeyFiles: []string{file}, Leeway: 10 * time.Second, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	token := signer{method: jwtlib.SigningMethodHS256, key: secret}.sign(t, good)
	v := open()
	if user, err := v.Verify(token); user != "alice" || err != nil {
		t.Fatal(user, err)
	}
	clear(v.keys) // whatever is verified from here on is refused
	if user, err := v.Verify(token); user != "alice" || err != nil {
		t.Errorf("the token is not remembered: %q, %v", user, err)
	}
	if _, err := v.Verify(token[:len(token)-1] + "A"); err == nil {
		t.Error("another token is taken for it")
	}
	at = now.Add(69 * time.Second) // it ends at 60, with a leeway of 10
	if _, err := v.Verify(token); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	at = now.Add(70 * time.Second)
	if _, err := v.Verify(token); err == nil {
		t.Error("it is good after its end")
	}
	if _, err := open().Verify(token); !errors.Is(err, ErrExpired) {
		t.Errorf("after its end: %v", err)
	}
}

func TestGoodTokensAreBounded(t *testing.T) {
	var g goodTokens
	for i := range 3 * mostGood {
		var print [32]byte
		binary.BigEndian.PutUint64(print[:], uint64(i))
		g.add(print, "u", now.Add(time.Hour), now)
		if _, ok := g.find(print, now); !ok {
			t.Fatalf("token %d is not there", i)
		}
	}
	if len(g.users) > mostGood {
		t.Errorf("%d tokens are remembered", len(g.users))
	}
}
