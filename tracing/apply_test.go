package tracing_test

import (
	"context"
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// The hook Apply runs in a span of the task's trace, on both databases.
func TestApplyingIsASpan(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			spans, tp := recorder()
			var in trace.SpanContext
			hooks := pawl.Hooks{Apply: func(ctx context.Context, _ pawl.Application) (pawl.Applied, error) {
				in = trace.SpanContextFromContext(ctx)
				return pawl.Applied{}, nil
			}}
			p := pawltest.OpenWith(t, which, engine.Options{TracerProvider: tp, Hooks: map[string]pawl.Hooks{"report": hooks}})
			ctx := t.Context()
			typ := pawl.Type{Name: "report"}
			def := `{"name":"report","acceptance":true,"approval":{"mode":"manual"},"apply":{"mode":"go"}}`
			if err := json.Unmarshal([]byte(def), &typ); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Engine.PutTypes(ctx, []pawl.Type{typ}); err != nil {
				t.Fatal(err)
			}
			task, err := pawl.Create(remote(ctx), p.Engine, pawl.NewTask{Type: "report"})
			if err != nil {
				t.Fatal(err)
			}
			leases, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID})
			if err != nil || len(leases) != 1 {
				t.Fatal(leases, err)
			}
			done, err := p.Engine.Submit(ctx, []pawl.SubmitCall{{Fence: leases[0].Fence(), Result: []byte(`1`)}})
			if err != nil || done[0].Err != nil {
				t.Fatal(done, err)
			}
			approved, err := p.Engine.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task.ID}})
			if err != nil || approved[0].Err != nil {
				t.Fatal(approved, err)
			}
			applied := named(spans, "apply report")
			if len(applied) != 1 {
				t.Fatalf("%d spans", len(applied))
			}
			s := applied[0]
			if s.SpanContext().TraceID().String() != traceID || s.Parent().SpanID().String() != spanID || !in.Equal(s.SpanContext()) {
				t.Errorf("the hook ran in %v, the span is %v below %v", in, s.SpanContext(), s.Parent())
			}
			if got := attributes(s); got["pawl.task.id"] != task.ID || got["pawl.task.type"] != "report" {
				t.Errorf("it has %v", got)
			}
		})
	}
}

// remote returns a context that continues the creator's trace.
func remote(ctx context.Context) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, mustParse())
}

// A tool's call over MCP continues the trace context of its _meta, and so does the task that it
// creates. A malformed one is ignored.
func TestAToolsCallContinuesItsMeta(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.SQLite)
	spans, tp := recorder()
	here, there := sdk.NewInMemoryTransports()
	serving, err := mcp.New(p.Service, mcp.Options{Tools: mcp.ToolsAll, TracerProvider: tp}).SDK().Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serving.Close() }()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, nil).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	for typ, given := range map[string]string{"good": parent, "bad": "nonsense"} {
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "work_propose",
			Meta: sdk.Meta{"traceparent": given, "tracestate": "a=1"}, Arguments: map[string]any{"type": typ}})
		if err != nil || res.IsError {
			t.Fatalf("%v %+v", err, res)
		}
		leases, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}})
		if err != nil || len(leases) != 1 {
			t.Fatal(leases, err)
		}
		all := named(spans, "tools/call work_propose")
		s := all[len(all)-1]
		if want := "00-" + s.SpanContext().TraceID().String() + "-" + s.SpanContext().SpanID().String() + "-01"; leases[0].TraceParent != want {
			t.Errorf("%s: the task has %q, not the span %q", typ, leases[0].TraceParent, want)
		}
		if below := s.Parent().SpanID().String() == spanID; below != (typ == "good") {
			t.Errorf("%s: the span is below %v", typ, s.Parent())
		}
	}
}
