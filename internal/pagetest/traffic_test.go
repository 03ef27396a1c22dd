//go:build !race

package pagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// traffic asks the daemon's check endpoint at a rate, until it is told another.
type traffic struct {
	t    *testing.T
	base string

	mu   sync.Mutex
	stop func() // waits until nobody asks any more
}

func newTraffic(t *testing.T, base string) *traffic {
	c := &traffic{t: t, base: base, stop: func() {}}
	t.Cleanup(func() { c.set(0) })
	return c
}

// handle takes POST /traffic/{rate}: checks a second; 0 is none, and answers when
// there is none any more.
func (c *traffic) handle(w http.ResponseWriter, r *http.Request) {
	rate, err := strconv.Atoi(r.PathValue("rate"))
	if err != nil || rate < 0 || rate > 5000 {
		http.Error(w, "no rate", http.StatusBadRequest)
		return
	}
	c.set(rate)
}

const askers = 8

func (c *traffic) set(rate int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
	c.stop = func() {}
	if rate == 0 {
		return
	}
	due := make(chan int, 1000)
	end := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // ten times a second, a tenth of the rate
		defer close(due)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-tick.C:
			case <-end:
				return
			}
			for range max(1, rate/10) {
				n++
				select {
				case due <- n:
				default: // the machine is behind; what is due is not made up for
				}
			}
		}
	})
	for range askers {
		all.Go(func() {
			for n := range due {
				c.ask(n)
			}
		})
	}
	c.stop = func() {
		close(end)
		all.Wait()
	}
}

// hostile is what callers put into keys to harm whoever looks at them.
var hostile = []string{
	`<img src=x onerror="window.harmed=1">`,
	`"><script>window.harmed=1</script>`,
	"evil\u202Egnp.exe",
	"\x1b[31mred\x1b[0m",
	"zero\u200bwidth",
}

func (c *traffic) ask(n int) {
	body := map[string]any{"path": "/api/search", "ip": "192.0.2.1", "headers": map[string][]string{"X-User": {fmt.Sprintf("user-%d", n%5)}}}
	switch {
	case n%50 == 0:
		body["method"], body["path"] = "POST", "/login"
	case n%2 == 0:
		body["headers"] = map[string][]string{"X-User": {hostile[n%len(hostile)]}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Error(err)
		return
	}
	answer, err := http.Post(c.base+"/v1/check", "application/json", bytes.NewReader(text))
	if err != nil {
		c.t.Error(err)
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		c.t.Error(err)
	}
	if answer.StatusCode != 200 && answer.StatusCode != 429 {
		c.t.Errorf("check: %d", answer.StatusCode)
	}
}
