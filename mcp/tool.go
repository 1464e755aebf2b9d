package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/idform"
)

// tool is a row of the table of tools in package api, with its implementation.
type tool struct {
	api.Tool
	route api.Route
	verb
}

// tools are the rows of the table of tools, in its order, with what implements them. Each
// file has the list of the tools that it implements.
var tools = sync.OnceValue(func() []tool {
	out, err := implemented(api.Routes, taskTools(), itemTools(), acceptTools(), derivedTools(), typeTools(), effectTools())
	if err != nil {
		panic(err) // the table and the lists are part of the program
	}
	return out
})

// implemented returns the tools of the routes with their implementations. Each tool must be
// in one row and in one list.
func implemented(routes []api.Route, lists ...map[string]verb) (out []tool, err error) {
	verbs := map[string]verb{}
	for _, list := range lists {
		for name, v := range list {
			if _, twice := verbs[name]; twice {
				return nil, fmt.Errorf("mcp: %s is implemented twice", name)
			}
			verbs[name] = v
		}
	}
	for _, r := range routes {
		for _, t := range r.Tools {
			v, found := verbs[t.Name]
			if !found {
				return nil, fmt.Errorf("mcp: %s has no implementation, or is twice in the table of tools", t.Name)
			}
			delete(verbs, t.Name)
			out = append(out, tool{t, r, v})
		}
	}
	for name := range verbs {
		return nil, fmt.Errorf("mcp: %s is not in the table of tools", name)
	}
	return out, nil
}

// verb is the input, the output and the implementation of a tool.
type verb struct {
	in, out *shape
	ids     *idform.Members                                                         // the ids in its arguments
	run     func(ctx context.Context, s *Server, args json.RawMessage) (any, error) // answers with a pointer
}

// of returns the verb of a function: its schemas are those of the function's types.
func of[I, O any](fn func(ctx context.Context, s *Server, in I) (O, error)) verb {
	v := verb{in: inputOf[I](), out: outputOf[O](), ids: idform.MembersOf(reflect.TypeFor[I](), "json")}
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

// describe returns the tool as clients see it.
func (t tool) describe() *sdk.Tool {
	var destructive *bool // says nothing of a tool that only reads
	world := false
	if t.Hints&api.ToolReads == 0 {
		destructive = new(t.Hints&api.ToolDestroys != 0)
	}
	return &sdk.Tool{
		Name:         t.Name,
		Title:        t.Title,
		Description:  t.Means,
		InputSchema:  t.in.raw,
		OutputSchema: t.out.raw,
		Annotations: &sdk.ToolAnnotations{
			Title:           t.Title,
			ReadOnlyHint:    t.Hints&api.ToolReads != 0,
			IdempotentHint:  t.Hints&(api.ToolReads|api.ToolRepeats) != 0,
			DestructiveHint: destructive,
			OpenWorldHint:   &world,
		},
	}
}

// handle executes a tool's calls. Errors are the tool's answer, not the protocol's, so
// that the model reads them.
func (s *Server) handle(t tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, _ error) {
		defer func() {
			if v := recover(); v != nil { // the SDK has no net under its goroutines
				res = s.refused(ctx, t, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		ctx, end := s.traced(ctx, t.Name, req.Params.Meta)
		res, err := s.call(ctx, t, req)
		end(err)
		if err != nil {
			return s.refused(ctx, t, err), nil
		}
		return res, nil
	}
}

func (s *Server) call(ctx context.Context, t tool, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	defer s.reportProgress(ctx, req)()
	ctx = delivered(ctx, req)
	args := json.RawMessage(t.ids.JSON(req.Params.Arguments))
	ctx, err := s.admit(ctx, t.Name, args, t.route.Role)
	if err != nil {
		return nil, err
	}
	if t.Hints&api.ToolReads != 0 && t.Name != waitTool { // a wait counts as a long call
		end, err := s.opts.Gate.BeginRead(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	ctx = s.asAgent(ctx, t.route.Role, req.ClientInfo())
	key, err := keyOf(req.Params.Meta)
	var p pawl.Provenance
	if err == nil {
		ctx, p, err = withProvenance(ctx, req.ClientInfo(), req.Params.Meta)
	}
	if err != nil {
		return nil, err
	}
	if key != "" && t.route.TakesKey() {
		answer, replayed, err := s.once(ctx, t, caller(ctx, args, p), key, args)
		if err != nil {
			return nil, s.advised(ctx, t, args, err)
		}
		return s.fitted(ctx, t, args, answer, remarks(access.Of(ctx).Hides(t.route), replayed)), nil
	}
	if t.Name == waitTool && askable(req) {
		ctx = context.WithValue(ctx, requestKey{}, req)
	}
	out, err := t.run(ctx, s, args)
	if err != nil {
		return nil, s.advised(ctx, t, args, err)
	}
	if w, ok := out.(*waitOut); ok && len(w.asks) > 0 {
		return &sdk.CallToolResult{InputRequests: w.asks}, nil
	}
	answer, meta, err := shown(ctx, t.route, out)
	if err != nil {
		return nil, err
	}
	return s.fitted(ctx, t, args, answer, meta), nil
}

// advised adds to a refusal which tool hands in the result, if the call used another one.
func (s *Server) advised(ctx context.Context, t tool, args json.RawMessage, err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeConflict && e.Code != pawl.CodeInvalid {
		return err
	}
	out := *e
	if want := s.otherTool(ctx, t.Name, args); want != "" {
		out.Message = strings.TrimPrefix(e.Message+"; the result of this item is handed in with "+want, "; ")
	} else if t.Name == finalizeTool && slices.ContainsFunc(e.Fields, ofPart) {
		out.Message = "hand in these parts with " + submitPartTool + ", then call " + finalizeTool + " again"
	}
	return &out
}

func ofPart(f pawl.Field) bool { return strings.HasPrefix(f.Pointer, "/parts/") }

// asAgent names a caller without a name as an agent. A worker's verbs name the worker
// themselves.
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

// renamed maps fields to their names in the tool: the id of a lease is item_id.
func (t tool) renamed(fields []pawl.Field) []pawl.Field {
	if t.in == nil || t.in.of.Properties["item_id"] == nil {
		return fields
	}
	out := slices.Clone(fields)
	for i := range out {
		if out[i].Pointer == "/id" {
			out[i].Pointer = "/item_id"
		}
	}
	return out
}

// refused returns an error as a tool's answer: a sentence, and the whole problem.
func (s *Server) refused(ctx context.Context, t tool, err error) *sdk.CallToolResult {
	p := api.ProblemOf(err, "")
	p.Errors = t.renamed(p.Errors)
	switch {
	case p.Code == pawl.CodeInternal:
		s.opts.Log.ErrorContext(ctx, "internal error", slog.String("tool", t.Name), slog.Any("error", err))
	case p.Code == pawl.CodeUnavailable && ctx.Err() == nil:
		s.opts.Log.WarnContext(ctx, "unavailable", slog.String("tool", t.Name), slog.Any("error", err))
	}
	told, _ := encode(refusal{problemOf(p, err)}) // a problem always encodes
	return &sdk.CallToolResult{IsError: true, StructuredContent: told, Content: []sdk.Content{&sdk.TextContent{Text: sentence(p)}}}
}
