package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// PayloadsMeta is "hidden" in the _meta of an answer without payloads: the caller's API
// key may not read them.
const PayloadsMeta = "io.github.pawl-work/payloads"

// admit checks that the caller's key has the roles that a tool or method needs; the
// first role decides the caller's name. It records a refusal.
func (s *Server) admit(ctx context.Context, name string, args json.RawMessage, roles ...api.Role) (context.Context, error) {
	in, err := s.opts.Gate.Admit(ctx, string(roles[0]), everywhere()[name], func(c pawl.Caller) string { return agentOf(args, c) })
	for _, r := range roles {
		if err == nil {
			err = s.allows(ctx, r)
		}
	}
	if err != nil {
		s.opts.Gate.Refused(ctx, name, err, "door", "mcp")
	}
	return in, err
}

type setKey struct{} // of the set of tools that a connection asks for

// chosen adds the set of tools that the URL of a request names to its context. It makes the
// tools of the caller fewer, never more.
func chosen(r *http.Request) (*http.Request, error) {
	sets, asked := r.URL.Query()["tools"]
	switch {
	case !asked:
		return r, nil
	case len(sets) != 1 || !slices.Contains(ToolSets, sets[0]):
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf("tools in the URL must be one of %s",
			strings.Join(ToolSets, ", "))}
	}
	return r.WithContext(context.WithValue(r.Context(), setKey{}, sets[0])), nil
}

// allows reports whether the caller has a role: from its API key, or without a key from
// the set of tools; and whether the set that its connection asks for has it.
func (s *Server) allows(ctx context.Context, role api.Role) error {
	pass := access.Of(ctx)
	if set, ok := ctx.Value(setKey{}).(string); ok && !offers(set, role) {
		return &pawl.Error{Code: pawl.CodeForbidden, Message: fmt.Sprintf(
			"this needs the role %s, which the set of tools %s of this connection's URL does not have", role, set)}
	}
	if pass.Key == nil && !offers(s.opts.Tools, role) {
		return &pawl.Error{Code: pawl.CodeForbidden, Message: fmt.Sprintf(
			"this needs the role %[1]s, which an agent without an API key has only where the server was started with pawl mcp --tools %[2]s, "+
				"or pawl serve --mcp-tools %[2]s; or with all", role, toolsOf(role))}
	}
	return pass.May(string(role), false)
}

// may is admit for a call that was admitted and turns out to need another role.
func (s *Server) may(ctx context.Context, name string, role api.Role) error {
	err := s.allows(ctx, role)
	if err != nil {
		s.opts.Gate.Refused(ctx, name, err, "door", "mcp")
	}
	return err
}

// agentOf returns the agent of a call, for its rate: the worker that it names, or the
// actor.
func agentOf(args json.RawMessage, c pawl.Caller) string {
	var by struct {
		WorkerID string `json:"worker_id"`
	}
	if jsonv2.Unmarshal(args, &by) == nil && by.WorkerID != "" { // its names match exactly
		return by.WorkerID
	}
	return c.ActorID
}

// everywhere are the tools whose calls concern all namespaces.
var everywhere = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, t := range tools() {
		out[t.Name] = t.route.Has(api.Global)
	}
	return out
})

// denies reports whether the caller may not call a tool that needs roles.
func (s *Server) denies(ctx context.Context, tool string, roles []api.Role) bool {
	return slices.ContainsFunc(roles, func(r api.Role) bool {
		return s.allows(ctx, r) != nil || everywhere()[tool] && access.Of(ctx).May(string(r), true) != nil
	})
}

// needs records the roles that a tool needs.
func (s *Server) needs(tool string, roles ...api.Role) { s.roles.Store(tool, roles) }

// lists removes from the list of tools those that the caller's key may not call. A call
// of one is refused.
func (s *Server) lists(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		var list *sdk.ListToolsResult
		switch res := res.(type) {
		case *sdk.InitializeResult:
			res.Instructions += s.leftOut(ctx)
			return res, nil
		case *sdk.DiscoverResult:
			res.Instructions += s.leftOut(ctx)
			return res, nil
		case *sdk.ListToolsResult:
			list = res
		default:
			return res, nil
		}
		if why := s.leftOut(ctx); why != "" {
			list.Meta = sdk.Meta{LeftOutMeta: strings.TrimSpace(why)}
		}
		list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool {
			roles, ours := s.roles.Load(t.Name)
			return ours && s.denies(ctx, t.Name, roles.([]api.Role))
		})
		return list, nil
	}
}

// LeftOutMeta says in the _meta of the list of tools why it is shorter than others: the URL of the
// connection asks for a set of tools.
const LeftOutMeta = "io.github.pawl-work/left_out"

// leftOut says which tools a connection does not have whose URL asks for a set, and why; "" = it
// asks for none.
func (s *Server) leftOut(ctx context.Context) string {
	set, asked := ctx.Value(setKey{}).(string)
	if !asked {
		return ""
	}
	var out, denied []string
	for _, t := range s.table {
		switch role := t.route.Role; {
		case !offers(set, role):
			out = append(out, t.Name)
		case s.allows(ctx, role) != nil:
			var why *pawl.Error
			if errors.As(s.allows(ctx, role), &why) {
				denied = append(denied, t.Name+" ("+why.Message+")")
			}
		}
	}
	text := "\n\nThe URL of this connection asks for the set of tools " + set + " (?tools=" + set + ")."
	if len(out) > 0 {
		text += " These tools are not in it: " + strings.Join(out, ", ") + "."
	}
	if len(denied) > 0 {
		text += " You may not call these: " + strings.Join(denied, ", ") + "."
	}
	return text
}

// shown returns an answer, a pointer, without payloads if the caller's key may not read
// them, and the _meta that says so.
func shown(ctx context.Context, route api.Route, out any) (json.RawMessage, sdk.Meta, error) {
	hides := access.Of(ctx).HidesFrom(route, out)
	if hides {
		access.Hide(out)
	}
	text, err := encode(out)
	return text, remarks(hides, false), err
}

// remarks returns the _meta of an answer.
func remarks(hidden, replayed bool) sdk.Meta {
	m := sdk.Meta{}
	if replayed {
		m[ReplayedMeta] = true
	}
	if hidden {
		m[PayloadsMeta] = "hidden"
	}
	if len(m) == 0 {
		return nil
	}
	return m
}
