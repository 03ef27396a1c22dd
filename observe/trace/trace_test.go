package trace

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// collector takes traces as OTLP over HTTP, in JSON.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	text  strings.Builder
	spans []span
}

type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []struct {
		Key   string
		Value struct {
			StringValue string
			BoolValue   *bool
		}
	}
}

func (s *span) value(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

func collect(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err == nil {
			err = json.Unmarshal(body, &sent)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.text.Write(body)
		for _, r := range sent.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	return c
}

// TestADecisionIsASpanOfItsRequest: a request's trace goes on through the door to
// the decision, and on to an upstream; keys are hashes.
func TestADecisionIsASpanOfItsRequest(t *testing.T) {
	c := collect(t)
	tracer, err := FromEnvironment(context.Background(), Options{Version: "v1", Instance: "me", Secret: []byte("s")})
	if err != nil || tracer == nil {
		t.Fatal(tracer, err)
	}
	l, err := weir.New(weir.Options{Observer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	const trace, parent, key = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "192.0.2.77"
	var onward, id string
	door := tracer.HTTP("proxy", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onward, id = r.Header.Get("Traceparent"), tracer.ID(r.Context())
		if _, err := l.Allow(r.Context(), key, weir.PerMinute(1)); err != nil {
			t.Error(err)
		}
	}))
	ask := func(traceparent string) {
		r := httptest.NewRequest(http.MethodGet, "/secret-path", nil)
		r.Header.Set("Traceparent", traceparent)
		door.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("00-" + trace + "-" + parent + "-01")
	if id != trace || !strings.HasPrefix(onward, "00-"+trace+"-") || strings.Contains(onward, parent) {
		t.Errorf("the trace goes on as %s, known as %s", onward, id)
	}
	ask("00-" + trace + "-" + parent + "-00") // its caller does not record it
	if id != "" {
		t.Errorf("a trace that is not recorded is known as %s", id)
	}
	if _, err := l.Allow(context.Background(), key, weir.PerMinute(1)); err != nil { // of no request
		t.Fatal(err)
	}
	if err := tracer.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	byName := map[string]span{}
	for _, s := range c.spans {
		byName[s.Name] = s
		if !strings.EqualFold(s.TraceID, trace) {
			t.Errorf("%s is of trace %s", s.Name, s.TraceID)
		}
	}
	request, decision := byName["weir proxy"], byName["weir decide"]
	if len(c.spans) != 2 || !strings.EqualFold(request.ParentSpanID, parent) || decision.ParentSpanID != request.SpanID {
		t.Errorf("%+v", c.spans)
	}
	if decision.value("weir.rule") != "adhoc" || decision.value("weir.reason") != "ok" || decision.value("weir.key_hash") != observe.KeyHash([]byte("s"), key) ||
		decision.StartTimeUnixNano >= decision.EndTimeUnixNano {
		t.Errorf("%+v", decision)
	}
	if text := c.text.String(); strings.Contains(text, key) || strings.Contains(text, "secret-path") || !strings.Contains(text, "service.instance.id") {
		t.Error(text)
	}
}

// TestACollectorThatStalls keeps nobody waiting.
func TestACollectorThatStalls(t *testing.T) {
	stalled := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stalled }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stalled) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	tracer, err := FromEnvironment(context.Background(), Options{OnError: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Observer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := tracer.Begin(context.Background(), "http", func(string) string { return "" })
	for range 50_000 { // many times what the queue holds; would never end if it waited
		if _, err := l.Allow(ctx, "k", weir.PerMinute(1)); err != nil {
			t.Fatal(err)
		}
	}
	end()
	late, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := tracer.Close(late); err == nil {
		t.Error("it was exported to a collector that does not answer")
	}
}

func TestTheEnvironmentDecides(t *testing.T) {
	none := func(want bool) {
		t.Helper()
		tracer, err := FromEnvironment(context.Background(), Options{})
		if err != nil || (tracer == nil) != want {
			t.Errorf("%v %v", tracer, err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	none(true)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	none(false)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	none(true)
	t.Setenv("OTEL_SDK_DISABLED", "True")
	none(true)
	t.Setenv("OTEL_SDK_DISABLED", "")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc") // that of metrics and logs
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
	none(false)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "")
	if _, err := FromEnvironment(context.Background(), Options{}); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL is grpc") {
		t.Errorf("%v", err)
	}
}
