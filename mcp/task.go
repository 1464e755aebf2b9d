package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// taskTools are the tools that create, read and operate tasks.
func taskTools() map[string]verb {
	return map[string]verb{
		"work_propose": of(propose),
		"work_list":    of(list),
		"work_get":     of(get),
		"work_read":    of(readRest),
		"work_wait":    of(wait),
		"work_cancel":  of(cancel),
		"work_logs":    of(logs),
	}
}

type proposeIn struct {
	Type        string          `json:"type" jsonschema:"the kind of task, such as pdf.parse"`
	Payload     json.RawMessage `json:"payload,omitempty" jsonschema:"what it is about: any JSON that fits the type's payload_schema"`
	Title       string          `json:"title,omitempty" jsonschema:"a line for people, at most 200 characters"`
	Priority    int             `json:"priority,omitempty" jsonschema:"higher goes first; 0 by default"`
	Items       []proposeItem   `json:"items,omitempty" jsonschema:"the units of work; leave out for one item, or where the type plans them itself"`
	MaxAttempts int             `json:"max_attempts,omitempty" jsonschema:"how often each item may fail; the type's, else 3"`
	RunAt       *time.Time      `json:"run_at,omitempty" jsonschema:"not before this time"`
	Dedupe      pawl.Dedupe     `json:"dedupe,omitzero" jsonschema:"true: answer with an older task of the same payload instead of a new one; a list of JSON Pointers: of the same values there"`
	RequestedBy *pawl.Requester `json:"requested_by,omitempty" jsonschema:"on whose behalf, for the record"`
	Metadata    json.RawMessage `json:"metadata,omitempty" jsonschema:"a JSON object of your own, at most 16 KiB"`
}

type proposeItem struct {
	Input       json.RawMessage `json:"input" jsonschema:"any JSON"`
	Key         string          `json:"key,omitempty" jsonschema:"names the item within its task"`
	After       []string        `json:"after,omitempty" jsonschema:"keys of items that must be completed first"`
	Type        string          `json:"type,omitempty" jsonschema:"the task's by default"`
	Priority    *int            `json:"priority,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"`
}

// taskOut returns a task.
type taskOut struct {
	Task pawl.Task `json:"task"`
}

type proposeOut struct {
	Task pawl.Task `json:"task"`
	Note string    `json:"note,omitempty" jsonschema:"the type is not registered, and another one may be meant"`
}

func propose(ctx context.Context, s *Server, in proposeIn) (proposeOut, error) {
	task, err := pawl.Create(ctx, s.svc, in.task())
	out := proposeOut{Task: task}
	if err == nil && task.TypeVersion == 0 {
		out.Note = s.meantType(ctx, in.Type)
	}
	return out, err
}

func (in proposeIn) task() pawl.NewTask {
	t := pawl.NewTask{
		Type: in.Type, Payload: in.Payload, Title: in.Title, Priority: in.Priority, MaxAttempts: in.MaxAttempts,
		RunAt: in.RunAt, Dedupe: in.Dedupe, RequestedBy: in.RequestedBy, Metadata: in.Metadata,
	}
	for _, i := range in.Items {
		t.Items = append(t.Items, pawl.NewItem{Input: i.Input, Key: i.Key, After: i.After, Type: i.Type, Priority: i.Priority,
			MaxAttempts: i.MaxAttempts, RunAt: i.RunAt})
	}
	return t
}

// paging is the cursor of a list.
type paging struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"1-1000; 20 by default"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

// few is the default size of a page: a model reads all of it.
const few = 20

func (p paging) page() pawl.Page {
	if p.Limit == 0 {
		p.Limit = few
	}
	return pawl.Page{Limit: p.Limit, Cursor: p.Cursor}
}

type listIn struct {
	Types        []string          `json:"types,omitempty" jsonschema:"only these types"`
	States       []pawl.TaskState  `json:"states,omitempty" jsonschema:"only these states"`
	Status       []pawl.Status     `json:"status,omitempty" jsonschema:"only these coarse states"`
	Available    *bool             `json:"available,omitempty" jsonschema:"true: with items that can be checked out now"`
	UpdatedSince *time.Time        `json:"updated_since,omitempty" jsonschema:"changed at or after this time"`
	ByUpdate     bool              `json:"by_update,omitempty" jsonschema:"true: last changed first"`
	RequestedBy  string            `json:"requested_by,omitempty" jsonschema:"the id of who requested them"`
	InputHash    string            `json:"input_hash,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty" jsonschema:"with these members in their metadata"`
	paging
}

// pageOut returns a page.
type pageOut[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" jsonschema:"there is more: pass it as cursor"`
}

