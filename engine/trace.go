package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// traceApply starts the span of the hook Apply, if the engine makes spans: it continues the
// trace of the task, and is linked to the call that applies. end ends it.
func (d *taskDecision) traceApply(ctx context.Context, tx store.Tx, task pawl.Task) (_ context.Context, end func(error), _ error) {
	t := tracing.Tracer(d.e.opts.TracerProvider)
	if t == nil {
		return ctx, func(error) {}, nil
	}
	parent, state, err := traceOfTask(ctx, tx, task.ID)
	if err != nil {
		return ctx, nil, err
	}
	options := []trace.SpanStartOption{trace.WithAttributes(
		tracing.Namespace.String(task.Namespace), tracing.TaskID.String(task.ID), tracing.TaskType.String(task.Type))}
	if call := trace.SpanContextFromContext(ctx); call.IsValid() && parent != "" {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: call,
			Attributes: []attribute.KeyValue{tracing.LinkReason.String(tracing.LinkCall)}}))
	}
	ctx, span := t.Start(tracing.Remote(ctx, parent, state), "apply "+task.Type, options...)
	return ctx, func(err error) { tracing.End(span, err, "apply_failed") }, nil
}
