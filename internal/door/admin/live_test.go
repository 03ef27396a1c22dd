package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe/metrics"
)

// lines reads a stream of lines.
func lines(t *testing.T, server *httptest.Server) (next func() *Live, body *http.Response) {
	t.Helper()
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	scanner := bufio.NewScanner(answer.Body)
	scanner.Buffer(nil, 1<<20)
	return func() *Live {
		for scanner.Scan() {
			if text, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
				line := new(Live)
				if err := json.Unmarshal([]byte(text), line); err != nil {
					t.Fatal(err)
				}
				return line
			}
		}
		return nil
	}, answer
}

func TestLiveTellsWhatTheMetricsTell(t *testing.T) {
	m := metrics.New(metrics.Options{})
	limiter, err := weir.New(weir.Options{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	closing := make(chan struct{})
	l := newLive(m, closing)
	l.every = time.Millisecond
	server := httptest.NewServer(l)
	defer server.Close()
	next, answer := lines(t, server)
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("Content-Type %q", answer.Header.Get("Content-Type"))
	}
	if first := next(); first == nil || first.Latency.Count != 0 {
		t.Fatalf("the first line: %+v", first)
	}
	for range 5 {
		if _, err := limiter.Allow(context.Background(), "<script>", weir.PerMinute(3)); err != nil {
			t.Fatal(err)
		}
	}
	var line *Live
	for line = next(); line != nil && line.Latency.Count < 5; line = next() {
	}
	if line == nil || len(line.Rules) != 1 {
		t.Fatalf("the line after five: %+v", line)
	}
	if r := line.Rules[0]; r.Rule != "adhoc" || r.Admitted != 3 || r.Refused != 2 || r.Outcomes["limited"] != 2 {
		t.Errorf("the rule: %+v", r)
	}
	close(closing)
	for line != nil { // the stream ends
		line = next()
	}
}

func TestLiveHasRoomForSomeAlone(t *testing.T) {
	l := newLive(prometheus.NewRegistry(), nil)
	for range liveWatches {
		l.room <- struct{}{}
	}
	if w := ask(l, "GET", "/v1/live"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", w.Code)
	}
}

// Quantiles are of what was gained between two readings.
func TestLatency(t *testing.T) {
	histogram := func(counts ...uint64) *dto.Histogram { // cumulative, at 1 ms, 2 ms and 4 ms, then all
		h := new(dto.Histogram)
		for i, bound := range []float64{.001, .002, .004} {
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &counts[i]})
		}
		h.SampleCount = &counts[3]
		return h
	}
	for _, c := range []struct {
		now, before *dto.Histogram
		want        Latency
	}{
		{histogram(0, 0, 0, 0), nil, Latency{}},
		{nil, nil, Latency{}},
		{histogram(100, 100, 100, 100), nil, Latency{100, 500, 990}},
		{histogram(100, 200, 200, 200), histogram(100, 100, 100, 100), Latency{200, 1500, 1990}},
		{histogram(0, 0, 0, 7), nil, Latency{7, 4000, 4000}},
		{histogram(5, 5, 5, 5), histogram(5, 5, 5, 5), Latency{Count: 5}},
	} {
		if got := latency(c.now, c.before); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
