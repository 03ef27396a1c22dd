package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// show is what the demo prints. On a terminal the table is drawn over itself;
// elsewhere it is printed now and then, so that a log can be read afterwards.
type show struct {
	Options
	file    string
	callers []*caller
	base    string // URL of the proxy
	api     string // URL of the API

	mu     sync.Mutex // guards what follows and Out
	notice string     // the last thing that happened to the policy
	drawn  int        // lines of the table on the terminal
	err    error      // of Out, the first
}

const (
	liveEvery  = 250 * time.Millisecond
	plainEvery = 2 * time.Second
)

// run drives the callers and prints until ctx ends. The doors are open.
func (s *show) run(ctx context.Context, addresses map[string]net.Addr) error {
	s.base, s.api = "http://"+addresses["proxy"].String(), "http://"+addresses["http"].String()
	s.begin()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(s.callers)}}
	defer client.CloseIdleConnections()
	var asking sync.WaitGroup
	for _, c := range s.callers {
		asking.Go(func() { c.run(ctx, s.base, client) })
	}
	every := plainEvery
	if s.Live {
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			s.table()
		case <-ctx.Done():
		}
	}
	asking.Wait()
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// print writes to Out under the lock.
func (s *show) print(text string) {
	if _, err := fmt.Fprint(s.Out, text); err != nil && s.err == nil {
		s.err = err
	}
}

// event prints one JSON object.
func (s *show) event(v any) {
	b, err := json.Marshal(v)
	if err != nil && s.err == nil {
		s.err = err
	}
	s.print(string(b) + "\n")
}

// Loop is the loop of curls that shows a limit biting.
func Loop(base string) string {
	return `for i in 1 2 3 4 5 6 7; do curl -s -o /dev/null -w '%{http_code} ' -X POST ` + base + `/login; done; echo`
}

func (s *show) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.JSON {
		s.event(struct {
			Event  string `json:"event"`
			Proxy  string `json:"proxy"`
			API    string `json:"api"`
			Policy string `json:"policy"`
			Try    string `json:"try"`
		}{"open", s.base, s.api, s.file, Loop(s.base)})
		return
	}
	s.print(`Weir demo: a small API behind a limiting proxy, and three callers.

  proxy   ` + s.base + `
  API     ` + s.api + `
  policy  ` + s.file + `

Try this in another terminal. It prints 200 200 200 200 200 429 429:

  ` + Loop(s.base) + `

Then change 5/min in the policy and save: it is in force at once. Or ask the API:

  curl -s ` + s.api + `/v1/take -H 'Content-Type: application/json' -d '{"key":"me","limit":"3/min"}'

Ctrl-C ends the demo.

`)
}

// table prints how the callers fare.
func (s *show) table() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.JSON {
		return
	}
	text := s.rows()
	if s.Live {
		if s.notice != "" {
			text += "\n" + s.notice + "\n"
		}
		text = fit(text, s.Width)
		above := s.drawn
		s.drawn = strings.Count(text, "\n")
		if above > 0 {
			text = fmt.Sprintf("\x1b[%dA\x1b[J", above) + text
		}
	} else {
		text += "\n"
	}
	s.print(text)
}

// fit cuts lines that a terminal would wrap: a wrapped line is two to go up.
func fit(text string, width int) string {
	if width <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func (s *show) rows() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// A strings.Builder takes everything.
	_, _ = fmt.Fprintln(t, "caller\tsends\tsent\tadmitted\tdenied\tlast answer")
	for _, c := range s.callers {
		n, last := c.now()
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", c.name, c.does, n.Sent, n.Admitted, n.Denied, last)
	}
	_ = t.Flush()
	return b.String()
}

// reloaded tells of a policy file that was read again.
func (s *show) reloaded(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now().Format(time.TimeOnly)
	s.notice = at + "  policy reloaded: the file as it is now is in force"
	if err != nil {
		s.notice = at + "  policy not reloaded, the one before stays in force:\n" + err.Error()
	}
	switch {
	case s.JSON:
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		s.event(struct {
			Event string `json:"event"`
			Error string `json:"error,omitempty"`
		}{"reloaded", fault})
	case !s.Live:
		s.print(s.notice + "\n\n")
	}
}

// end prints the totals.
func (s *show) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.JSON {
		totals := map[string]counts{}
		for _, c := range s.callers {
			totals[c.name], _ = c.now()
		}
		s.event(struct {
			Event   string            `json:"event"`
			Callers map[string]counts `json:"callers"`
		}{"totals", totals})
		return
	}
	var all counts
	for _, c := range s.callers {
		n, _ := c.now()
		all.Sent, all.Admitted, all.Denied = all.Sent+n.Sent, all.Admitted+n.Admitted, all.Denied+n.Denied
	}
	s.print(fmt.Sprintf("\n%s\n%d requests in all: %d admitted, %d denied.\n", s.rows(), all.Sent, all.Admitted, all.Denied))
}
