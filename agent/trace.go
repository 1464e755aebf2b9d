package agent

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// Provided is what a Model may implement too. Provider names its provider in spans, as the
// conventions for generative AI do: openai, anthropic, gcp.gemini.
type Provided interface {
	Provider() string
}

// tracer returns the tracer of the span that a handler runs in; nil if that is not recorded.
func tracer(ctx context.Context) trace.Tracer {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return tracing.Tracer(span.TracerProvider())
	}
	return nil
}

// beginTurn starts the span of a turn of the model.
func (r *run) beginTurn(ctx context.Context) (_ context.Context, end func(End, error)) {
	t := tracer(ctx)
	if t == nil {
		return ctx, func(End, error) {}
	}
	about := append(r.about(ctx),
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.request.model", r.Model.Name()))
	if p, ok := r.Model.(Provided); ok {
		about = append(about, attribute.String("gen_ai.provider.name", p.Provider()))
	}
	ctx, span := t.Start(ctx, "chat "+r.Model.Name(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...))
	return ctx, func(e End, err error) {
		if err == nil {
			span.SetAttributes(
				attribute.Int64("gen_ai.usage.input_tokens", e.Usage.Input),
				attribute.Int64("gen_ai.usage.output_tokens", e.Usage.Output))
		}
		if e.Finish != "" {
			span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{e.Finish}))
		}
		endSpan(span, err)
	}
}

// beginTool starts the span of a call of a tool.
func (r *run) beginTool(ctx context.Context, c Call) (_ context.Context, end func(Outcome, error)) {
	t := tracer(ctx)
	if t == nil {
		return ctx, func(Outcome, error) {}
	}
	ctx, span := t.Start(ctx, "execute_tool "+c.Name, trace.WithAttributes(append(r.about(ctx),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", c.Name),
		attribute.String("gen_ai.tool.call.id", c.ID))...))
	return ctx, func(o Outcome, err error) {
		if o.IsError {
			span.SetAttributes(tracing.ErrorType.String("tool_error"))
		}
		endSpan(span, err)
	}
}

// about says which message of which item a span is about.
func (r *run) about(ctx context.Context) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("pawl.message.id", r.msg.ID())}
	if lease, err := pawl.ItemFrom(ctx); err == nil {
		out = append(out, tracing.ItemID.String(lease.ID))
	}
	return out
}

func endSpan(span trace.Span, err error) {
	code := "_OTHER"
	if c := pawl.CodeOf(err); c != pawl.CodeInternal {
		code = string(c)
	}
	tracing.End(span, err, code)
}
