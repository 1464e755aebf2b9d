package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// A malformed traceparent is no trace context, and a malformed tracestate is left out.
func TestMalformedContextsAreIgnored(t *testing.T) {
	for _, bad := range []string{"", "x", parent + "-more", parent[:54], "ff" + parent[2:], strings.ToUpper(parent),
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", "00-" + traceID + "-" + strings.Repeat("0", 16) + "-01",
		strings.Repeat("a", 1<<16)} {
		if sc := tracing.Parse(bad, "a=1"); sc.IsValid() {
			t.Errorf("%.80q is taken for %v", bad, sc)
		}
	}
	for given, want := range map[string]string{"a=1,b=2": "a=1,b=2", "a=1,": "a=1", "nonsense": "", "=": "", "a=1,a=2": ""} {
		gotParent, state := tracing.Headers(tracing.Parse(parent, given))
		if gotParent != parent || state != want {
			t.Errorf("tracestate %q becomes %q %q", given, gotParent, state)
		}
	}
	// A later version may have more members.
	if got, _ := tracing.Headers(tracing.Parse("01-"+traceID+"-"+spanID+"-01-later", "")); got != parent {
		t.Errorf("a later version becomes %q", got)
	}
}

// A request with two traceparents has no trace context; several tracestates are one list.
func TestHeadersOfRequests(t *testing.T) {
	of := func(h http.Header) string {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header = h
		return tracing.Of(tracing.FromRequest(r))
	}
	for want, h := range map[string]http.Header{
		"":                    {"Traceparent": {parent, parent}},
		parent:                {"Traceparent": {parent}, "Baggage": {"secret=1"}},
		parent + " a=1,b=2":   {"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}},
		parent + " only=this": {"Traceparent": {parent}, "Tracestate": {"only=this"}},
	} {
		if got := of(h); got != want {
			t.Errorf("%v becomes %q, not %q", h, got, want)
		}
	}
	if got := of(http.Header{"Tracestate": {"a=1"}}); got != "" {
		t.Errorf("a tracestate alone becomes %q", got)
	}
}

// A long tracestate loses members, the long ones first, and is valid.
func TestALongTraceStateIsBounded(t *testing.T) {
	long := "long=" + strings.Repeat("x", 200)
	short := strings.Repeat("k", 20) + "=" + strings.Repeat("v", 60)
	for name, given := range map[string]string{
		"one huge member":   "a=" + strings.Repeat("x", 1<<20),
		"a megabyte":        strings.Repeat("a=1,", 1<<18),
		"long ones first":   strings.Join([]string{"first=1", long, "more" + long, "most" + long, "last=2"}, ","),
		"many short ones":   short + "," + strings.ReplaceAll(strings.Repeat(short+",", 20), "k", "j"),
		"exactly the bound": "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("x", 257),
	} {
		got := tracing.Bound(given)
		if len(got) > pawl.MaxTraceState {
			t.Errorf("%s: %d bytes are left", name, len(got))
		}
		if name == "long ones first" && (!strings.HasPrefix(got, "first=1,") || !strings.HasSuffix(got, ",last=2")) {
			t.Errorf("%s: %q", name, got)
		}
		if name == "exactly the bound" && got != given {
			t.Errorf("%s: %q", name, got)
		}
		if name == "many short ones" && !strings.HasPrefix(got, short) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Ids of spans are random except those of attempts, which follow from the item and the attempt.
func TestAttemptsHaveTheirIDs(t *testing.T) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(tracing.IDs{}))
	tr := tracing.Tracer(tp)
	ids := func(l pawl.Lease) trace.SpanContext {
		ctx, span := tracing.StartAttempt(context.Background(), tr, l)
		defer span.End()
		_, inner := tr.Start(ctx, "inner")
		defer inner.End()
		if inner.SpanContext().SpanID() == span.SpanContext().SpanID() {
			t.Error("a span inside the attempt has the attempt's id")
		}
		return span.SpanContext()
	}
	first := pawl.Lease{ID: "itm_1", Attempt: 1}
	one, again, two := ids(first), ids(first), ids(pawl.Lease{ID: "itm_1", Attempt: 2})
	if one.SpanID() != again.SpanID() || one.SpanID() == two.SpanID() || one.TraceID() != two.TraceID() {
		t.Errorf("%v %v %v", one, again, two)
	}
	if other := ids(pawl.Lease{ID: "itm_2", Attempt: 1}); other.TraceID() == one.TraceID() || other.SpanID() == one.SpanID() {
		t.Errorf("two items share ids: %v %v", other, one)
	}
	first.TraceParent = parent
	if got := ids(first); got.TraceID().String() != traceID || got.SpanID() != one.SpanID() {
		t.Errorf("below a creator: %v", got)
	}
}

// A log line has the ids of its context's span, and no ids without one.
func TestLogLinesHaveTheIDs(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(tracing.LogHandler{Handler: slog.NewTextHandler(&b, nil)}).With("a", 1)
	log.InfoContext(tracing.Remote(context.Background(), parent, ""), "one")
	log.Info("two")
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if want := "msg=one a=1 trace_id=" + traceID + " span_id=" + spanID; !strings.HasSuffix(lines[0], want) {
		t.Errorf("%q does not end with %q", lines[0], want)
	}
	if !strings.HasSuffix(lines[1], "msg=two a=1") {
		t.Errorf("%q", lines[1])
	}
}

// Without a span, asking costs no allocation.
func TestWithoutASpanNothingIsAllocated(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	h := http.Header{}
	if n := testing.AllocsPerRun(100, func() {
		tracing.Inject(r.Context(), h)
		if tracing.Of(tracing.FromRequest(r)) != "" || len(h) > 0 {
			t.Fatal("there is a trace context")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
