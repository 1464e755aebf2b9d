package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

type readIn struct {
	Tool      string          `json:"tool" jsonschema:"as $cut says"`
	Arguments json.RawMessage `json:"arguments" jsonschema:"of that tool, as $cut says"`
	Path      string          `json:"path" jsonschema:"a JSON Pointer into its answer, in which an id may stand for a place in a list"`
	Offset    int             `json:"offset,omitempty" jsonschema:"the next of the piece before"`
}

type readOut struct {
	Text  string `json:"text" jsonschema:"the piece: a text as it is, other values as JSON"`
	Bytes int    `json:"bytes" jsonschema:"the size of the whole"`
	Next  int    `json:"next,omitempty" jsonschema:"there is more: pass it as offset"`
}

// readable are the tools whose answers work_read reads.
func readable() []string {
	return []string{"work_get", "work_resume", "work_logs", "work_list_parts", "work_types", "work_effects", "work_why", checkoutTool}
}

// readRest reads a piece of a body that was cut from an answer: it reads the answer anew.
func readRest(ctx context.Context, s *Server, in readIn) (out readOut, err error) {
	if !slices.Contains(readable(), in.Tool) {
		return out, pawl.Invalid("/tool", "must be one of %s", strings.Join(readable(), ", "))
	}
	t := s.table[slices.IndexFunc(s.table, func(t tool) bool { return t.Name == in.Tool })]
	if err := s.may(ctx, readTool, t.route.Role); err != nil {
		return out, err
	}
	var answer any
	if in.Tool == checkoutTool {
		answer, err = s.held(ctx, in.Arguments)
	} else {
		answer, err = t.run(ctx, s, json.RawMessage(t.ids.JSON(in.Arguments)))
	}
	if err != nil {
		return out, err
	}
	whole, _, err := shown(ctx, t.route, answer)
	if err != nil {
		return out, err
	}
	value, found := at(whole, in.Path)
	if !found {
		return out, &pawl.Error{Code: pawl.CodeNotFound, Message: fmt.Sprintf("%s does not answer with a value at %s any more", in.Tool,
			strconv.Quote(in.Path))}
	}
	text := textOf(value)
	if out.Bytes = len(text); in.Offset < 0 || in.Offset > len(text) {
		return out, pawl.Invalid("/offset", "must be 0 to %d", len(text))
	}
	out.Text = piece(text[in.Offset:])
	if end := in.Offset + len(out.Text); end < len(text) {
		out.Next = end
	}
	return out, nil
}

// piece returns the beginning of a text that fits an answer, as JSON.
func piece(text string) string {
	const most = pawl.MaxMCPAnswer - noteBytes
	for n := most; ; n = n * 3 / 4 {
		head := upTo(text, n)
		if raw, err := encode(head); err != nil || len(raw) <= most {
			return head
		}
	}
}

// claimed is an item that was checked out.
type claimed struct {
	Items []claimedItem `json:"items"`
}

type claimedItem struct {
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input"`
	Error *pawl.Failure   `json:"error,omitempty"`
}

// held returns an item for the worker that holds it. A key that does not read payloads sees
// those of the items that it holds.
func (s *Server) held(ctx context.Context, args json.RawMessage) (any, error) {
	var by holding
	if err := json.Unmarshal(args, &by); err != nil {
		return nil, pawl.Invalid("/arguments", "must have item_id, worker_id and attempt")
	}
	item, err := s.svc.GetItem(ctx, by.ItemID)
	if err != nil {
		return nil, err
	}
	mine := item.State.Leased() && item.WorkerID == by.WorkerID && item.Attempt == by.Attempt
	if mine && !access.Of(ctx).Payloads() {
		left, err := s.svc.ResumePage(ctx, item.ID, "")
		if err != nil {
			return nil, err
		}
		mine = left.Held && left.Attempt == by.Attempt
	}
	if !mine {
		return nil, &pawl.Error{Code: pawl.CodeLeaseLost, State: string(item.State), Holder: item.WorkerID, Attempt: item.Attempt,
			Message: "you do not hold this item"}
	}
	return &claimed{[]claimedItem{{item.ID, item.Input, item.Error}}}, nil
}

// at returns the value at a JSON Pointer. In a list, a token is the id of an element or its
// place.
func at(value json.RawMessage, pointer string) (json.RawMessage, bool) {
	if pointer == "" {
		return value, true
	}
	tokens := strings.Split(pointer, "/")
	if tokens[0] != "" {
		return nil, false
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, token := range tokens[1:] {
		token = unescape.Replace(token)
		var next json.RawMessage
		eachMember(value, 0, func(name string, v json.RawMessage, _ int) {
			if name == token {
				next = v
			}
		})
		n := 0
		eachElement(value, 0, func(v json.RawMessage, _ int) {
			if idOf(v, n) == token || strconv.Itoa(n) == token {
				next = v
			}
			n++
		})
		if value = next; value == nil {
			return nil, false
		}
	}
	return value, true
}

// restOf returns the arguments of work_read that read a body of an answer. They name things by
// their ids, so that they still read it when there are newer ones.
func restOf(t tool, args, answer json.RawMessage, path []string) readIn {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	in := readIn{Tool: t.Name, Arguments: args, Path: pointerTo(path)}
	about := func(tool string, members map[string]any) {
		in.Tool = tool
		in.Arguments, _ = encode(members) // texts and numbers always encode
	}
	id := func(path ...string) string {
		v, _ := at(answer, pointerTo(path))
		return textOf(v)
	}
	switch {
	case t.Name == checkoutTool:
		attempt, _ := strconv.Atoi(id(path[0], path[1], "attempt"))
		about(t.Name, map[string]any{"item_id": path[1], "worker_id": id(path[0], path[1], "worker_id"), "attempt": attempt})
	case t.Name == "work_get" && path[0] == "items":
		about("work_get", map[string]any{"item_id": path[1]})
	case t.Name == "work_list":
		about("work_get", map[string]any{"task_id": path[1]})
		in.Path = pointerTo(append([]string{"task"}, path[2:]...))
	case t.Name == "work_types":
		about(t.Name, map[string]any{"names": []string{id(path[0], path[1], "name")}})
		in.Path = pointerTo(append([]string{path[0], "0"}, path[2:]...))
	case t.Name == "work_effects":
		about(t.Name, map[string]any{"effect_id": path[1]})
	case t.Name == "work_effect_open":
		about("work_effects", map[string]any{"effect_id": id("id")})
		in.Path = pointerTo(append([]string{"items", id("id")}, path...))
	case path[0] == "effect":
		about("work_effects", map[string]any{"effect_id": id("effect", "id")})
		in.Path = pointerTo(append([]string{"items", id("effect", "id")}, path[1:]...))
	case t.Name == "work_logs":
		var same map[string]any
		if json.Unmarshal(args, &same) == nil {
			same["limit"] = pawl.MaxPage // newer events move it down the page
			about(t.Name, same)
		}
	case t.Name == "work_get":
	case path[0] == "task":
		about("work_get", map[string]any{"task_id": id("task", "id")})
	case path[0] == "item":
		about("work_get", map[string]any{"item_id": id("item", "id")})
		in.Path = pointerTo(append([]string{"items", id("item", "id")}, path[1:]...))
	case path[0] == "part":
		about("work_list_parts", map[string]any{"item_id": id("part", "item_id"), "all": true, "limit": pawl.MaxPage})
		in.Path = pointerTo(append([]string{"items", id("part", "id")}, path[1:]...))
	}
	return in
}

func pointerTo(path []string) string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, name := range path {
		b.WriteString("/" + escape.Replace(name))
	}
	return b.String()
}
