package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// NewTask is a row of tasks to insert.
type NewTask struct {
	ID, Namespace, Type string
	TypeVersion         int
	Solo                bool
	Title               Text
	Priority            int
	Payload             *string // nil for solo: the payload is its item's input
	Metadata            string
	RequestedByType     Text
	RequestedByID       Text
	InputHash           Text
	Dedupes             bool
	TraceParent         Text // the trace context of the call; see TraceOf
	Schedule            Text // the schedule that makes it
	Deadline            *int64
	StartToClose        *int64 // seconds
	ScheduleToStart     *int64 // seconds
	ParentID            *TaskID
	ForkedFrom          *TaskID
	ForkedAt            *int64 // the number of its last checkpoint that was copied
	Spawned             Spawned
	Items               int // how many items are created with it
	Actor               Actor
	Data                string // of the proposed event: a summary of the request
	only                onlyItem
}

// onlyItem is the item of a task of one, as far as the row of the task has it.
type onlyItem struct {
	Input       Text
	MaxAttempts int
	RunAt       *int64
	Type        Text // "" = the task's
	Priority    *int // nil = the task's
}

// Columns are the columns of the task's row, without the time. In statements they are
// @columns(new_task). A column that is added here, and to the columns of taskScan, is
// written, read and archived. Take sets what the caller gives, Task shows it in the answer
// to the call, and task shows it in reads.
func (t *NewTask) Columns() []Column {
	return []Column{
		{"id", (*TaskID)(&t.ID)}, {"namespace", &t.Namespace}, {"type", &t.Type}, {"type_version", &t.TypeVersion}, {"solo", &t.Solo},
		{"title", &t.Title}, {"priority", &t.Priority}, {"payload", &t.Payload}, {"metadata", &t.Metadata},
		{"requested_by_type", &t.RequestedByType}, {"requested_by_id", &t.RequestedByID}, {"input_hash", &t.InputHash},
		{"dedupes", &t.Dedupes}, {"trace_parent", &t.TraceParent},
		{"deadline", &t.Deadline}, {"start_to_close", &t.StartToClose}, {"schedule_to_start", &t.ScheduleToStart},
		{"schedule", &t.Schedule},
		{"parent_id", &t.ParentID}, {"forked_from", &t.ForkedFrom}, {"forked_at", &t.ForkedAt},
		{"max_attempts", &t.only.MaxAttempts}, {"run_at", &t.only.RunAt}, {"item_type", &t.only.Type}, {"item_priority", &t.only.Priority},
		{"input", &t.only.Input},
	}
}

// Alike are the columns that tasks of one item have in common if they differ in their ids and inputs alone.
func (t *NewTask) Alike() []Column {
	return slices.DeleteFunc(t.Columns(), func(c Column) bool { return c.Name == "id" || c.Name == "input" })
}

// IsAlike says whether the columns of Alike have the same values in both rows. It may miss that they do.
func (t *NewTask) IsAlike(o *NewTask) bool {
	a := *o
	a.ID, a.only.Input, a.Data = t.ID, t.only.Input, t.Data
	return a == *t
}

// JoinOnlyItems gives each task of one item the columns of that item: both are one row. The
// items are in the order of their tasks. An only item has the data of its task's event.
func JoinOnlyItems(tasks []NewTask, items []NewItem) {
	next := 0
	for i := range items {
		it := &items[i]
		if !it.Solo {
			continue
		}
		for tasks[next].ID != it.TaskID {
			next++
		}
		t := &tasks[next]
		t.only = onlyItem{Input: Text(it.Input), MaxAttempts: it.MaxAttempts, RunAt: it.RunAt}
		if it.Type != t.Type {
			t.only.Type = Text(it.Type)
		}
		if it.Priority != t.Priority {
			t.only.Priority = &it.Priority
		}
		if it.Data == "" {
			it.Data = Text(t.Data)
		}
	}
}

// OnlyQueue returns the queue of the item of a task of one.
func (t *NewTask) OnlyQueue() QueueName {
	return QueueName{t.Namespace, cmp.Or(string(t.only.Type), t.Type)}
}

// Take sets the columns that are stored as the caller gives them.
func (t *NewTask) Take(given *pawl.NewTask) {
	t.Type, t.Title, t.Priority, t.Metadata = given.Type, Text(given.Title), given.Priority, "{}"
	if len(given.Metadata) > 0 {
		t.Metadata = string(given.Metadata)
	}
	t.StartToClose, t.ScheduleToStart = seconds(given.StartToCloseSeconds), seconds(given.ScheduleToStartSeconds)
	t.ParentID = optionalTask(given.ParentID)
	if given.Deadline != nil {
		at := given.Deadline.UnixMicro()
		t.Deadline = &at
	}
	if given.RequestedBy != nil {
		t.RequestedByType, t.RequestedByID = Text(given.RequestedBy.Type), Text(given.RequestedBy.ID)
	}
}

// TraceOf returns the traceparent and the tracestate of a task's trace context. They are stored
// in one column, with a space between.
func TraceOf(stored Text) (parent, state string) {
	parent, state, _ = strings.Cut(string(stored), " ")
	return parent, state
}

// optionalTask returns the id of a task; nil = none.
func optionalTask(id string) *TaskID {
	if id == "" {
		return nil
	}
	return (*TaskID)(&id)
}

// seconds returns a time in seconds; 0 = none.
func seconds(n int) *int64 {
	if n == 0 {
		return nil
	}
	s := int64(n)
	return &s
}

