package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// tool is one row of the tools.
type tool struct {
	name, title string
	route       string // of api.Routes: the tool needs its role and does what it does
	hints       hint
	means       string // for the model that is to choose it
	verb
}

// hint is what a client may presume of a tool.
type hint int

const (
	reads    hint = 1 << iota // changes nothing
	repeats                   // called again with the same arguments it changes nothing more
	destroys                  // what it does cannot be taken back
)

// tools is the table of tools.
var tools = sync.OnceValue(func() []tool {
	return []tool{
		{"work_propose", "Propose a task", "create_task", 0, "Ask for work: creates a task of a type with a payload. Without items it has one item whose input is the payload.", of(propose)},
		{"work_list", "List tasks", "list_tasks", reads, "List tasks, newest first, by type, state or status. State submitted waits for a decision; available: true has items to check out.", of(list)},
		{"work_get", "Read a task", "get_task", reads, "Read a task with its items, what is said about it so far, the rules of its type (what a good result is) and, once it has completed, its result; or one item.", of(get)},
		{"work_checkout", "Check out work", "claim", 0, "Take items to work on under a lease: of a task, of certain types, or anywhere. No items means that there is nothing to do now.", of(checkout)},
		{"work_heartbeat", "Keep a lease", "heartbeat", repeats, "Extend your lease on an item. cancelled: true means stop, nobody wants it any more.", of(heartbeat)},
		{"work_progress", "Report progress", "progress", repeats, "Say how far you are: progress in percent, stage in a few words.", of(progress)},
		{"work_checkpoint", "Save a checkpoint", "checkpoint", 0, "Save where you are, so that another attempt can go on from there; what has a name is found by it in work_resume.", of(checkpoint)},
		{"work_resume", "Read where to go on", "resume_item", reads, "Read what earlier attempts at an item left: newest checkpoints, named steps, parts, the last error or the reasons of a rejection.", of(resume)},
		{"work_submit", "Submit a result", "submit", repeats, "Hand in an item's whole result, to be accepted with its task. What does not fit the type's schema is refused with JSON Pointers; the lease stays yours.", of(submit)},
		{"work_submit_part", "Submit a part", "submit_part", repeats, "Hand in a piece of an item's result, checked against the schema of its key. A later part of the same key and seq takes its place.", of(submitPart)},
		{"work_list_parts", "List parts", "item_parts", reads, "List the pieces of an item's result that were handed in, with their status and what was wrong with them.", of(listParts)},
		{"work_finalize", "Finalize parts", "finalize", repeats, "Put an item's parts together and submit what comes of it.", of(finalize)},
		{"work_complete", "Complete an item", "complete", repeats, "Hand in the result of an item whose type asks for no acceptance, and end it.", of(complete)},
		{"work_fail", "Fail an attempt", "fail", repeats, "Say that you could not do it and why. It is tried again by policy, unless retryable is false.", of(fail)},
		{"work_release", "Give an item back", "release", repeats, "Give an item back; it is not counted as a failure.", of(release)},
		{"work_wait", "Wait for a task", "get_task", reads, "Wait until a task awaits a decision, failed or ended, or the time is up. With after_version, until something was decided since.", of(wait)},
		{"work_approve", "Approve a task", "approve_task", repeats | destroys, "Approve a submitted task: its effect is applied, once.", of(approve)},
		{"work_reject", "Reject a task", "reject_task", repeats | destroys, "Reject a submitted task with reasons: for good, or with allow_rework, so that its items are worked on again and the next worker gets the reasons.", of(reject)},
		{"work_cancel", "Cancel a task", "cancel_task", repeats | destroys, "Cancel a task, or some of its items, for good. Whoever works on them learns by the next heartbeat.", of(cancel)},
		{"work_logs", "Read the record", "list_events", reads, "Read the record of a task or item: who did what, when and why, newest first.", of(logs)},
	}
})

// verb is what a tool takes, answers and does.
type verb struct {
	in, out *shape
	run     func(ctx context.Context, s *Server, args json.RawMessage) (any, error) // answers with a pointer
}

