package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// traced returns the context of a tool's call, which continues the trace context of its _meta,
// in a span if the server makes spans. end ends the span.
func (s *Server) traced(ctx context.Context, tool string, meta sdk.Meta) (_ context.Context, end func(error)) {
	parent, _ := meta[tracing.ParentHeader].(string)
	state, _ := meta[tracing.StateHeader].(string)
	outer := trace.SpanContextFromContext(ctx)
	given := tracing.Parse(parent, state)
	if given.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, given)
	}
	if s.tracer == nil {
		return ctx, func(error) {}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("mcp.method.name", "tools/call"),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", tool))}
	if given.IsValid() && outer.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: outer,
			Attributes: []attribute.KeyValue{tracing.LinkReason.String(tracing.LinkCall)}}))
	}
	ctx, span := s.tracer.Start(ctx, "tools/call "+tool, options...)
	return ctx, func(err error) { tracing.End(span, err, string(pawl.CodeOf(err))) }
}
