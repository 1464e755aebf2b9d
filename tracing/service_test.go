package tracing_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/tracing"
	"github.com/pawl-work/pawl/worker"
)

// A task keeps the trace context of the HTTP request that creates it, whether the server makes
// spans or not. What is malformed refuses nothing, and baggage is not stored.
func TestATaskKeepsTheContextOfItsRequest(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			srv := httptest.NewServer(server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler)}))
			defer srv.Close()
			for name, c := range map[string]struct {
				header        http.Header
				parent, state string
				payload       string
			}{
				"one item":   {http.Header{"Traceparent": {parent}, "Tracestate": {"a=1,b=2"}}, parent, "a=1,b=2", `"payload":{}`},
				"many items": {http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}}, parent, "a=1", `"items":[{"input":1},{"input":2}]`},
				"malformed":  {http.Header{"Traceparent": {"00-nonsense"}, "Tracestate": {"a=1"}}, "", "", `"payload":{}`},
				"huge state": {http.Header{"Traceparent": {parent}, "Tracestate": {"a=" + strings.Repeat("x", 5000)}}, parent, "", `"payload":{}`},
				"two":        {http.Header{"Traceparent": {parent, parent}}, "", "", `"payload":{}`},
				"baggage":    {http.Header{"Traceparent": {parent}, "Baggage": {"user=ana"}}, parent, "", `"payload":{}`},
				"none":       {nil, "", "", `"payload":{}`},
			} {
				typ := strings.ReplaceAll(name, " ", "-")
				req, err := http.NewRequest("POST", srv.URL+"/v1/tasks", strings.NewReader(`{"type":"`+typ+`",`+c.payload+`}`))
				if err != nil {
					t.Fatal(err)
				}
				if c.header != nil {
					req.Header = c.header.Clone()
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := srv.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != http.StatusCreated {
					t.Errorf("%s: %s", name, res.Status)
					continue
				}
				leases, err := p.Service.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w1", Types: []string{typ}, Limit: 10})
				if err != nil || len(leases) == 0 {
					t.Fatalf("%s: %v %v", name, leases, err)
				}
				for _, l := range leases {
					if l.TraceParent != c.parent || l.TraceState != c.state {
						t.Errorf("%s: the lease has %q %q", name, l.TraceParent, l.TraceState)
					}
				}
				events, err := p.Service.ListEvents(context.Background(), pawl.EventFilter{TaskID: leases[0].TaskID})
				if err != nil || len(events.Items) < 2 {
					t.Fatalf("%s: %v %v", name, events, err)
				}
				for _, e := range events.Items {
					if e.TraceParent != c.parent || e.TraceState != c.state || strings.Contains(string(e.Data), "ana") {
						t.Errorf("%s: the event %s has %q %q", name, e.Event, e.TraceParent, e.TraceState)
					}
				}
			}
		})
	}
}

// recorder keeps spans.
func recorder() (*tracetest.SpanRecorder, trace.TracerProvider) {
	r := tracetest.NewSpanRecorder()
	return r, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithIDGenerator(tracing.IDs{}))
}

// named returns the ended spans of a name.
func named(r *tracetest.SpanRecorder, name string) (out []sdktrace.ReadOnlySpan) {
	for _, s := range r.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// attributes returns the attributes of a span by name.
func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// scripted is a model that calls a tool and then answers.
type scripted struct{}

func (scripted) Name() string     { return "scripted-1" }
func (scripted) Provider() string { return "openai" }

func (scripted) Stream(_ context.Context, r agent.Request, emit func(agent.Part) error) (agent.End, error) {
	usage := agent.Usage{Input: 11, Output: 5}
	if len(r.Messages) > 1 {
		return agent.End{Finish: "stop", Usage: usage}, emit(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: "done"}})
	}
	return agent.End{Finish: "tool_calls", Usage: usage},
		emit(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "call_1", ToolName: "look", Input: json.RawMessage(`{}`)}})
}

// Turns of a model and calls of tools are spans of the attempt's trace, with the attributes of the
// conventions and what was settled.
func TestTurnsOfAModelAreSpans(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.SQLite)
	spans, tp := recorder()
	ctx := context.Background()
	if _, err := p.Engine.PutBudget(ctx, "llm", pawl.NewBudget{Unit: "tokens", Limit: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.Create(tracing.Remote(ctx, parent, ""), p.Service, pawl.NewTask{Type: "chat"}); err != nil {
		t.Fatal(err)
	}
	look := agent.Func("look", "looks", "", func(context.Context, struct{}) (string, error) { return "seen", nil })
	loop := agent.Loop{Model: scripted{}, Tools: []agent.Tool{look}}
	do := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		if _, err := loop.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, "hello")}); err != nil {
			return nil, err
		}
		for range 2 {
			r, err := pawl.Reserve(ctx, "llm", 10)
			if err != nil {
				return nil, err
			}
			if err := r.Settle(ctx, 8); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(`{}`), nil
	}
	o := worker.Options{Drain: true, TracerProvider: tp, Logger: slog.New(slog.DiscardHandler)}
	if err := worker.RunWith(ctx, p.Service, o, worker.Handler{Type: "chat", Do: do}); err != nil {
		t.Fatal(err)
	}
	attempt, turns, tools := named(spans, "process chat"), named(spans, "chat scripted-1"), named(spans, "execute_tool look")
	if len(attempt) != 1 || len(turns) != 2 || len(tools) != 1 {
		t.Fatalf("%d attempts, %d turns, %d tools", len(attempt), len(turns), len(tools))
	}
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID().String() != traceID {
			t.Errorf("%s is not in the trace", s.Name())
		}
	}
	got := attributes(turns[0])
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted-1",
		"gen_ai.usage.input_tokens": "11", "gen_ai.usage.output_tokens": "5", "gen_ai.response.finish_reasons": `["tool_calls"]`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, not %q", name, got[name], want)
		}
	}
	if got := attributes(tools[0]); got["gen_ai.tool.name"] != "look" || got["gen_ai.tool.call.id"] != "call_1" {
		t.Errorf("the tool has %v", got)
	}
	if got := attributes(attempt[0]); got["pawl.cost.llm"] != "16" || got["pawl.outcome"] != "completed" {
		t.Errorf("the attempt has %v", got)
	}
	if s := turns[0]; s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != named(spans, "step turn:1")[0].SpanContext().SpanID() {
		t.Errorf("the turn is a %v below %v", s.SpanKind(), s.Parent())
	}
}

// A sampler that keeps nothing makes no span, and the context goes on, marked as not sampled.
func TestWithoutSamplingTheContextGoesOn(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.NeverSample()))
	p := pawltest.OpenReal(t, pawltest.SQLite)
	srv := httptest.NewServer(server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler), TracerProvider: tp}))
	defer srv.Close()
	c := client.NewWith(srv.URL, "", client.Options{Header: tracing.Inject})
	ctx := tracing.Remote(context.Background(), parent, "")
	if _, err := pawl.Create(ctx, c, pawl.NewTask{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	leases, err := c.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"t"}})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	got := leases[0].TraceParent
	if !strings.HasPrefix(got, "00-"+traceID+"-") || !strings.HasSuffix(got, "-00") || strings.Contains(got, spanID) {
		t.Errorf("the task has %q", got)
	}
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("there are %d spans", n)
	}
}

// mustParse returns the creator's span context.
func mustParse() trace.SpanContext { return tracing.Parse(parent, "") }
