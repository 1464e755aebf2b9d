package relay

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// traced gives each message the trace context that its headers carry: that of a span, which
// continues the trace of the task, or without a provider that of the task itself. end ends the
// spans with the results. Events of tasks without a trace context have neither.
func (t *delivery) traced(ctx context.Context, messages []Message) (end func([]error)) {
	var spans map[int]trace.Span
	for i := range messages {
		m := &messages[i]
		e := &m.Event
		if m.TraceParent, m.TraceState = e.TraceParent, e.TraceState; t.tracer == nil || e.TraceParent == "" {
			continue
		}
		_, span := t.tracer.Start(tracing.Remote(ctx, e.TraceParent, e.TraceState), "send "+t.sink.Name,
			trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
				attribute.String("messaging.system", t.system()),
				attribute.String("messaging.operation.name", "send"),
				attribute.String("messaging.operation.type", "send"),
				attribute.String("messaging.destination.name", t.sink.Name),
				attribute.String("messaging.message.id", m.ID()),
				attribute.Int("messaging.message.body.size", len(m.Body)),
				tracing.RelaySink.String(t.sink.Name),
				tracing.Namespace.String(e.Namespace),
				tracing.TaskID.String(e.TaskID),
				tracing.TaskType.String(e.TaskType),
				tracing.EventID.String(e.ID),
				tracing.EventName.String(e.Event)))
		m.TraceParent, m.TraceState = tracing.Headers(span.SpanContext())
		if spans == nil {
			spans = map[int]trace.Span{}
		}
		spans[i] = span
	}
	return func(results []error) {
		for i, span := range spans {
			code := "_OTHER"
			if c := pawl.CodeOf(results[i]); c != pawl.CodeInternal {
				code = string(c)
			}
			tracing.End(span, results[i], code)
		}
	}
}

// system is the messaging.system of the sink.
func (t *delivery) system() string {
	if t.sink.Kind == "" {
		return "pawl"
	}
	return t.sink.Kind
}
