package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/server"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// agent is an MCP client in a test, of a server over a database of its own.
type agent struct {
	*testing.T
	p       *pawltest.Pawl
	session *sdk.ClientSession
	shapes  map[string]*schema.Schema // of answers, by tool
}

// doors are the ways in.
var doors = map[string]func(t *testing.T, p *pawltest.Pawl) sdk.Transport{
	"stdio": func(t *testing.T, p *pawltest.Pawl) sdk.Transport {
		return pipe(t, p.Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll})
	},
	"http": func(t *testing.T, p *pawltest.Pawl) sdk.Transport {
		return &sdk.StreamableClientTransport{Endpoint: serve(t, p.Service) + "/mcp"}
	},
	"stdio of a client": func(t *testing.T, p *pawltest.Pawl) sdk.Transport {
		return pipe(t, client.New(serve(t, p.Service), ""), mcp.Options{Log: quiet, WithKey: client.WithKey, Tools: mcp.ToolsAll})
	},
}

// serve is a whole server, as pawl serve has it.
func serve(t *testing.T, svc pawl.Service) string {
	t.Helper()
	srv := httptest.NewServer(server.New(svc, server.Options{Log: quiet,
		At: map[string]http.Handler{"/mcp": mcp.New(svc, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}).HTTP()}}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func pipe(t *testing.T, svc pawl.Service, o mcp.Options) sdk.Transport {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcp.New(svc, o).Stdio(context.Background(), in, out) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		if err := <-done; err != nil {
			t.Errorf("stdio ended: %v", err)
		}
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
}

// each runs a test through every door on every database.
func each(t *testing.T, hooks pawl.Hooks, fn func(a agent)) {
	t.Helper()
	for _, which := range pawltest.Databases {
		for name, door := range doors {
			t.Run(string(which)+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"report": hooks}})
				fn(connect(t, p, door(t, p)))
			})
		}
	}
}

func connect(t *testing.T, p *pawltest.Pawl, over sdk.Transport) agent {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, nil).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	a := agent{t, p, session, map[string]*schema.Schema{}}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.OutputSchema == nil {
			continue
		}
		raw, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var bad []pawl.Field
		if a.shapes[tool.Name], bad = schema.Compile(raw); bad != nil {
			t.Fatalf("%s: %v", tool.Name, bad)
		}
	}
	return a
}

// answer is what a tool answered: every member that some tool has.
type answer struct {
	Task     pawl.Task
	Item     pawl.Item
	Part     pawl.ItemPart
	Items    []json.RawMessage
	Parts    []pawl.ItemPart
	Messages []pawl.Message
	Steps    map[string]pawl.Checkpoint
	Error    *pawl.Failure
	Result   json.RawMessage
	Rules    json.RawMessage
	Sequence int64
	Next     cursor
	Reason   string
	Detail   string
	Command  string
	TimedOut bool `json:"timed_out"`

	NextItems    string `json:"next_items"`
	NextMessages string `json:"next_messages"`
	Text         string
	Bytes        int

	Problem struct {
		Code      pawl.Code
		Errors    []pawl.Field
		State     string
		Allowed   []string
		Holder    string
		Attempt   int
		Reason    string
		Retryable bool
	}
	text     string
	raw      string // of an answer, its JSON
	replayed bool
}

// cursor is a cursor of a list. The offset of work_read is none.
type cursor string

func (c *cursor) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(c))
	}
	return nil
}

type args = map[string]any

// call calls a tool; its answer must fit the schema that the tool declares,
// whether it is one or a refusal.
func (a agent) call(name string, in args, meta ...string) (out answer, refused bool) {
	a.Helper()
	params := &sdk.CallToolParams{Name: name, Arguments: in}
	if len(meta) > 0 {
		params.Meta = sdk.Meta{mcp.KeyMeta: meta[0]}
	}
	res, err := a.session.CallTool(a.Context(), params)
	if err != nil {
		a.Fatalf("%s: %v", name, err)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		a.Fatal(err)
	}
	if bad := a.shapes[name].Check(raw); bad != nil {
		a.Fatalf("%s answered %s\nwhich its schema does not allow: %v", name, raw, bad)
	}
	if len(res.Content) != 1 {
		a.Fatalf("%s: %d contents", name, len(res.Content))
	}
	out.text = res.Content[0].(*sdk.TextContent).Text
	if len(out.text) > pawl.MaxMCPAnswer {
		a.Errorf("%s %v: the answer has %d bytes", name, in, len(out.text))
	}
	if !res.IsError {
		raw = json.RawMessage(out.text) // the SDK's client reads structured numbers as floats
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		a.Fatal(err)
	}
	out.raw = string(raw)
	out.replayed = res.Meta[mcp.ReplayedMeta] == true
	return out, res.IsError
}

func (a agent) ok(name string, in args, meta ...string) answer {
	a.Helper()
	out, refused := a.call(name, in, meta...)
	if refused {
		a.Fatalf("%s %v is refused: %s", name, in, out.text)
	}
	return out
}

// no wants a refusal of a code whose text holds some words.
func (a agent) no(code pawl.Code, words string, name string, in args, meta ...string) answer {
	a.Helper()
	out, refused := a.call(name, in, meta...)
	if !refused || out.Problem.Code != code || !strings.Contains(out.text, words) {
		a.Fatalf("%s %v: %s\nwant %s: … %s …", name, in, out.text, code, words)
	}
	return out
}

// checkout takes one item and gives its lease as arguments.
func (a agent) checkout(worker, task string) (pawl.Lease, args) {
	a.Helper()
	out := a.ok("work_checkout", args{"worker_id": worker, "task_id": task})
	if len(out.Items) != 1 {
		a.Fatalf("checked out %d items", len(out.Items))
	}
	var l pawl.Lease
	if err := json.Unmarshal(out.Items[0], &l); err != nil {
		a.Fatal(err)
	}
	return l, args{"item_id": l.ID, "worker_id": worker, "attempt": l.Attempt}
}

// with is some arguments and others.
func with(lease args, more ...any) args {
	out := args{}
	for k, v := range lease {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// events are the names on a task's record, oldest first.
// A call with an idempotency key is one call, whether its ids are texts or UUIDs.
func TestACallInEitherFormIsOneCall(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		task := a.ok("work_propose", args{"type": "uuids"}).Task.ID
		b, err := ulid.ParseStrict(task[len("tsk_"):])
		if err != nil {
			a.Fatal(err)
		}
		uuid := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		if got := a.ok("work_get", args{"task_id": uuid}); got.Task.ID != task {
			a.Errorf("%+v", got)
		}
		first := a.ok("work_cancel", args{"task_id": uuid, "item_ids": []string{uuid}}, "k")
		again := a.ok("work_cancel", args{"task_id": task, "item_ids": []string{"itm_" + task[len("tsk_"):]}}, "k")
		if first.Task.ID != task || again.text != first.text { // a second cancel would be refused
			a.Errorf("%s\n%s", first.text, again.text)
		}
	})
}

func (a agent) events(task string) string {
	a.Helper()
	var names []string
	for _, raw := range a.ok("work_logs", args{"task_id": task, "asc": true, "limit": 100}).Items {
		var e pawl.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			a.Fatal(err)
		}
		names = append(names, e.Event)
	}
	return strings.Join(names, " ")
}
