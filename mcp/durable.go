package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// TasksExtension is the extension (SEP-2663) by which a call is answered with a durable
// task, to be read with tasks/get. Such a task is a Pawl task with its own id: it exists
// before the call is answered, and survives a crash.
const TasksExtension = "io.modelcontextprotocol/tasks"

const (
	keptMS = int64(24 * time.Hour / time.Millisecond) // how long a task can be asked after at least: ended ones are kept longer
	pollMS = int64(500)
)

// The statuses of a durable task.
const (
	working       = "working"
	inputRequired = "input_required"
	completed     = "completed"
	failed        = "failed"
	cancelled     = "cancelled"
)

// durable is a Pawl task in the form of the extension.
type durable struct {
	sdk.ResultBase
	ResultType     string              `json:"resultType"` // task: the answer to a call; complete: to tasks/get
	TaskID         string              `json:"taskId"`
	Status         string              `json:"status"`
	StatusMessage  string              `json:"statusMessage,omitempty"`
	CreatedAt      time.Time           `json:"createdAt"`
	LastUpdatedAt  time.Time           `json:"lastUpdatedAt"`
	TTLMs          int64               `json:"ttlMs"`
	PollIntervalMs int64               `json:"pollIntervalMs"`
	Result         *sdk.CallToolResult `json:"result,omitempty"`
	Error          *wireError          `json:"error,omitempty"`
	InputRequests  sdk.InputRequestMap `json:"inputRequests,omitempty"`
}

type wireError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// ack is an empty answer.
type ack struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

type durableParams struct {
	sdk.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// extend registers the methods of the extension.
func (s *Server) extend() {
	s.sdk.AddReceivingMiddleware(s.handles, s.lists)
	method(s, "tasks/get", api.Reader, s.readDurable)
	method(s, "tasks/update", api.Reader, func(ctx context.Context, p *durableParams) (*ack, error) {
		return &ack{ResultType: "complete"}, s.answerDurable(ctx, p)
	})
	method(s, "tasks/cancel", api.Submitter, func(ctx context.Context, p *durableParams) (*ack, error) {
		_, err := one(s.svc.CancelTasks(ctx, []pawl.TaskCall{{TaskID: p.TaskID}}))
		if errors.Is(err, pawl.ErrConflict) { // it has ended: what was asked for holds
			err = nil
		}
		return &ack{ResultType: "complete"}, err
	})
}

// method registers a method for clients that declared the extension.
func method[R sdk.Result](s *Server, name string, role api.Role, fn func(context.Context, *durableParams) (R, error)) {
	err := sdk.AddReceivingCustomMethod(s.sdk, name, func(ctx context.Context, ss *sdk.ServerSession, p *durableParams) (out R, err error) {
		var client *sdk.Implementation
		var caps *sdk.ClientCapabilities
		if init := ss.InitializeParams(); init != nil {
			client, caps = init.ClientInfo, init.Capabilities
		}
		if !extended(caps) {
			return out, unextended()
		}
		if ctx, err = s.admit(ctx, name, nil, role); err == nil && role == api.Reader {
			var end func()
			if end, err = s.opts.Gate.BeginRead(ctx); err == nil {
				defer end()
			}
		}
		if err == nil {
			ctx, _, err = withProvenance(s.asAgent(ctx, role, client), client, nil)
		}
		if err == nil {
			out, err = fn(ctx, p)
		}
		if err != nil {
			var none R
			return none, s.undone(ctx, name, err)
		}
		return out, nil
	})
	if err != nil {
		panic("mcp: " + err.Error()) // a name of ours
	}
}

// undone converts an error to the protocol's form; an unknown task is an invalid
// parameter.
func (s *Server) undone(ctx context.Context, what string, err error) error {
	p := api.ProblemOf(err, "")
	code := int64(jsonrpc.CodeInvalidParams)
	if p.Code == pawl.CodeInternal || p.Code == pawl.CodeUnavailable {
		s.opts.Log.ErrorContext(ctx, "a method of tasks", "method", what, "error", err)
		code = jsonrpc.CodeInternalError
	}
	data, _ := json.Marshal(problemOf(p, err)) // a problem always encodes
	return &jsonrpc.Error{Code: code, Message: sentence(p), Data: data}
}

func extended(caps *sdk.ClientCapabilities) bool {
	if caps == nil {
		return false
	}
	_, ok := caps.Extensions[TasksExtension]
	return ok
}

func unextended() error {
	caps := &sdk.ClientCapabilities{}
	caps.AddExtension(TasksExtension, map[string]any{})
	data, _ := json.Marshal(sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: caps}) // always encodes
	return &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "this needs the extension " + TasksExtension, Data: data}
}

