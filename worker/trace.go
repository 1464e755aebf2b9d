package worker

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// The outcomes of attempts, in the attribute pawl.outcome.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"
	outcomeReleased  = "released"
	outcomeSuspended = "suspended"
	outcomeCancelled = "cancelled"
	outcomeLost      = "lease_lost"
)

// trace lets the context of a job continue the trace context of its task, in a span if the
// worker makes spans. Only run calls it, before the handler.
func (w *runner) trace(j *job, l pawl.Lease) {
	if w.tracer == nil {
		if l.TraceParent != "" {
			j.ctx = tracing.Remote(j.ctx, l.TraceParent, l.TraceState)
		}
		return
	}
	j.ctx, j.span = tracing.StartAttempt(j.ctx, w.tracer, l)
	if traceID, spanID, ok := tracing.Running(j.ctx); ok {
		j.log = j.log.With("trace_id", traceID, "span_id", spanID)
	}
}

// endSpan ends the span of a job whose handler has returned. before is the job's state until
// then, and h what is reported; nil = nothing.
func (j *job) endSpan(before jobState, h *result, err error) {
	if j.span == nil {
		return
	}
	outcome := outcomeLost
	switch {
	case before == jobSuspended:
		outcome, err = outcomeSuspended, nil
	case before == jobCancelled:
		outcome, err = outcomeCancelled, nil
	case h != nil && h.verb == release:
		outcome, err = outcomeReleased, nil
	case h != nil && h.verb == fail:
		outcome = outcomeFailed
	case h != nil:
		outcome, err = outcomeCompleted, nil
	}
	j.span.SetAttributes(tracing.Outcome.String(outcome))
	tracing.End(j.span, err, errorType(err))
}

// errorType is the error.type of an error: the code that the item's failure has.
func errorType(err error) string {
	var failed *failedError
	var known *pawl.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed) && failed.f.Code != "":
		return failed.f.Code
	case errors.As(err, &known):
		return string(known.Code)
	}
	return "_OTHER"
}

// callContext is the context of a call that reports results. A call about one job belongs to
// the trace of that job.
func (w *runner) callContext(hs []*result) context.Context {
	if len(hs) == 1 && hs[0].job.span != nil {
		return trace.ContextWithSpan(w.callCtx, hs[0].job.span)
	}
	return w.callCtx
}

// tracedSession is a session that makes spans of steps, children and budgets.
type tracedSession struct {
	*session
	costs *costs
}

// costs are what was settled in the spans of an attempt.
type costs struct {
	mu sync.Mutex
	of map[costOf]int64
}

type costOf struct {
	span   trace.SpanID
	budget string
}

// add adds an amount to what was settled in the span of ctx, and says the sum on that span.
func (c *costs) add(ctx context.Context, budget string, amount int64) {
	span := trace.SpanFromContext(ctx)
	key := costOf{span.SpanContext().SpanID(), budget}
	c.mu.Lock()
	c.of[key] += amount
	sum := c.of[key]
	c.mu.Unlock()
	span.SetAttributes(attribute.Int64(tracing.CostPrefix+budget, sum))
}

// newSession returns the session of a job.
func (w *runner) newSession(j *job) pawl.Session {
	if w.tracer == nil {
		return &session{w, j}
	}
	return tracedSession{&session{w, j}, &costs{of: map[costOf]int64{}}}
}

func (s tracedSession) start(ctx context.Context, name string, kind trace.SpanKind,
	about ...attribute.KeyValue) (context.Context, trace.Span) {
	about = append(about, tracing.ItemID.String(s.j.fence.ItemID))
	return s.w.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
}

// BeginStep implements pawl.StepSession.
func (s tracedSession) BeginStep(ctx context.Context, name string) (context.Context, func(error)) {
	ctx, span := s.start(ctx, tracing.StepSpan(name), trace.SpanKindInternal, tracing.StepName.String(name))
	return ctx, func(err error) {
		if errors.Is(err, pawl.ErrSuspended) {
			err = nil
		}
		tracing.End(span, err, errorType(err))
	}
}

// ReplayedStep implements pawl.StepSession.
func (s tracedSession) ReplayedStep(ctx context.Context, name string) {
	trace.SpanFromContext(ctx).AddEvent("pawl.step.replayed", trace.WithAttributes(tracing.StepName.String(name)))
}

// SpawnChild implements pawl.Session.
func (s tracedSession) SpawnChild(ctx context.Context, call pawl.SpawnCall) (pawl.Task, error) {
	ctx, span := s.start(ctx, "create "+call.Task.Type, trace.SpanKindProducer,
		attribute.String("messaging.system", "pawl"),
		attribute.String("messaging.operation.name", "create"),
		attribute.String("messaging.operation.type", "create"),
		attribute.String("messaging.destination.name", call.Task.Type),
		tracing.ChildKey.String(call.Key), tracing.TaskType.String(call.Task.Type))
	task, err := s.session.SpawnChild(ctx, call)
	if err == nil {
		span.SetAttributes(tracing.ChildID.String(task.ID))
	}
	tracing.End(span, err, errorType(err))
	return task, err
}

// ReserveBudget implements pawl.Session.
func (s tracedSession) ReserveBudget(ctx context.Context, budget string, call pawl.ReserveCall) (pawl.Reserved, error) {
	ctx, span := s.start(ctx, "reserve "+budget, trace.SpanKindClient, tracing.Budget.String(budget), tracing.Amount.Int64(call.Amount))
	out, err := s.session.ReserveBudget(ctx, budget, call)
	tracing.End(span, err, errorType(err))
	return out, err
}

// SettleBudget implements pawl.Session.
func (s tracedSession) SettleBudget(ctx context.Context, budget string, call pawl.SettleCall) (pawl.Settled, error) {
	around := ctx
	ctx, span := s.start(ctx, "settle "+budget, trace.SpanKindClient, tracing.Budget.String(budget), tracing.Amount.Int64(call.Amount))
	out, err := s.session.SettleBudget(ctx, budget, call)
	if err == nil {
		s.costs.add(around, budget, call.Amount)
	}
	tracing.End(span, err, errorType(err))
	return out, err
}
