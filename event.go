package pawl

import (
	"encoding/json"
	"time"
)

// Event is one row of the event log: who changed what, from which state to which, when
// and why. It is written in the transaction of its change and never modified.
type Event struct {
	ID        string          `json:"id"`                 // evt_ and the event's number
	Position  int64           `json:"position,omitempty"` // its position in the feed; 0 if it was not read from the feed
	Epoch     int64           `json:"epoch,omitempty"`    // the epoch of its position; see FeedPosition
	Namespace string          `json:"namespace"`
	TaskID    string          `json:"task_id"`
	TaskType  string          `json:"task_type,omitempty"`
	ItemID    string          `json:"item_id,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Event     string          `json:"event"`
	FromState string          `json:"from_state,omitempty"` // of the item, or of the task if item_id is absent
	ToState   string          `json:"to_state,omitempty"`
	TaskFrom  string          `json:"task_from,omitempty"` // the change of the task that the item's change caused
	TaskTo    string          `json:"task_to,omitempty"`
	ActorType string          `json:"actor_type"` // user, agent, worker, system, api
	ActorID   string          `json:"actor_id,omitempty"`
	KeyID     string          `json:"key_id,omitempty"` // the API key of the call; absent = none
	Message   string          `json:"message,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Diff      json.RawMessage `json:"diff,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	// the W3C trace context of the call that created the task; "" = it had none
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
}

// EventInfo is one row of Events.
type EventInfo struct {
	Name  string
	State bool   // it records a change of state; the other events leave the states empty
	Of    string // whose event it is: task, item or both
	Means string // also the message of an event that is written without one
}

// Events lists all events (docs/contract.md §7).
var Events = []EventInfo{
	{"proposed", true, "both", "Task proposed"},
	{"planned", true, "item", "Work item planned"},
	{"due", true, "item", "Work item due"},
	{"ready", true, "item", "Work item ready"},
	{"leased", true, "item", "Work item leased"},
	{"in_progress", true, "item", "Work item in progress"},
	{"progressed", false, "item", "Progress reported"},
	{"checkpointed", false, "both", "Checkpoint saved"},
	{"pruned", false, "task", "Checkpoints removed by rule"},
	{"submitted", true, "both", "Work item submitted"},
	{"part_submitted", false, "item", "Part submitted"},
	{"part_rejected", false, "item", "Part rejected"},
	{"ready_for_approval", false, "task", "Task ready for approval"},
	{"accepted", true, "item", "Work item accepted"},
	{"completed", true, "both", "Completed"},
	{"failed", true, "both", "Failed"},
	{"released", true, "item", "Lease released"},
	{"lease_expired", true, "item", "Lease expired"},
	{"suspended", true, "item", "Work item suspended"},
	{"approved", true, "task", "Task approved"},
	{"applied", true, "task", "Task applied"},
	{"rejected", true, "both", "Rejected"},
	{"retried", true, "both", "Retried"},
	{"dead_lettered", true, "both", "Dead-lettered"},
	{"cancelled", true, "both", "Cancelled"},
	{"updated", false, "both", "Task updated"},
	{"stale", false, "task", "Task is stale"},
	{"deleted", false, "task", "Task deleted"},
	{"message_started", false, "both", "Message started"},
	{"message_ended", false, "both", "Message ended"},
	{"signalled", false, "task", "Signal received"},
	{"fired", false, "task", "Schedule fired"},
	{"approval_expired", false, "task", "Approval expired"},
	{"escalated", false, "task", "Approval escalated"},
	{"lease_revoked", true, "item", "Lease revoked"},
	{"effect_opened", false, "item", "Effect opened"},
	{"effect_done", false, "item", "Effect done"},
	{"effect_failed", false, "item", "Effect failed"},
	{"effect_unknown", false, "item", "Effect unknown"},
	{"effect_resolved", false, "item", "Effect resolved"},
}

// FeedEnd as EventFilter.After stands for the newest position.
const FeedEnd int64 = -1

// EventFilter selects events. The zero value selects the newest 100 of the namespace.
type EventFilter struct {
	// After selects feed order: events with a position above this one, oldest first; 0 =
	// all, FeedEnd = only future ones. The feed has each task's events in commit order.
	// Its pages may be short, or empty, before the last. Nil = by event number, newest
	// first unless Asc; a number can become visible after a higher one.
	After *int64
	// Epoch is the epoch of After; it is ignored unless After is above 0. An epoch older
	// than the feed's is a conflict with reason epoch; see RestartOf.
	Epoch  int64
	TaskID string
	ItemID string
	Types  []string // of tasks of these types
	Event  string
	Since  time.Time // created at or after; zero = no bound
	Until  time.Time // created before; zero = no bound
	Asc    bool      // oldest first; the default is newest first
	Page
}
