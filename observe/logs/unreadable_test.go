package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// failing decides nothing, for one reason.
type failing struct {
	weir.Store
	kind string
}

func (f *failing) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: f.kind, Err: errors.New("redis")}
	}
}

// TestAnUnreadableBalanceIsToldOf: once a minute for each key, by its hash, a few
// keys at most; other failures are told of elsewhere.
func TestAnUnreadableBalanceIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		secret := []byte("secret")
		store := &failing{Store: weir.NewMemory(weir.MemoryOptions{})}
		limiter, err := weir.New(weir.Options{Store: store, Observer: NewUnreadable(New(&out, false, slog.LevelInfo), secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		ask := func(key, kind string) {
			store.kind = kind
			if _, err := limiter.Allow(t.Context(), key, weir.PerMinute(100)); err != nil {
				t.Error(err)
			}
		}
		lines := func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }
		for range 50 {
			ask("user:42", "wrong_type")
			ask("user:42", "timeout")
		}
		if l := lines(); len(l) != 1 || !strings.Contains(l[0], "kind=wrong_type") || !strings.Contains(l[0], "key_hash="+observe.KeyHash(secret, "user:42")) {
			t.Fatalf("%q", l)
		}
		for i := range 50 {
			ask(fmt.Sprint("user:", i), "bad_state")
		}
		if l := lines(); len(l) != unreadableLines || strings.Contains(out.String(), "user:") || !strings.Contains(l[1], "not_logged=49") {
			t.Errorf("%q", l)
		}
		<-time.After(unreadableEvery)
		ask("user:42", "wrong_type")
		if l := lines(); len(l) != unreadableLines+1 {
			t.Errorf("a minute later: %q", l)
		}
	})
}

// TestAnUnreadableBalanceInABatchIsToldOf as one by itself is.
func TestAnUnreadableBalanceInABatchIsToldOf(t *testing.T) {
	var out bytes.Buffer
	l, err := weir.New(weir.Options{
		Store:    &failing{Store: weir.NewMemory(weir.MemoryOptions{}), kind: "bad_state"},
		Observer: NewUnreadable(New(&out, false, slog.LevelInfo), nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bills := []*weir.Bill{{Charges: []weir.Charge{weir.PerMinute(1).Charge("a")}}, {Charges: []weir.Charge{weir.PerMinute(1).Charge("b")}}}
	if err := l.Decide(t.Context(), bills...); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "kind=bad_state") != 2 {
		t.Errorf("%s", out.String())
	}
}
