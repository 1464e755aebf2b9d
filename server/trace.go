package server

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl/tracing"
)

// untraced are the paths whose requests get no span: programs ask for them all the time.
var untraced = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// traced returns a request whose context continues the trace context of its headers, in a span
// if the server makes spans.
func (s *server) traced(r *http.Request) *http.Request {
	ctx := tracing.FromRequest(r)
	if s.tracer != nil && !untraced[r.URL.Path] {
		ctx, _ = s.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("url.path", r.URL.Path),
			attribute.String("url.scheme", scheme(r)),
			attribute.String("server.address", r.Host)))
	}
	if ctx == r.Context() {
		return r
	}
	return r.WithContext(ctx)
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// endSpan ends the span of a request that has been answered.
func (s *server) endSpan(w middleware.WrapResponseWriter, r *http.Request, route string) {
	if s.tracer == nil || untraced[r.URL.Path] {
		return
	}
	span, c := trace.SpanFromContext(r.Context()), callOf(r.Context())
	if route != "" {
		span.SetName(r.Method + " " + route)
		span.SetAttributes(attribute.String("http.route", route))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", w.Status()), attribute.String("pawl.request.id", c.id))
	if status := w.Status(); status >= 500 {
		span.SetAttributes(tracing.ErrorType.String(strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
