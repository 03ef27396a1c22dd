package regions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/policy"
)

const (
	shareText = "100/s"
	wholes    = 720_720
)

// held reads from the servers what share each region holds, with what it waits
// for, or nothing of a region that has no record.
func (w *world) held() map[string]int64 {
	w.t.Helper()
	shares := map[string]int64{}
	for _, name := range w.names {
		c := w.clients[name]
		text, err := c.Do(context.Background(), c.B().Get().Key("weir1:{regions}shares").Build()).ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		var r map[string]struct{ Given, Taken map[string]int64 }
		if err == nil {
			err = json.Unmarshal([]byte(text), &r)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		shares[name] = wholes / 3
		for _, n := range r[space].Taken {
			shares[name] += n
		}
		for _, n := range r[space].Given {
			shares[name] -= n
		}
	}
	return shares
}

// tooMuch says that the shares sum up to more than the limit, or "".
func tooMuch(shares map[string]int64) string {
	sum := int64(0)
	for _, n := range shares {
		sum += n
	}
	if sum > wholes {
		return fmt.Sprintf("shares sum up to %d of %d: %v", sum, wholes, shares)
	}
	return ""
}

// sound reads the shares until they are the same twice, so that no move lies
// between two reads, and judges them.
func (w *world) sound() (map[string]int64, string) {
	before := w.held()
	for {
		now := w.held()
		if maps.Equal(before, now) {
			return now, tooMuch(now)
		}
		before = now
	}
}

// TestShares: a limit that is cut into shares is never exceeded, whatever the
// shares do; they follow demand, and stay as they are while regions are parted.
func TestShares(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policy.ScopeShare, func(s *setup) { s.Beat = 400 * time.Millisecond })
	limit := parse(t, shareText)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	await := func(what string, reached func(map[string]int64) bool) {
		t.Helper()
		late := time.After(60 * time.Second)
		for {
			shares, wrong := w.sound()
			if wrong != "" {
				t.Fatal(wrong)
			}
			if reached(shares) {
				return
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s: %v", what, shares)
			}
		}
	}
	await("not every region has a record", func(s map[string]int64) bool { return len(s) == 3 })

	began := time.Now()
	var busy sync.WaitGroup
	admitted := int64(0)
	busy.Go(func() {
		for moved := false; !moved && time.Since(began) < 30*time.Second; {
			admitted += w.regions["eu"].do(order{Do: "load", Limit: shareText, Keys: []string{"k"}, Rate: 150, For: time.Second}).Admitted
			moved = w.held()["eu"] > wholes/2
		}
	})
	for _, name := range []string{"us", "asia"} {
		busy.Go(func() {
			w.regions[name].do(order{Do: "load", Limit: shareText, Keys: []string{"k"}, Rate: 10, For: 2 * time.Second})
		})
	}
	await("the share did not follow demand", func(s map[string]int64) bool { return s["eu"] > wholes/2 })
	busy.Wait()

	w.cut(true)
	// What was given up and had come before the cut is taken at the next beat.
	admitted += w.load(shareText, []string{"k"}, 60, 2500*time.Millisecond) // six beats
	parted, _ := w.sound()
	for range 2 {
		admitted += w.load(shareText, []string{"k"}, 60, 1500*time.Millisecond)
		if shares, wrong := w.sound(); wrong != "" {
			t.Error(wrong)
		} else {
			for name, n := range shares {
				if n > parted[name] {
					t.Errorf("%s took a share while it was cut off: %v, then %v", name, parted, shares)
				}
			}
		}
	}
	elapsed := time.Since(began)
	w.cut(false)
	most := limit.Most() + int64(100*elapsed.Seconds())
	if admitted > most {
		t.Errorf("%d admitted in %s, more than %d", admitted, elapsed, most)
	}
	t.Logf("%d admitted in %s of at most %d; shares %v", admitted, elapsed, most, parted)

	// Planted: a region takes what nobody gave, from one that does not hear of it.
	c := w.clients["us"]
	forged := fmt.Sprintf(`{%q:{"taken":{"mars":900000}}}`, space)
	if err := c.Do(context.Background(), c.B().Set().Key("weir1:{regions}shares").Value(forged).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, wrong := w.sound(); wrong == "" {
		t.Error("a share that nobody gave was not found")
	}
}
