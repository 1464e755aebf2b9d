package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
)

// The headers and members that carry a trace context, as W3C Trace Context names them. Pawl
// neither reads nor stores baggage.
const (
	ParentHeader = "traceparent"
	StateHeader  = "tracestate"
)

// longMember is the size from which a member of a tracestate is left out before others.
const longMember = 128

// Parse returns the span context of a traceparent and a tracestate. A malformed traceparent
// gives none, and a malformed tracestate is left out: both as W3C Trace Context asks.
func Parse(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{ParentHeader: parent}
	if state = Bound(state); state != "" {
		carrier[StateHeader] = state
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}

// Bound returns a tracestate of at most pawl.MaxTraceState bytes. Of a longer one it leaves
// out the members of more than 128 bytes, the last one first, and then others from the end.
func Bound(state string) string {
	if len(state) <= pawl.MaxTraceState {
		return state
	}
	if len(state) > http.DefaultMaxHeaderBytes/16 {
		return "" // no vendor writes as much
	}
	members := strings.Split(state, ",")
	size := len(state)
	drop := func(i int) {
		size -= len(members[i]) + 1
		members = append(members[:i], members[i+1:]...)
	}
	for i := len(members) - 1; i >= 0 && size > pawl.MaxTraceState; i-- {
		if len(strings.TrimSpace(members[i])) > longMember {
			drop(i)
		}
	}
	for len(members) > 0 && size > pawl.MaxTraceState {
		drop(len(members) - 1)
	}
	return strings.Join(members, ",")
}

// Headers returns the traceparent and tracestate of a span context; "" if it is not valid.
func Headers(sc trace.SpanContext) (parent, state string) {
	if !sc.IsValid() {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier)
	return carrier[ParentHeader], Bound(carrier[StateHeader])
}

// Of returns the trace context of ctx as tasks store it: the traceparent and, after a space,
// the tracestate; "" = none.
func Of(ctx context.Context) string {
	parent, state := Headers(trace.SpanContextFromContext(ctx))
	if state != "" {
		return parent + " " + state
	}
	return parent
}

// Remote returns ctx as a continuation of a remote trace context. A malformed one, or none,
// leaves ctx as it is.
func Remote(ctx context.Context, parent, state string) context.Context {
	if sc := Parse(parent, state); sc.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// FromRequest returns the context of an HTTP request, which continues the trace context of its
// headers. More than one traceparent is malformed; several tracestates are one list.
func FromRequest(r *http.Request) context.Context {
	parents := r.Header["Traceparent"] // the form that net/http gives names
	if len(parents) != 1 {
		return r.Context()
	}
	return Remote(r.Context(), parents[0], strings.Join(r.Header["Tracestate"], ","))
}

// Inject sets the headers of the trace context of ctx, if it has one. It is the
// client.Options.Header of programs that trace.
func Inject(ctx context.Context, h http.Header) {
	parent, state := Headers(trace.SpanContextFromContext(ctx))
	if parent == "" {
		return
	}
	h.Set(ParentHeader, parent)
	if state != "" {
		h.Set(StateHeader, state)
	}
}
