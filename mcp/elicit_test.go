package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// person is a client that can ask its user; asked counts the questions.
type person struct {
	says  func(*sdk.ElicitParams) *sdk.ElicitResult // nil = the client cannot ask
	asked atomic.Int32
	caps  *sdk.ClientCapabilities // beside what it can do
}

func (who *person) connect(t *testing.T, over sdk.Transport, revision string) agent {
	t.Helper()
	o := sdk.ClientOptions{Capabilities: who.caps}
	if who.says != nil {
		o.ElicitationHandler = func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			who.asked.Add(1)
			return who.says(req.Params), nil
		}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "asker", Version: "1"}, &o).
		Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return agent{T: t, session: session}
}

func saying(action string, content map[string]any) func(*sdk.ElicitParams) *sdk.ElicitResult {
	return func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: action, Content: content} }
}

// letters makes a type whose results need a decision, and a worker of it.
func letters(t *testing.T, svc pawl.Service) {
	t.Helper()
	rs, err := svc.PutTypes(t.Context(), []pawl.Type{{Name: "letter",
		Approval: pawl.Approval{Mode: pawl.ApprovalManual, NotByRequester: new(bool), NotByWorker: new(bool)}}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	hands(t, svc, worker.Handle("letter", func(context.Context, any) (string, error) { return "Dear Ann", nil }))
}

func (a agent) text(tool string, in args) string {
	a.Helper()
	res, err := a.session.CallTool(a.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
	a.must(err)
	if res.IsError || len(res.Content) == 0 {
		raw, _ := json.Marshal(res)
		a.Fatalf("%s: %s", tool, raw)
	}
	return res.Content[0].(*sdk.TextContent).Text
}

var bothRevisions = []string{"2025-11-25", "2026-07-28"}

// A client that knows no durable tasks is asked for the decision about what it has had done,
// and gets the result by the same call.
func TestAnApprovalIsElicited(t *testing.T) {
	t.Parallel()
	for _, revision := range bothRevisions {
		t.Run(revision, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				letters(t, p.Service)
				yes := person{says: func(q *sdk.ElicitParams) *sdk.ElicitResult {
					if !strings.HasPrefix(q.Message, "Approve tsk_") || !strings.Contains(q.Message, "(letter)") {
						t.Errorf("it is asked %q", q.Message)
					}
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve", "comment": "good"}}
				}}
				a := yes.connect(t, pipe(t, p.Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}), revision)
				if text := a.text("work_run", args{"type": "letter"}); text != "Dear Ann" {
					t.Errorf("%s", text)
				}
				l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{})
				if err != nil || len(l.Items) != 1 || l.Items[0].State != pawl.TaskCompleted || yes.asked.Load() != 1 {
					t.Errorf("asked %d times: %+v, %v", yes.asked.Load(), l.Items, err)
				}
				task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "letter"})
				a.must(err)
				if text := a.text("work_wait", args{"task_id": task.ID}); !strings.Contains(text, `"state":"completed"`) {
					t.Errorf("%s", text)
				}
			})
		})
	}
}

// Who declines has not decided. The call is answered, and nothing is asked a second time.
func TestADeclinedQuestionDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, revision := range bothRevisions {
		for _, action := range []string{"decline", "cancel"} {
			t.Run(revision+"/"+action, func(t *testing.T) {
				p := pawltest.Open(t, pawltest.SQLite)
				letters(t, p.Service)
				no := person{says: saying(action, nil)}
				a := no.connect(t, pipe(t, p.Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}), revision)
				if text := a.text("work_run", args{"type": "letter"}); !strings.Contains(text, "is input_required") {
					t.Errorf("%s", text)
				}
				l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{})
				if err != nil || l.Items[0].State != pawl.TaskSubmitted || no.asked.Load() != 1 {
					t.Fatalf("asked %d times: %+v, %v", no.asked.Load(), l.Items, err)
				}
				if text := a.text("work_wait", args{"task_id": l.Items[0].ID}); !strings.Contains(text, `"state":"submitted"`) || no.asked.Load() != 2 {
					t.Errorf("asked %d times: %s", no.asked.Load(), text)
				}
			})
		}
	}
}

// A client that could not answer is not asked: without the role, without elicitation, or with durable
// tasks, whose client reads the question itself.
func TestWhoIsNotAsked(t *testing.T) {
	t.Parallel()
	tasks := &sdk.ClientCapabilities{}
	tasks.AddExtension(mcp.TasksExtension, map[string]any{})
	for name, c := range map[string]struct {
		who *person
		set string
	}{
		"no role":        {&person{says: saying("accept", map[string]any{"decision": "approve"})}, mcp.ToolsWorker},
		"no elicitation": {&person{}, mcp.ToolsAll},
		"durable tasks":  {&person{says: saying("accept", map[string]any{"decision": "approve"}), caps: tasks}, mcp.ToolsAll},
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.SQLite)
			letters(t, p.Service)
			a := c.who.connect(t, pipe(t, p.Service, mcp.Options{Log: quiet, Tools: c.set}), "2026-07-28")
			task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "letter"})
			a.must(err)
			if text := a.text("work_wait", args{"task_id": task.ID}); !strings.Contains(text, `"state":"submitted"`) || c.who.asked.Load() > 0 {
				t.Errorf("asked %d times: %s", c.who.asked.Load(), text)
			}
		})
	}
}

// What a handler asks is elicited, too, over both ways in.
func TestAHandlersQuestionsAreElicited(t *testing.T) {
	t.Parallel()
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.SQLite)
			hands(t, p.Service, worker.Handle("trip", func(ctx context.Context, _ any) (string, error) {
				said, err := mcp.Ask(ctx, map[string]*sdk.ElicitParams{"where": {Mode: "form", Message: "Where to?",
					RequestedSchema: json.RawMessage(`{"type":"object","properties":{"town":{"type":"string"}}}`)}})
				if err != nil {
					return "", err
				}
				return said["where"].Content["town"].(string), nil
			}))
			who := person{says: saying("accept", map[string]any{"town": "Brno"})}
			a := who.connect(t, door(t, p), "2026-07-28")
			if text := a.text("work_run", args{"type": "trip"}); text != "Brno" || who.asked.Load() != 1 {
				t.Errorf("asked %d times: %s", who.asked.Load(), text)
			}
			task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "trip"})
			a.must(err)
			if text := a.text("work_wait", args{"task_id": task.ID}); !strings.Contains(text, `"state":"completed"`) || who.asked.Load() != 2 {
				t.Errorf("asked %d times: %s", who.asked.Load(), text)
			}
		})
	}
}

// An answer to a version of the task that has passed is refused, like that of an approver.
func TestAnElicitedDecisionIsAboutWhatWasSeen(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.SQLite)
	letters(t, p.Service)
	old := person{says: saying("accept", map[string]any{"decision": "approve", "version": 99})}
	a := old.connect(t, pipe(t, p.Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}), "2026-07-28")
	a.no(pawl.CodePrecondition, "changed since you looked", "work_run", args{"type": "letter"})
}
