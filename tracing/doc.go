// Package tracing connects Pawl's work with OpenTelemetry. The trace context of the call that
// creates a task is stored with the task, as W3C Trace Context writes it, and everything that
// is done for the task goes on from it: attempts, steps, children, applying and relays.
//
// The names of spans and attributes are in docs/traces.md, one table for all languages.
//
// The packages engine, server, mcp, worker and relay take a trace.TracerProvider. Without one
// they make no span, and pass the context on that they were given. This package imports the
// API of OpenTelemetry alone: which SDK and which exporter there is, a program decides.
package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the instrumentation scope of Pawl's spans.
const Scope = "github.com/pawl-work/pawl"

// The attributes of Pawl's spans. Those of OpenTelemetry's own conventions are written as they
// are there: http.*, messaging.*, gen_ai.*, error.type.
const (
	Namespace  = attribute.Key("pawl.namespace")
	TaskID     = attribute.Key("pawl.task.id")
	TaskType   = attribute.Key("pawl.task.type")
	ItemID     = attribute.Key("pawl.item.id")
	ItemType   = attribute.Key("pawl.item.type")
	Attempt    = attribute.Key("pawl.attempt")
	WorkerID   = attribute.Key("pawl.worker.id")
	Outcome    = attribute.Key("pawl.outcome")
	StepName   = attribute.Key("pawl.step.name")
	Budget     = attribute.Key("pawl.budget.name")
	Amount     = attribute.Key("pawl.budget.amount")
	ChildID    = attribute.Key("pawl.child.id")
	ChildKey   = attribute.Key("pawl.child.key")
	PartKey    = attribute.Key("pawl.part.key")
	EventID    = attribute.Key("pawl.event.id")
	EventName  = attribute.Key("pawl.event.name")
	RelaySink  = attribute.Key("pawl.relay.sink")
	ErrorType  = attribute.Key("error.type")
	LinkReason = attribute.Key("pawl.link")
)

// CostPrefix and the name of a budget are the attribute of what was settled in a span.
const CostPrefix = "pawl.cost."

// The values of LinkReason.
const (
	LinkCreator  = "creator"          // the link names the span that created the task
	LinkPrevious = "previous_attempt" // the link names the item's attempt before this one
	LinkCall     = "call"             // the link names the span of the call that caused this one
)

// Tracer returns the tracer of Pawl's spans; nil if p is nil.
func Tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(Scope)
}

// End ends a span. An error sets its status, and code is its error.type; "" = none.
func End(span trace.Span, err error, code string) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		if code != "" {
			span.SetAttributes(ErrorType.String(code))
		}
	}
	span.End()
}

// Running returns the ids of the span of ctx, in hex, for log lines; ok is false if there is
// none.
func Running(ctx context.Context) (traceID, spanID string, ok bool) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return "", "", false
	}
	return sc.TraceID().String(), sc.SpanID().String(), true
}

// StepSpan is the name of the span of a step. What follows an @ in the step's name, such as the
// id of a message, is left out: names of spans are few.
func StepSpan(name string) string {
	short, _, _ := strings.Cut(name, "@")
	return "step " + short
}
