package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// IDs generates the ids of spans, for sdktrace.WithIDGenerator. Those of attempts follow from
// the item and the number of the attempt. So an attempt can link to the one before it, which
// may have died in another process, and nothing is stored for that. All other ids are random.
type IDs struct{}

type attemptKey struct{}

// attemptIDs are the ids that the span of an attempt gets.
type attemptIDs struct {
	trace trace.TraceID // if it has no parent
	span  trace.SpanID
}

// idsOf returns the ids of an attempt's span.
func idsOf(itemID string, attempt int) attemptIDs {
	of := func(s string) [sha256.Size]byte { return sha256.Sum256([]byte("pawl:" + s)) }
	item, one := of(itemID), of(itemID+"/"+strconv.Itoa(attempt))
	return attemptIDs{trace.TraceID(item[:16]), trace.SpanID(one[:8])}
}

// NewIDs implements sdktrace.IDGenerator.
func (IDs) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if ids, ok := ctx.Value(attemptKey{}).(attemptIDs); ok {
		return ids.trace, ids.span
	}
	_, _ = rand.Read(t[:]) // never fails
	_, _ = rand.Read(s[:])
	return t, s
}

// NewSpanID implements sdktrace.IDGenerator.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) (s trace.SpanID) {
	if ids, ok := ctx.Value(attemptKey{}).(attemptIDs); ok {
		return ids.span
	}
	_, _ = rand.Read(s[:]) // never fails
	return s
}
