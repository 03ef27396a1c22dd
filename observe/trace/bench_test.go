package trace

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirhq/weir"
)

// BenchmarkTracedDecision is a decision in memory of which a span is made, and
// exported to a collector that takes everything.
func BenchmarkTracedDecision(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tracer, err := FromEnvironment(context.Background(), Options{OnError: func(error) {}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := weir.New(weir.Options{Observer: tracer})
	if err != nil {
		b.Fatal(err)
	}
	ctx, end := tracer.Begin(context.Background(), "http", func(string) string { return "" })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(ctx, "user:42", weir.PerMinute(1_000_000)); err != nil {
			b.Fatal(err)
		}
	}
	end()
	_ = tracer.Close(context.Background())
}
