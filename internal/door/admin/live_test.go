package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"math"
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
	t.Cleanup(server.Close) // after the client has gone
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
	counted := func(l *Live) bool { // parts of a line are read one after the other
		return l.Latency.Count == 5 && len(l.Rules) == 1 && l.Rules[0].Admitted+l.Rules[0].Refused == 5
	}
	for line = next(); line != nil && !counted(line); line = next() {
	}
	if line == nil {
		t.Fatal("the stream ended before it told of five decisions")
	}
	if r := line.Rules[0]; r.Rule != "adhoc" || r.Admitted != 3 || r.Refused != 2 || r.Outcomes["limited"] != 2 {
		t.Errorf("the rule: %+v", r)
	}
	close(closing)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for line != nil {
			line = next()
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the stream goes on while the door closes")
		server.CloseClientConnections()
		<-ended
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
	endless := func(h *dto.Histogram) *dto.Histogram {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: new(math.Inf(1)), CumulativeCount: h.SampleCount})
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
		{endless(histogram(0, 0, 0, 7)), nil, Latency{7, 4000, 4000}}, // as one with an exemplar there
		{histogram(5, 5, 5, 5), histogram(5, 5, 5, 5), Latency{Count: 5}},
	} {
		if got := latency(c.now, c.before); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
