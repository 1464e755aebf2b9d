package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/nearest"
)

// TaskTool is a tool whose calls are tasks. Clients that declare the extension get the
// task and read its result later; for others the call waits for the result, at most
// 25 s. Callers need the roles submitter and reader.
type TaskTool struct {
	// Tool should declare no output schema: some clients check a task against it.
	Tool *sdk.Tool
	// Required refuses clients without the extension.
	Required bool
	// Task returns the task of a call. If it returns a result instead, that is the
	// call's answer and no task is created, for example to ask for input first.
	Task func(ctx context.Context, req *sdk.CallToolRequest) (pawl.NewTask, *sdk.CallToolResult, error)

	wait func(args json.RawMessage) (time.Duration, error) // for clients without the extension; nil = defaultWait
}

// runRoles are the roles to create a task and read its result.
var runRoles = []api.Role{api.Submitter, api.Reader}

// AddTaskTool adds a tool whose calls are tasks of this service.
func (s *Server) AddTaskTool(t TaskTool) {
	s.needs(t.Tool.Name, runRoles...)
	s.sdk.AddTool(t.Tool, func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
		own := tool{Tool: api.Tool{Name: t.Tool.Name}, route: api.RouteOf("create_task")}
		defer func() {
			if v := recover(); v != nil {
				res = s.refused(ctx, own, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		ctx, end := s.traced(ctx, t.Tool.Name, req.Params.Meta)
		defer func() { end(err) }()
		declared := extended(req.ClientCapabilities())
		if t.Required && !declared {
			return nil, unextended()
		}
		if ctx, err = s.admit(ctx, own.Name, req.Params.Arguments, runRoles...); err != nil {
			return s.refused(ctx, own, err), nil
		}
		ctx = s.asAgent(ctx, api.Submitter, req.ClientInfo())
		var p pawl.Provenance
		if ctx, p, err = withProvenance(ctx, req.ClientInfo(), req.Params.Meta); err != nil {
			return s.refused(ctx, own, err), nil
		}
		long := defaultWait
		if t.wait != nil {
			if long, err = t.wait(req.Params.Arguments); err != nil {
				return s.refused(ctx, own, err), nil
			}
		}
		if id, again := strings.CutPrefix(req.Params.RequestState, stateOfTask); again { // with answers to the task's questions
			return s.inline(ctx, own, req, id, long), nil
		}
		made, res, err := t.Task(ctx, req)
		if res != nil && err == nil {
			return res, nil
		}
		var task pawl.Task
		if err == nil {
			task, err = s.make(ctx, own, caller(ctx, req.Params.Arguments, p), req, made)
		}
		if err != nil {
			return s.refused(ctx, own, err), nil
		}
		if h, ok := ctx.Value(handleKey{}).(*handled); ok && declared {
			h.answer = handleOf(task)
			return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
		}
		return s.inline(ctx, own, req, task.ID, long), nil
	})
}

// make creates the task of a call, once for its idempotency key.
func (s *Server) make(ctx context.Context, own tool, who string, req *sdk.CallToolRequest, made pawl.NewTask) (pawl.Task, error) {
	key, err := keyOf(req.Params.Meta)
	if err != nil {
		return pawl.Task{}, err
	}
	if key == "" {
		return pawl.Create(ctx, s.svc, made)
	}
	own.run = func(ctx context.Context, s *Server, _ json.RawMessage) (any, error) {
		task, err := pawl.Create(ctx, s.svc, made)
		return &task, err
	}
	var task pawl.Task
	raw, _, err := s.once(ctx, own, who, key, req.Params.Arguments)
	if err == nil {
		err = json.Unmarshal(raw, &task)
	}
	return task, err
}

// stateOfTask begins the request state of a call whose task asks its client.
const stateOfTask = "pawl task "

// inline waits for a task, for a client that cannot read it later. Its questions are asked of
// the client, who makes the call again with the answers and the id of the task.
func (s *Server) inline(ctx context.Context, own tool, req *sdk.CallToolRequest, id string, long time.Duration) *sdk.CallToolResult {
	defer s.reportProgress(ctx, req)()
	if err := s.takeAnswers(ctx, req, id); err != nil {
		return s.refused(ctx, own, err)
	}
	waiting, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	waiting, over, err := s.longCall(waiting)
	if err != nil {
		return s.refused(ctx, own, err)
	}
	defer over()
	var d *durable
	var failed error
	err = pawl.AwaitTask(waiting, s.svc, id, func(context.Context) (bool, error) {
		if d, failed = s.readDurable(ctx, &durableParams{TaskID: id}); failed != nil {
			return false, failed
		}
		return d.Result != nil || d.Error != nil || atRest(d), nil
	})
	if failed == nil && waiting.Err() == nil {
		failed = err
	}
	switch {
	case failed != nil:
		return s.refused(ctx, own, failed)
	case d.Result != nil:
		return d.Result
	case d.Error != nil:
		return s.refused(ctx, own, &pawl.Error{Code: pawl.CodeConflict, Message: d.Error.Message})
	}
	if asks := s.asks(ctx, req, d); len(asks) > 0 {
		return &sdk.CallToolResult{InputRequests: asks, RequestState: stateOfTask + id}
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Task " + id + " is " + d.Status +
		". Ask after it with work_wait and work_get."}}}
}