// Task returns the members of the task that follow from the columns and its payload: all
// but the state and the times.
func (t *NewTask) Task(payload string) pawl.Task {
	n := len(t.Metadata)
	both := append(append(make([]byte, 0, n+len(payload)), t.Metadata...), payload...)
	out := pawl.Task{ID: t.ID, Namespace: t.Namespace, Type: t.Type, TypeVersion: t.TypeVersion, Title: string(t.Title), Priority: t.Priority,
		Metadata: both[:n:n], Payload: both[n:], InputHash: string(t.InputHash), Items: t.Items, ItemsOpen: t.Items,
		Deadline: StampOf(t.Deadline), Schedule: string(t.Schedule),
		StartToCloseSeconds: int(deref(t.StartToClose)), ScheduleToStartSeconds: int(deref(t.ScheduleToStart)),
		ParentID: string(deref(t.ParentID)), ForkedFrom: string(deref(t.ForkedFrom)), ForkedAt: t.ForkedAt}
	if t.RequestedByID != "" {
		out.RequestedBy = &pawl.Requester{Type: string(t.RequestedByType), ID: string(t.RequestedByID)}
	}
	return out
}

// Bytes returns the size of the values.
func (t *NewTask) Bytes() int {
	n := len(t.Metadata) + len(t.Data)
	if t.Payload != nil {
		n += len(*t.Payload)
	}
	return n
}

// taskScan is what a row of task_rows is scanned into, with the values that are read with
// it.
type taskScan struct {
	pawl.Task
	solo                                             int
	title, payload, byType, byID, hash, thread       Text
	failedIn, failure, stage, itemState, itemFailure Text
	schedule                                         Text
	metadata                                         string
	progress, ready, children                        *int
	created, updated, moved                          int64
	applied, completed                               *int64
	deadline, toClose, toStart, forkedAt             *int64
}

// columns are the columns that are read of a task's row: @columns(task) in statements.
func (s *taskScan) columns() []Column {
	return []Column{
		{"id", (*TaskID)(&s.ID)}, {"namespace", &s.Namespace}, {"type", &s.Type}, {"type_version", &s.TypeVersion}, {"solo", &s.solo},
		{"title", &s.title}, {"priority", &s.Priority}, {"payload", &s.payload}, {"metadata", &s.metadata},
		{"requested_by_type", &s.byType}, {"requested_by_id", &s.byID}, {"input_hash", &s.hash}, {"thread", &s.thread},
		{"created_at", &s.created}, {"state", &s.State}, {"version", &s.Version}, {"items", &s.Items}, {"open", &s.ItemsOpen},
		{"failed_in", &s.failedIn}, {"error", &s.failure}, {"stage", &s.stage}, {"item_state", &s.itemState}, {"progress", &s.progress},
		{"deadline", &s.deadline}, {"start_to_close", &s.toClose}, {"schedule_to_start", &s.toStart},
		{"schedule", &s.schedule},
		{"parent_id", (*TaskID)(&s.ParentID)}, {"forked_from", (*TaskID)(&s.ForkedFrom)}, {"forked_at", &s.forkedAt},
	}
}

// sizeOfTask returns the size of a task's values, which bounds a page of tasks.
func sizeOfTask(t *pawl.Task) int {
	return len(t.Payload) + len(t.Metadata) + sizeOfFailure(t.Error)
}

// task returns the task that was scanned.
func (s *taskScan) task() pawl.Task {
	t := s.Task
	t.Title, t.InputHash, t.Thread, t.FailedIn = string(s.title), string(s.hash), string(s.thread), string(s.failedIn)
	t.Schedule = string(s.schedule)
	t.Payload, t.Metadata = Raw(s.payload), json.RawMessage(s.metadata)
	if t.Payload == nil {
		t.Payload = json.RawMessage("null")
	}
	if s.byID != "" || s.byType != "" {
		t.RequestedBy = &pawl.Requester{Type: string(s.byType), ID: string(s.byID)}
	}
	if t.State != pawl.TaskCompleted { // the events of a completed task keep its errors
		t.Error = cmp.Or(FailureOf(s.failure), FailureOf(s.itemFailure))
	}
	t.Status, t.ReadyForApproval = t.State.Status(), s.ready != nil && *s.ready == 1
	t.CreatedAt, t.UpdatedAt, t.LastTransitionedAt = Stamp(s.created), Stamp(s.updated), Stamp(s.moved)
	t.AppliedAt, t.CompletedAt, t.Deadline = StampOf(s.applied), StampOf(s.completed), StampOf(s.deadline)
	t.StartToCloseSeconds, t.ScheduleToStartSeconds = int(deref(s.toClose)), int(deref(s.toStart))
	t.ForkedAt, t.Children = s.forkedAt, deref(s.children)
	if s.solo == 1 {
		t.Progress, t.Stage = progressOf(s.progress, string(s.itemState)), stageOrState(s.stage, string(s.itemState))
		return t
	}
	done := t.Items - t.ItemsOpen
	t.Progress = min(99, 100*done/max(1, t.Items))
	if t.State == pawl.TaskCompleted {
		t.Progress = 100
	}
	t.Stage = stageOrState("", string(t.State))
	if t.State == pawl.TaskInProgress {
		t.Stage = fmt.Sprintf("%d of %d items done", done, t.Items)
	}
	if t.State == pawl.TaskCancelled {
		t.Stage = "Cancelled by user"
	}
	return t
}
