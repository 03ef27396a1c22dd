package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// caller is one client with its own way of asking.
type caller struct {
	name, does   string
	method, path string
	address, key string // who it says it is
	every        time.Duration
	burst        int // requests at once

	mu    sync.Mutex
	count counts
	last  string // what it was answered last, in words
}

// counts is what a caller sent and was answered.
type counts struct {
	Sent     int `json:"sent"`
	Admitted int `json:"admitted"`
	Denied   int `json:"denied"`
	Failed   int `json:"failed"`
}

// tempers returns the three callers: one that stays below its limit, one that
// spends its burst and waits, and one that guesses passwords.
func tempers() []*caller {
	return []*caller{
		{
			name: "calm", does: "GET /api/items, twice a second (plan pro)",
			method: "GET", path: "/api/items", address: "198.51.100.10", key: "k-calm", every: 500 * time.Millisecond, burst: 1,
		}, {
			name: "bursty", does: "GET /api/search, 30 at once every 4 s (plan free)",
			method: "GET", path: "/api/search", address: "198.51.100.20", key: "k-bursty", every: 4 * time.Second, burst: 30,
		}, {
			name: "abuser", does: "POST /login, ten a second",
			method: "POST", path: "/login", address: "203.0.113.66", every: 100 * time.Millisecond, burst: 1,
		},
	}
}

// run asks until ctx ends.
func (c *caller) run(ctx context.Context, base string, client *http.Client) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		for range c.burst {
			c.ask(ctx, base, client)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask sends one request and notes the answer.
func (c *caller) ask(ctx context.Context, base string, client *http.Client) {
	r, err := http.NewRequestWithContext(ctx, c.method, base+c.path, nil)
	if err != nil {
		c.note(0, err.Error())
		return
	}
	r.Header.Set("X-Forwarded-For", c.address)
	if c.key != "" {
		r.Header.Set("X-API-Key", c.key)
	}
	w, err := client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			c.note(0, err.Error())
		}
		return
	}
	// The body is short and read to its end.
	defer func() { _ = w.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(w.Body, 64<<10))
	if err != nil {
		if ctx.Err() == nil {
			c.note(0, err.Error())
		}
		return
	}
	c.note(w.StatusCode, words(w, body))
}

func (c *caller) note(status int, last string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.Sent++
	switch status {
	case http.StatusOK:
		c.count.Admitted++
	case http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable:
		c.count.Denied++
	default:
		c.count.Failed++
	}
	c.last = last
}

// now returns the counts and the last answer.
func (c *caller) now() (counts, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.last
}

// words says what an answer means to its client.
func words(w *http.Response, body []byte) string {
	if w.StatusCode == http.StatusOK {
		if left := w.Header.Get("RateLimit-Remaining"); left != "" {
			return fmt.Sprintf("200, %s of %s left", left, w.Header.Get("RateLimit-Limit"))
		}
		return "200"
	}
	s := fmt.Sprint(w.StatusCode)
	var p struct {
		Violated []string `json:"violated-policies"`
	}
	if json.Unmarshal(body, &p) == nil && len(p.Violated) > 0 {
		s += " by " + strings.Join(p.Violated, ", ")
	}
	if wait := w.Header.Get("Retry-After"); wait != "" {
		s += ", again in " + wait + " s"
	}
	return s
}