// handled carries the task that a call is to be answered with, because the SDK's result
// has no member for it.
type handled struct{ answer *durable }

type handleKey struct{}

func (s *Server) handles(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "tools/call" {
			return next(ctx, method, req)
		}
		h := &handled{}
		res, err := next(context.WithValue(ctx, handleKey{}, h), method, req)
		if err == nil && h.answer != nil {
			return h.answer, nil
		}
		var wrong *jsonrpc.Error
		if call, ok := req.(*sdk.CallToolRequest); ok && errors.As(err, &wrong) && wrong.Code == jsonrpc.CodeInvalidParams {
			wrong.Message += s.meantTool(ctx, call.Params.Name)
		}
		return res, err
	}
}

// meantTool asks which of the caller's tools is meant by a name that no tool has; "" = none is near.
func (s *Server) meantTool(ctx context.Context, name string) string {
	if _, there := s.roles.Load(name); there {
		return ""
	}
	var known []string
	s.roles.Range(func(tool, roles any) bool {
		if !s.denies(ctx, tool.(string), roles.([]api.Role)) {
			known = append(known, tool.(string))
		}
		return true
	})
	slices.Sort(known)
	return nearest.Question(name, known)
}

type runIn struct {
	proposeIn
	WaitSeconds *int `json:"wait_seconds,omitempty" jsonschema:"0 to 50; 25 by default; more counts as 50"`
}

// runs is Pawl's own task tool: a task from its creation to its result.
func (s *Server) runs() {
	in := inputOf[runIn]()
	destructive, world := false, false
	s.AddTaskTool(TaskTool{
		Tool: &sdk.Tool{
			Name:  "work_run",
			Title: "Have work done",
			Description: "Propose a task and have what it comes to, in one call: work_propose and work_wait for clients that know durable tasks. " +
				"Others wait for wait_seconds, then get the task's id.",
			InputSchema: in.raw,
			Annotations: &sdk.ToolAnnotations{Title: "Have work done", DestructiveHint: &destructive, OpenWorldHint: &world},
		},
		Task: func(_ context.Context, req *sdk.CallToolRequest) (pawl.NewTask, *sdk.CallToolResult, error) {
			var p runIn
			err := in.read(req.Params.Arguments, &p)
			return p.task(), nil, err
		},
		wait: func(args json.RawMessage) (time.Duration, error) {
			var p runIn
			if err := in.read(args, &p); err != nil {
				return 0, err
			}
			return waitOf(p.WaitSeconds)
		},
	})
}
