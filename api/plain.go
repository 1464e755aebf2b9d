package api

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// PlainTask is a task in the plain shape: its status is in capitals, its state is the stage as
// text, and its error is text.
type PlainTask struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Status     string          `json:"status"`
	State      string          `json:"state"`
	Progress   int             `json:"progress"`
	Priority   int             `json:"priority"`
	Metadata   json.RawMessage `json:"metadata"`
	Error      *string         `json:"error"`
	InputHash  *string         `json:"input_hash"`
	RetryCount int             `json:"retry_count"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
	Version    int             `json:"version"`
}

// PlainNewTask is a request for a task in the plain shape.
type PlainNewTask struct {
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	Priority  *int            `json:"priority,omitempty"` // nil = 1
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	InputHash string          `json:"input_hash,omitempty"` // a hash by the caller; asks for deduplication
	Dedupe    pawl.Dedupe     `json:"dedupe,omitzero"`      // by a hash that Pawl computes
}

// plainPriority is the priority of a task in the plain shape that names none.
const plainPriority = 1

// Task returns the same request in Pawl's own shape.
func (n PlainNewTask) Task() pawl.NewTask {
	t := pawl.NewTask{Type: n.Type, Payload: n.Payload, Priority: plainPriority, Metadata: n.Metadata, InputHash: n.InputHash,
		Dedupe: n.Dedupe}
	if n.Priority != nil {
		t.Priority = *n.Priority
	}
	return t
}

// PlainEvent is an event in the plain shape.
type PlainEvent struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"task_id"`
	Status    string          `json:"status"`
	State     string          `json:"state"`
	Detail    json.RawMessage `json:"detail"`
	Actor     string          `json:"actor"`
	CreatedAt time.Time       `json:"created_at"`
}

// PlainTaskOf returns a task in the plain shape.
func PlainTaskOf(t pawl.Task) PlainTask {
	p := PlainTask{
		ID: t.ID, Type: t.Type, Status: capitals(t.Status), State: t.Stage,
		Progress: t.Progress, Priority: t.Priority, Metadata: t.Metadata,
		RetryCount: t.RetryCount, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Version: t.Version,
	}
	if p.State == "" {
		p.State = words(string(t.State))
	}
	if t.Error != nil {
		p.Error = &t.Error.Message
	}
	if t.InputHash != "" {
		p.InputHash = &t.InputHash
	}
	return p
}

// PlainEventOf returns an event in the plain shape. Its status is that of the state that the task
// moved to, or else of the state that the item moved to. An event that moved nothing has the status
// IN_PROGRESS. Its state is the state that was moved to, or the stage that the event reports.
func PlainEventOf(e pawl.Event) PlainEvent {
	p := PlainEvent{
		ID: e.ID, TaskID: e.TaskID, Status: capitals(pawl.StatusInProgress), State: e.Message,
		Detail: e.Data, Actor: strings.ToUpper(e.ActorType), CreatedAt: e.CreatedAt,
	}
	switch {
	case e.TaskTo != "" && e.TaskTo != string(pawl.TaskOpen):
		p.Status, p.State = capitals(pawl.TaskState(e.TaskTo).Status()), words(e.TaskTo)
	case e.ToState != "" && e.ItemID != "":
		p.Status, p.State = capitals(pawl.ItemState(e.ToState).Status()), words(e.ToState)
	case e.ToState != "":
		p.Status, p.State = capitals(pawl.TaskState(e.ToState).Status()), words(strings.Replace(e.ToState, "open", "queued", 1))
	case e.Event == "progressed":
		var step struct{ Stage string }
		_ = json.Unmarshal(e.Data, &step) // written by Pawl
		p.State = cmp.Or(step.Stage, p.State)
	}
	return p
}

func capitals(s pawl.Status) string { return strings.ToUpper(string(s)) }

// words returns a state as the plain shape writes it: 'Queued', 'In progress'.
func words(state string) string {
	switch state {
	case "":
		return ""
	case string(pawl.TaskCancelled):
		return "Cancelled by user"
	}
	s := strings.ReplaceAll(state, "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
