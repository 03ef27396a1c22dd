package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// clients is how many ask at a time.
const clients = 16

// many keeps a connection for each client.
var many = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}

// decision is as much of an answer of check as these tests look at.
type decision struct {
	Status  int
	Allowed bool
	Reason  string
	Binding int
	Charges []struct {
		Rule, Source     string
		Limit, Remaining int64
	}
}

// limitOf returns the limit that a rule granted, or 0.
func (d *decision) limitOf(rule string) int64 {
	for _, c := range d.Charges {
		if c.Rule == rule {
			return c.Limit
		}
	}
	return 0
}

// check asks a daemon about a request.
func (p *process) check(method, path, ip, key string) (d decision, err error) {
	body, err := json.Marshal(map[string]any{"method": method, "path": path, "ip": ip, "headers": map[string][]string{"X-API-Key": {key}}})
	if err != nil {
		return d, err
	}
	w, err := many.Post(p.url+"/v1/check", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return d, err
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		return d, err
	}
	d.Status = w.StatusCode
	return d, json.Unmarshal(text, &d)
}

// count returns how many lines of the log hold text.
func (p *process) count(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.said.String(), text)
}

// mustCheck is check for a test's own goroutine.
func (p *process) mustCheck(method, path, ip, key string) decision {
	p.t.Helper()
	d, err := p.check(method, path, ip, key)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// left returns what the admin door sees left of each rule that matches.
func (p *process) left(method, path, ip, key string) map[string]int64 {
	p.t.Helper()
	status, answer := postTo(p.t, p.admin+"/v1/explain", fmt.Sprintf(`{"method":%q,"path":%q,"ip":%q,"headers":{"X-API-Key":[%q]}}`, method, path, ip, key))
	var e struct {
		Matched []struct {
			Rule      string
			Remaining int64
		}
	}
	if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 {
		p.t.Fatalf("%d %s %v", status, answer, err)
	}
	left := map[string]int64{}
	for _, m := range e.Matched {
		left[m.Rule] = m.Remaining
	}
	return left
}

// together calls do with 0 to n-1, clients at a time.
func together(n int, do func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
}
