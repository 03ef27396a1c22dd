package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
)

// admitsBlindly admits what the store did not decide, whatever the limit says.
type admitsBlindly struct{ planted }

func (s *admitsBlindly) Apply(ctx context.Context, bills []*weir.Bill) {
	s.Store.Apply(ctx, bills)
	if b := bills[0]; b.Err != nil {
		b.Err = nil
		for i := range b.Balances() {
			b.Balances()[i].Fits = true
		}
		b.Settle("redis")
	}
}

// TestSuiteCanFail shows what settles the accounts two stores that are wrong.
func TestSuiteCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(weir.Store) weir.Store
		want  string
	}{
		"charged twice":       {func(s weir.Store) weir.Store { return &asksAgain{planted{Store: s}, 4, 300 * time.Millisecond} }, "charged"},
		"admitted over limit": {func(s weir.Store) weir.Store { return &admitsBlindly{planted{Store: s}} }, "admitted"},
	} {
		t.Run(label(name), func(t *testing.T) {
			server := testredis.Start(t)
			proxy := testredis.StartProxy(t, server.Addr)
			l := newLoad(t, proxy.URL(), deadline, c.plant)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); l.run(ctx) }()
			start := time.Now()
			await(t, "redis decides everything", func() bool { _, all := l.recovered(start); return all })
			for range 5 {
				proxy.Deaf(true)
				hold(100 * time.Millisecond)
				proxy.Cut()
				proxy.Deaf(false)
				mended := time.Now()
				await(t, "redis decides everything again", func() bool { _, all := l.recovered(mended); return all })
			}
			cancel()
			<-done
			problems := strings.Join(l.settle(t, nothing), "; ")
			if !strings.Contains(problems, c.want) {
				t.Errorf("found only %.300q", problems)
			}
		})
	}
}
