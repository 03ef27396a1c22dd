package redisstore

import (
	"context"
	"sync"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
)

// TestFlightsAreTold: each script call is told of once, with all its bills, and
// the server's clock is known from it.
func TestFlightsAreTold(t *testing.T) {
	server := testredis.Start(t)
	var mu sync.Mutex
	var bills, flights int
	s, err := Open("redis://"+server.Addr, Options{OnFlight: func(f Flight) {
		mu.Lock()
		defer mu.Unlock()
		bills, flights = bills+f.Bills, flights+1
		if f.Took <= 0 || f.Queued < 0 || f.Kind != "" {
			t.Errorf("%+v", f)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	many := make([]*weir.Bill, 100)
	for i := range many {
		many[i] = &weir.Bill{Charges: []weir.Charge{weir.PerMinute(5).Charge("k")}}
	}
	if err := l.Decide(context.Background(), many...); err != nil {
		t.Fatal(err)
	}
	if offset, known := s.ClockOffset(); !known || offset.Abs().Seconds() > 1 {
		t.Errorf("offset %v known %v", offset, known)
	}
	if err := l.Close(); err != nil { // no flight is out after it
		t.Fatal(err)
	}
	if bills != 100 || flights == 0 || flights > 100 {
		t.Errorf("%d bills in %d flights", bills, flights)
	}
}
