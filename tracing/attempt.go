package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
)

// StartAttempt starts the span of an attempt of an item. It is a child of the span that created
// the task, and linked to it. If the provider of t has IDs as its generator, it is also linked
// to the attempt before it.
func StartAttempt(ctx context.Context, t trace.Tracer, l pawl.Lease) (context.Context, trace.Span) {
	ctx = Remote(ctx, l.TraceParent, l.TraceState)
	creator := trace.SpanContextFromContext(ctx)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "pawl"),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", l.Type),
		attribute.String("messaging.message.id", l.ID),
		TaskID.String(l.TaskID),
		ItemID.String(l.ID),
		ItemType.String(l.Type),
		Attempt.Int(l.Attempt),
		WorkerID.String(l.WorkerID))}
	if creator.IsValid() {
		options = append(options, trace.WithLinks(link(creator, LinkCreator)))
	}
	ids := idsOf(l.ID, l.Attempt)
	_, span := t.Start(context.WithValue(ctx, attemptKey{}, ids), "process "+l.Type, options...)
	if sc := span.SpanContext(); sc.SpanID() == ids.span && l.Attempt > 1 {
		span.AddLink(link(sc.WithSpanID(idsOf(l.ID, l.Attempt-1).span), LinkPrevious))
	}
	return trace.ContextWithSpan(ctx, span), span
}

// link returns a link with its reason.
func link(to trace.SpanContext, reason string) trace.Link {
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{LinkReason.String(reason)}}
}
