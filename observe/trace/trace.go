// Package trace makes spans of decisions, for OpenTelemetry.
//
//	traceparent ─▶ door: a span of the request ─▶ gate … store
//	                                         Observe: a span of the decision in it
//
// It is on where the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT),
// and is set up by the variables that OpenTelemetry gives a meaning. Without one
// there is no observer and nothing costs anything. Spans wait in a bounded queue
// that the SDK keeps: one that does not fit is dropped, and nobody waits.
//
// A span names a key by its hash, and holds neither path nor header nor address.
package trace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// Options configures FromEnvironment.
type Options struct {
	Version  string // of the program
	Instance string // names this process
	Secret   []byte // makes key hashes; see observe.KeyHash
	// OnError is told what the exporter could not do, or nil.
	OnError func(error)
}

// Tracer is a weir.Observer that makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	fields   propagation.TraceContext
	secret   []byte
}

// FromEnvironment returns a tracer as the environment asks for one, and nil if it
// asks for none. Traces go over HTTP; OTEL_EXPORTER_OTLP_PROTOCOL chooses between
// http/protobuf and http/json.
func FromEnvironment(ctx context.Context, o Options) (*Tracer, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" ||
		strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		p := os.Getenv(name)
		if p == "" {
			continue
		}
		if p != "http/protobuf" && p != "http/json" {
			return nil, fmt.Errorf("%s is %s; traces go over http/protobuf or http/json", name, p)
		}
		break // what is said of traces stands over what is said of everything
	}
	if o.OnError != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(o.OnError))
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "weir"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/weirhq/weir/observe/trace"), secret: o.Secret}, nil
}

// Close exports what waits.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Begin begins the span of a request that came through a door. field returns a
// header field, or what stands for one, in lower case. End ends the span.
func (t *Tracer) Begin(ctx context.Context, door string, field func(name string) string) (in context.Context, end func()) {
	ctx = t.fields.Extract(ctx, reader(field))
	ctx, span := t.tracer.Start(ctx, "weir "+door, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func() { span.End() }
}

// reader is a carrier that is only read.
type reader func(name string) string

func (r reader) Get(name string) string { return r(name) }
func (reader) Set(string, string)       {}
func (reader) Keys() []string           { return nil }

// HTTP makes a span of every request of a door. Passes says that the door passes
// requests on: they go on with our span in their traceparent.
func (t *Tracer) HTTP(door string, passes bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := t.Begin(r.Context(), door, r.Header.Get)
		defer end()
		if passes {
			t.fields.Inject(ctx, propagation.HeaderCarrier(r.Header))
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// ID returns the ID of the trace that ctx is in, if it is recorded.
func (*Tracer) ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Observe implements weir.Observer.
func (t *Tracer) Observe(ctx context.Context, e weir.Event) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	b := e.Bill
	note := observe.NoteOf(&e)
	details := observe.DetailsOf(note)
	end := time.Now()
	attributes := []attribute.KeyValue{
		attribute.String("weir.rule", observe.Rule(note, b)), attribute.Bool("weir.allowed", b.Allowed),
		attribute.String("weir.reason", b.Reason.String()), attribute.String("weir.source", b.Source), attribute.String("weir.door", note.DoorName()),
	}
	for name, value := range map[string]string{
		"weir.decision": b.IDText(), "weir.tenant": details.TenantName(), "weir.plan": details.PlanName(), "weir.route": details.RouteName(int(b.Binding)),
	} {
		if value != "" {
			attributes = append(attributes, attribute.String(name, observe.Harmless(value)))
		}
	}
	if c := observe.Charge(b); c != nil {
		attributes = append(attributes, attribute.String("weir.key_hash", observe.KeyHash(t.secret, c.Key)), attribute.Int64("weir.cost", c.Cost))
	}
	_, span := t.tracer.Start(ctx, "weir decide", trace.WithTimestamp(end.Add(-e.Elapsed)), trace.WithAttributes(attributes...))
	var fault *weir.StoreError
	if errors.As(b.Err, &fault) {
		span.SetAttributes(attribute.String("error.type", fault.Kind))
		span.SetStatus(codes.Error, "the store did not decide")
	}
	span.End(trace.WithTimestamp(end))
}