// of makes a verb of a function: its schemas are those of the function's types.
func of[I, O any](fn func(ctx context.Context, s *Server, in I) (O, error)) verb {
	v := verb{in: inputOf[I](), out: outputOf[O]()}
	v.run = func(ctx context.Context, s *Server, args json.RawMessage) (any, error) {
		var in I
		if err := v.in.read(args, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, s, in)
		return &out, err
	}
	return v
}

// describe is the tool as clients see it.
func (t tool) describe() *sdk.Tool {
	destructive, world := t.hints&destroys != 0, false
	return &sdk.Tool{
		Name:         t.name,
		Title:        t.title,
		Description:  t.means,
		InputSchema:  t.in.raw,
		OutputSchema: t.out.raw,
		Annotations: &sdk.ToolAnnotations{
			Title:           t.title,
			ReadOnlyHint:    t.hints&reads != 0,
			IdempotentHint:  t.hints&(reads|repeats) != 0,
			DestructiveHint: &destructive,
			OpenWorldHint:   &world,
		},
	}
}

// handle carries a tool's calls out. What goes wrong is the tool's answer, not
// the protocol's, so that the model reads it.
func (s *Server) handle(t tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, _ error) {
		defer func() {
			if v := recover(); v != nil { // the SDK has no net under its goroutines
				res = s.refused(ctx, t, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		answer, meta, err := s.call(ctx, t, req)
		if err != nil {
			return s.refused(ctx, t, err), nil
		}
		return &sdk.CallToolResult{Meta: meta, StructuredContent: answer, Content: []sdk.Content{&sdk.TextContent{Text: string(answer)}}}, nil
	}
}

func (s *Server) call(ctx context.Context, t tool, req *sdk.CallToolRequest) (answer json.RawMessage, meta sdk.Meta, err error) {
	route := api.RouteOf(t.route)
	if ctx, err = s.admit(ctx, t.name, req.Params.Arguments, route.Role); err != nil {
		return nil, nil, err
	}
	ctx = s.asAgent(ctx, route.Role, req.ClientInfo())
	key, err := keyOf(req.Params.Meta)
	var p pawl.Provenance
	if err == nil {
		ctx, p, err = vouched(ctx, req.ClientInfo(), req.Params.Meta)
	}
	if err != nil {
		return nil, nil, err
	}
	if key != "" && t.hints&reads == 0 {
		answer, replayed, err := s.once(ctx, t, caller(ctx, req.Params.Arguments, p), key, req.Params.Arguments)
		return answer, remarks(access.Of(ctx).Hides(t.route), replayed), err
	}
	out, err := t.run(ctx, s, req.Params.Arguments)
	if err != nil {
		return nil, nil, err
	}
	return shown(ctx, t.route, out)
}

// asAgent names a caller who has no name yet: whoever calls here is an agent. A
// worker's verbs name the worker by themselves.
func (s *Server) asAgent(ctx context.Context, role api.Role, client *sdk.Implementation) context.Context {
	c := pawl.CallerOf(ctx)
	if s.opts.Named || c.Key != "" || c.ActorType != "" {
		return ctx
	}
	c.ActorType = pawl.ActorAgent
	if c.ActorID == "" && role != api.Claimer && client != nil && len(client.Name) <= pawl.MaxIDLen {
		c.ActorID = client.Name
	}
	return pawl.As(ctx, c)
}

// refused is an error as a tool's answer: a sentence, and the problem whole.
func (s *Server) refused(ctx context.Context, t tool, err error) *sdk.CallToolResult {
	p := api.ProblemOf(err, "")
	switch {
	case p.Code == pawl.CodeInternal:
		s.opts.Log.ErrorContext(ctx, "internal error", slog.String("tool", t.name), slog.Any("error", detail(err)))
	case p.Code == pawl.CodeUnavailable && ctx.Err() == nil:
		s.opts.Log.WarnContext(ctx, "unavailable", slog.String("tool", t.name), slog.Any("error", detail(err)))
	}
	told, _ := encode(refusal{problemOf(p, err)}) // a problem always encodes
	return &sdk.CallToolResult{IsError: true, StructuredContent: told, Content: []sdk.Content{&sdk.TextContent{Text: sentence(p)}}}
}