func (s *Server) readDurable(ctx context.Context, p *durableParams) (*durable, error) {
	t, err := s.svc.GetTask(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	d := handleOf(t)
	d.ResultType = "complete"
	switch t.State {
	case pawl.TaskCancelled:
		d.Status = cancelled
	case pawl.TaskSubmitted:
		d.Status, d.InputRequests = inputRequired, sdk.InputRequestMap{approval: approvalOf(t)}
	case pawl.TaskCompleted, pawl.TaskFailed, pawl.TaskDeadLettered, pawl.TaskRejected:
		err = s.outcome(ctx, t, d)
	default:
		if d.InputRequests, err = s.pending(ctx, t.ID); len(d.InputRequests) > 0 {
			d.Status = inputRequired
		}
	}
	if access.Of(ctx).Hides(api.RouteOf("task_result")) {
		d.hidePayloads()
	}
	return d, err
}

// hidePayloads removes payloads: the questions and the result.
func (d *durable) hidePayloads() {
	maps.DeleteFunc(d.InputRequests, func(key string, _ sdk.InputRequest) bool { return key != approval })
	if d.Result != nil && !d.Result.IsError {
		d.Result = &sdk.CallToolResult{Meta: sdk.Meta{PayloadsMeta: "hidden"},
			Content: []sdk.Content{&sdk.TextContent{Text: "What it came to is a payload, which this API key does not read."}}}
	}
}

// handleOf returns a task in the form in which a call is answered with it.
func handleOf(t pawl.Task) *durable {
	return &durable{ResultType: "task", TaskID: t.ID, Status: working, StatusMessage: t.Stage, CreatedAt: t.CreatedAt,
		LastUpdatedAt: t.UpdatedAt, TTLMs: keptMS, PollIntervalMs: pollMS}
}

// panicked is the code of a failure by a panic.
const panicked = "panic"

// outcome adds a task's result. If the worker reported that it could not do the work,
// that is the result; if it crashed, the task failed.
func (s *Server) outcome(ctx context.Context, t pawl.Task, d *durable) error {
	d.Status = completed
	switch {
	case t.State == pawl.TaskCompleted:
		r, err := s.svc.TaskResult(ctx, t.ID)
		if err != nil {
			return err
		}
		d.Result = resultOf(t.ID, r.Payload)
	case t.Error != nil && t.Error.Code == panicked:
		d.Status, d.Error = failed, &wireError{jsonrpc.CodeInternalError, t.Error.Message}
	default:
		why := "The task is " + string(t.State) + "."
		if t.Error != nil {
			why = t.Error.Message
		}
		d.Result = &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: why}}}
	}
	return nil
}

// resultOf returns the result of a task as a tool's: a text as it is, other values as JSON. Of
// a large one it is the beginning, and says how to read the rest.
func resultOf(task string, payload json.RawMessage) *sdk.CallToolResult {
	text := textOf(payload)
	head := upTo(text, pawl.MaxMCPAnswer-noteBytes)
	out := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: head}}}
	if len(head) < len(text) {
		about, _ := encode(map[string]string{"task_id": task}) // texts and numbers always encode
		rest, _ := encode(readIn{Tool: "work_get", Arguments: about, Path: "/result", Offset: len(head)})
		out.Meta = sdk.Meta{CutMeta: 1}
		out.Content = append(out.Content, &sdk.TextContent{Text: fmt.Sprintf(
			"Cut: these are the first %d of %d bytes. Read the rest with %s and the arguments %s", len(head), len(text), readTool, rest)})
	}
	return out
}

// approval returns the question that a submitted task asks.
const approval = "approval"

func approvalOf(t pawl.Task) *sdk.ElicitParams {
	name := t.Title
	if name == "" {
		name = t.ID
	}
	schema := fmt.Sprintf(`{
		"type": "object", "required": ["decision"], "properties": {
		"decision": {"type": "string", "enum": ["approve", "rework", "reject"], "description": "rework sends it back with your comment"},
		"comment": {"type": "string", "description": "why"},
		"version": {"type": "integer", "default": %d, "description": "of the task that is decided about: leave it as it is"}}}`, t.Version)
	return &sdk.ElicitParams{Mode: "form", Message: "Approve " + name + " (" + t.Type + ")? work_get shows what was handed in.",
		RequestedSchema: json.RawMessage(schema)}
}

// answerDurable takes a client's answers to the questions of a task; keys without a
// question are ignored.
func (s *Server) answerDurable(ctx context.Context, p *durableParams) error {
	t, err := s.svc.GetTask(ctx, p.TaskID)
	if err != nil {
		return err
	}
	if t.State == pawl.TaskSubmitted {
		if raw, ok := p.InputResponses[approval]; ok {
			return s.decide(ctx, t, raw)
		}
		return nil
	}
	open, err := s.pending(ctx, t.ID)
	if err != nil || len(open) == 0 {
		return err
	}
	if err = s.may(ctx, "tasks/update", api.Submitter); err != nil {
		return err
	}
	for key, raw := range p.InputResponses {
		if _, asked := open[key]; asked {
			if err := s.answer(ctx, t.ID, key, raw); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) decide(ctx context.Context, t pawl.Task, raw json.RawMessage) (err error) {
	var said struct {
		Action  string
		Content struct {
			Decision, Comment string
			Version           *int
		}
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return pawl.Invalid("/inputResponses/"+approval, "is no answer: %v", err)
	}
	if said.Action != "accept" {
		return nil // not decided
	}
	if err = s.may(ctx, "tasks/update", api.Approver); err != nil {
		return err
	}
	seen := said.Content.Version
	if seen == nil { // the client left it out: at least what was read here
		seen = &t.Version
	}
	why := said.Content.Comment
	if why == "" {
		why = "not approved"
	}
	reject := pawl.RejectCall{TaskID: t.ID, Version: seen, Errors: []pawl.Complaint{{Code: "rejected", Message: why}}}
	switch decision := said.Content.Decision; {
	case decision == "approve":
		_, err = one(s.svc.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: t.ID, Version: seen, Comment: said.Content.Comment}}))
	case decision == "reject", decision == "rework":
		reject.AllowRework = decision == "rework"
		_, err = one(s.svc.RejectTasks(ctx, []pawl.RejectCall{reject}))
	default:
		err = pawl.Invalid("/inputResponses/"+approval+"/content/decision", "is to be approve, rework or reject")
	}
	return err
}

// atRest reports whether only a person or a client can change the task.
func atRest(d *durable) bool {
	return slices.Contains([]string{completed, failed, cancelled, inputRequired}, d.Status)
}
