package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/nearest"
)

// typeTools are the tools that say what there is.
func typeTools() map[string]verb {
	return map[string]verb{"work_types": of(types), "work_namespaces": of(namespaces)}
}

type namespacesIn struct {
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

func namespaces(ctx context.Context, s *Server, in namespacesIn) (pageOut[pawl.NamespaceInfo], error) {
	return paged(pawl.Page{Cursor: in.Cursor}, func(p pawl.Page) (pawl.List[pawl.NamespaceInfo], error) {
		return s.svc.ListNamespaces(ctx, p)
	})
}

type typesIn struct {
	Names []string `json:"names,omitempty" jsonschema:"only these"`
	paging
}

// typeOut is a type with the tools that hand in results of it.
type typeOut struct {
	pawl.Type
	Tool string `json:"hand_in"`
}

// types answers with a page of types. Its schema does not describe them: the list of all tools
// has a bound.
func types(ctx context.Context, s *Server, in typesIn) (pageOut[json.RawMessage], error) {
	l, err := paged(in.page(), func(p pawl.Page) (pawl.List[pawl.Type], error) {
		return s.svc.ListTypes(ctx, pawl.TypeFilter{Names: in.Names, Page: p})
	})
	out := pageOut[json.RawMessage]{Items: make([]json.RawMessage, len(l.Items)), Next: l.Next}
	for i := range l.Items {
		if err == nil {
			out.Items[i], err = encode(typeOut{l.Items[i], handInOf(&l.Items[i])})
		}
	}
	return out, err
}

// The tools that hand in results.
const (
	submitTool     = "work_submit"
	submitPartTool = "work_submit_part"
	finalizeTool   = "work_finalize"
	completeTool   = "work_complete"
)

// handInOf names the tool that hands in results of a type; nil = a type that is not registered.
func handInOf(t *pawl.Type) string {
	switch {
	case t == nil || !t.NeedsAcceptance():
		return completeTool
	case len(t.RequiredParts()) > 0:
		return submitPartTool + " for " + strings.Join(t.RequiredParts(), ", ") + ", then " + finalizeTool
	case len(t.Parts) > 0:
		return submitTool + ", or " + submitPartTool + " and then " + finalizeTool
	}
	return submitTool
}

// typeOf reads the type of a task, in the task's version; nil if it is not registered.
func (s *Server) typeOf(ctx context.Context, t pawl.Task) (*pawl.Type, error) {
	if t.TypeVersion == 0 {
		return nil, nil
	}
	typ, err := s.svc.GetType(ctx, t.Type, t.TypeVersion)
	if pawl.CodeOf(err) == pawl.CodeNotFound {
		return nil, nil
	}
	return &typ, err
}

// handInOfItem names the tool that hands in the result of an item of a task. Items that plan or
// apply the task are completed.
func (s *Server) handInOfItem(ctx context.Context, t pawl.Task, itemType string) (string, error) {
	if itemType == t.Type+pawl.PlanSuffix || itemType == t.Type+pawl.ApplySuffix {
		return completeTool, nil
	}
	typ, err := s.typeOf(ctx, t)
	return handInOf(typ), err
}

// handIns names the tool for each lease; "" where its type cannot be read.
func (s *Server) handIns(ctx context.Context, leases []pawl.Lease) []string {
	ids := make([]string, len(leases))
	for i := range leases {
		ids[i] = leases[i].TaskID
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	out := make([]string, len(leases))
	if len(ids) == 0 {
		return out
	}
	f := pawl.TaskFilter{IDs: ids, Fields: []string{"type", "type_version"}, Page: pawl.Page{Limit: len(ids)}}
	list, err := s.svc.ListTasks(ctx, f)
	if err != nil {
		return out
	}
	known := map[string]string{}
	for i, l := range leases {
		at := slices.IndexFunc(list.Items, func(t pawl.Task) bool { return t.ID == l.TaskID })
		if at < 0 {
			continue
		}
		key := l.TaskID + " " + l.Type
		if _, there := known[key]; !there {
			known[key], _ = s.handInOfItem(ctx, list.Items[at], l.Type) // without it the lease is as good
		}
		out[i] = known[key]
	}
	return out
}

// otherTool names the tool that hands in the result of the item that a call is about, if the call
// used another one; "" = it did not, or that cannot be read.
func (s *Server) otherTool(ctx context.Context, used string, args json.RawMessage) string {
	if !slices.Contains([]string{submitTool, submitPartTool, finalizeTool, completeTool}, used) {
		return ""
	}
	var in holding
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	item, err := s.svc.GetItem(ctx, in.ItemID)
	if err != nil {
		return ""
	}
	task, err := s.svc.GetTask(ctx, item.TaskID)
	if err != nil {
		return ""
	}
	want, err := s.handInOfItem(ctx, task, item.Type)
	if err != nil || slices.Contains(strings.FieldsFunc(want, func(r rune) bool { return r == ' ' || r == ',' }), used) {
		return ""
	}
	return want
}

// typesRead is how many types are looked at for one that was meant.
const typesRead = pawl.MaxPage

// meantType says what is near to a type that is not registered; "" = nothing is.
func (s *Server) meantType(ctx context.Context, name string) string {
	l, err := s.svc.ListTypes(ctx, pawl.TypeFilter{Page: pawl.Page{Limit: typesRead}})
	if err != nil {
		return "" // a hint, no more
	}
	names := make([]string, len(l.Items))
	for i := range l.Items {
		names[i] = l.Items[i].Name
	}
	near := nearest.Some(name, names)
	if len(near) == 0 {
		return ""
	}
	return "the type " + name + " is not registered; did you mean " + strings.Join(near, " or ") +
		"? Then cancel this task and propose another; work_types lists what there is"
}