// paged reads a page that fits an answer; its items are never null.
func paged[T any](p pawl.Page, read func(pawl.Page) (pawl.List[T], error)) (pageOut[T], error) {
	l, err := within(pawl.MaxMCPAnswer-noteBytes, p, read)
	if l.Items == nil {
		l.Items = []T{}
	}
	return pageOut[T]{l.Items, l.Next}, err
}

func list(ctx context.Context, s *Server, in listIn) (pageOut[pawl.Task], error) {
	f := pawl.TaskFilter{Types: in.Types, States: in.States, Statuses: in.Status, Available: in.Available, ByUpdate: in.ByUpdate,
		RequestedBy: in.RequestedBy, InputHash: in.InputHash, Metadata: in.Metadata, Page: in.page()}
	if in.UpdatedSince != nil {
		f.Changed = *in.UpdatedSince
	}
	return paged(f.Page, func(p pawl.Page) (pawl.List[pawl.Task], error) {
		f.Page = p
		return s.svc.ListTasks(ctx, f)
	})
}

type getIn struct {
	TaskID       string `json:"task_id,omitempty" jsonschema:"a task, with its first items"`
	ItemID       string `json:"item_id,omitempty" jsonschema:"or one item, with its task"`
	AfterItem    string `json:"after_item,omitempty" jsonschema:"next_items of the answer before: the items that follow"`
	AfterMessage string `json:"after_message,omitempty" jsonschema:"next_messages of the answer before: the messages that follow"`
}

type getOut struct {
	Task     pawl.Task       `json:"task"`
	Items    []pawl.Item     `json:"items"`
	Messages []pawl.Message  `json:"messages,omitempty" jsonschema:"what is said about it: the first, and those that are being said, status streaming, as far as they are"`
	Result   json.RawMessage `json:"result,omitempty" jsonschema:"what a completed task came to"`
	Partial  bool            `json:"partial,omitempty" jsonschema:"result is of a failed task: its completed items alone"`
	Rules    json.RawMessage `json:"rules,omitempty" jsonschema:"what good work of its type is: result_schema, parts, approval and more; absent = anything goes"`

	Tool         string `json:"hand_in,omitempty" jsonschema:"the tool that hands in the result of an item"`
	NextItems    string `json:"next_items,omitempty" jsonschema:"there are more items: pass it as after_item"`
	NextMessages string `json:"next_messages,omitempty" jsonschema:"there are more messages: pass it as after_message"`
}

func get(ctx context.Context, s *Server, in getIn) (out getOut, err error) {
	switch {
	case (in.TaskID == "") == (in.ItemID == ""):
		return out, pawl.Invalid("", "name either task_id or item_id")
	case in.ItemID != "" && in.AfterItem != "":
		return out, pawl.Invalid("/after_item", "goes with task_id")
	case in.ItemID != "":
		item, err := s.svc.GetItem(ctx, in.ItemID)
		if err != nil {
			return out, err
		}
		out.Items, in.TaskID = []pawl.Item{item}, item.TaskID
	}
	if out.Task, err = s.svc.GetTask(ctx, in.TaskID); err != nil {
		return out, err
	}
	if in.ItemID == "" {
		l, err := within(roomOfItems, pawl.Page{Cursor: in.AfterItem}, func(p pawl.Page) (pawl.List[pawl.Item], error) {
			return s.svc.ListItems(ctx, pawl.ItemFilter{TaskID: in.TaskID, Page: p})
		})
		if err != nil {
			return out, err
		}
		out.Items, out.NextItems = append([]pawl.Item{}, l.Items...), l.Next
	}
	about := pawl.MessageFilter{TaskID: in.TaskID, Page: pawl.Page{Cursor: in.AfterMessage}}
	if out.Task.Items > 1 {
		about.ItemID = in.ItemID
	}
	if out.Messages, out.NextMessages, err = s.said(ctx, about); err != nil {
		return out, err
	}
	if slices.Contains([]pawl.TaskState{pawl.TaskCompleted, pawl.TaskFailed, pawl.TaskDeadLettered}, out.Task.State) {
		r, err := s.svc.PartialResult(ctx, in.TaskID)
		if err != nil && pawl.CodeOf(err) != pawl.CodeConflict { // it was retried meanwhile
			return out, err
		}
		out.Result, out.Partial = r.Payload, r.Partial
	}
	typ, err := s.typeOf(ctx, out.Task)
	if err == nil && typ != nil {
		out.Rules, err = encode(typ)
	}
	out.Tool = handInOf(typ)
	return out, err
}

// The room of lists in the answer of work_get, whose other parts are the task, its result and
// its rules.
const (
	roomOfItems    = pawl.MaxMCPAnswer * 3 / 8
	roomOfMessages = pawl.MaxMCPAnswer / 8
)

// said returns the messages of a task or item: one page, oldest first, and the open
// messages beyond it; and the cursor of the next page.
func (s *Server) said(ctx context.Context, f pawl.MessageFilter) ([]pawl.Message, string, error) {
	read := func(p pawl.Page) (pawl.List[pawl.Message], error) {
		f.Page = p
		return s.svc.ListMessages(ctx, f)
	}
	l, err := within(roomOfMessages, f.Page, read)
	if err != nil || l.Next == "" {
		return l.Items, "", err
	}
	f.Statuses = []pawl.MessageState{pawl.MessageStreaming}
	open, err := within(roomOfMessages, pawl.Page{Cursor: l.Next}, read)
	return append(l.Items, open.Items...), l.Next, err
}

type waitIn struct {
	TaskID       string `json:"task_id"`
	AfterVersion *int   `json:"after_version,omitempty" jsonschema:"the version of the task as you saw it: wait until it is higher; without it a task that awaits a decision is answered at once"`
	WaitSeconds  *int   `json:"wait_seconds,omitempty" jsonschema:"0 to 50; 25 by default; more counts as 50"`
}

type waitOut struct {
	Task     pawl.Task `json:"task"`
	TimedOut bool      `json:"timed_out" jsonschema:"nothing happened in that time; wait again"`

	asks sdk.InputRequestMap // what the client is asked in place of this answer
}

// atWork are the states in which a task can still change without an operator.
var atWork = []pawl.TaskState{pawl.TaskQueued, pawl.TaskCheckedOut, pawl.TaskInProgress, pawl.TaskApproved, pawl.TaskApplied}

func wait(ctx context.Context, s *Server, in waitIn) (waitOut, error) {
	long, err := waitOf(in.WaitSeconds)
	if err != nil {
		return waitOut{}, err
	}
	if req := requestOf(ctx); req != nil {
		if err := s.takeAnswers(ctx, req, in.TaskID); err != nil {
			return waitOut{}, err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	waiting, over, err := s.longCall(waiting)
	if err != nil {
		return waitOut{}, err
	}
	defer over()
	var out waitOut
	var failed error
	err = pawl.AwaitTask(waiting, s.svc, in.TaskID, func(context.Context) (bool, error) {
		if out.Task, failed = s.svc.GetTask(ctx, in.TaskID); failed != nil {
			return false, failed
		}
		t := &out.Task
		atRest := !slices.Contains(atWork, t.State)
		if atRest && in.AfterVersion != nil && t.Version <= *in.AfterVersion && t.Status == pawl.StatusInProgress {
			return false, nil
		}
		out.asks, failed = s.questions(ctx, *t)
		return atRest || len(out.asks) > 0, failed
	})
	switch {
	case failed != nil:
		return waitOut{}, failed
	case waiting.Err() != nil && err != nil:
		out.TimedOut = true
		return out, access.Ended(waiting)
	}
	return out, err
}

type cancelIn struct {
	TaskID  string   `json:"task_id"`
	ItemIDs []string `json:"item_ids,omitempty" jsonschema:"only these items"`
	Reason  string   `json:"reason,omitempty" jsonschema:"for the record"`
}

func cancel(ctx context.Context, s *Server, in cancelIn) (taskOut, error) {
	t, err := one(s.svc.CancelTasks(ctx, []pawl.TaskCall{{TaskID: in.TaskID, ItemIDs: in.ItemIDs, Reason: in.Reason}}))
	return taskOut{t}, err
}

type logsIn struct {
	TaskID string `json:"task_id,omitempty"`
	ItemID string `json:"item_id,omitempty"`
	Event  string `json:"event,omitempty" jsonschema:"only these, such as rejected"`
	Asc    bool   `json:"asc,omitempty" jsonschema:"oldest first"`
	paging
}

func logs(ctx context.Context, s *Server, in logsIn) (pageOut[pawl.Event], error) {
	if in.TaskID == "" && in.ItemID == "" {
		return pageOut[pawl.Event]{}, pawl.Invalid("", "name a task_id or an item_id")
	}
	return paged(in.page(), func(p pawl.Page) (pawl.List[pawl.Event], error) {
		return s.svc.ListEvents(ctx, pawl.EventFilter{TaskID: in.TaskID, ItemID: in.ItemID, Event: in.Event, Asc: in.Asc, Page: p})
	})
}

// one returns the result of a batch of one.
func one[T any](rs []pawl.Result[T], err error) (T, error) {
	if err != nil || len(rs) != 1 {
		var zero T
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}
