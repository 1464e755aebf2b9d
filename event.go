package pawl

import (
	"encoding/json"
	"time"
)

// Event is one row of the record: who changed what, from where to where, when
// and why. It is written in the transaction of its change and never changed.
type Event struct {
	ID        string          `json:"id"`                 // evt_ + the row's number
	Position  int64           `json:"position,omitempty"` // its place in the feed; only where it was read from there
	Epoch     int64           `json:"epoch,omitempty"`    // in which it got its position; see FeedPosition
	Namespace string          `json:"namespace"`
	TaskID    string          `json:"task_id"`
	TaskType  string          `json:"task_type,omitempty"`
	ItemID    string          `json:"item_id,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Event     string          `json:"event"`
	FromState string          `json:"from_state,omitempty"` // the item's, or the task's when item_id is absent
	ToState   string          `json:"to_state,omitempty"`
	TaskFrom  string          `json:"task_from,omitempty"` // the task's change that the item's caused
	TaskTo    string          `json:"task_to,omitempty"`
	ActorType string          `json:"actor_type"` // user, agent, worker, system, api
	ActorID   string          `json:"actor_id,omitempty"`
	KeyID     string          `json:"key_id,omitempty"` // the API key that caused it; absent: none
	Message   string          `json:"message,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Diff      json.RawMessage `json:"diff,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// EventInfo is one row of Events.
type EventInfo struct {
	Name  string
	State bool   // it records a change of state; the others leave the states empty
	Means string // also the event's message when the writer gives none
}

// Events is the closed list of events (docs/contract.md §7).
var Events = []EventInfo{
	{"proposed", true, "Task proposed"},
	{"planned", true, "Work item planned"},
	{"due", true, "Work item due"},
	{"ready", true, "Work item ready"},
	{"leased", true, "Work item leased"},
	{"in_progress", true, "Work item in progress"},
	{"progressed", false, "Progress reported"},
	{"checkpointed", false, "Checkpoint saved"},
	{"submitted", true, "Work item submitted"},
	{"part_submitted", false, "Part submitted"},
	{"part_rejected", false, "Part rejected"},
	{"ready_for_approval", false, "Task ready for approval"},
	{"accepted", true, "Work item accepted"},
	{"completed", true, "Completed"},
	{"failed", true, "Failed"},
	{"released", true, "Lease released"},
	{"lease_expired", true, "Lease expired"},
	{"suspended", true, "Work item suspended"},
	{"approved", true, "Task approved"},
	{"applied", true, "Task applied"},
	{"rejected", true, "Rejected"},
	{"retried", true, "Retried"},
	{"dead_lettered", true, "Dead-lettered"},
	{"cancelled", true, "Cancelled"},
	{"updated", false, "Task updated"},
	{"stale", false, "Task is stale"},
	{"deleted", false, "Task deleted"},
	{"message_started", false, "Message started"},
	{"message_ended", false, "Message ended"},
	{"signalled", false, "Signal received"},
	{"fired", false, "Schedule fired"},
	{"approval_expired", false, "Approval expired"},
	{"escalated", false, "Approval escalated"},
	{"lease_revoked", true, "Lease revoked"},
}

// Actor types.
const (
	ActorUser   = "user"
	ActorAgent  = "agent"
	ActorWorker = "worker"
	ActorSystem = "system"
	ActorAPI    = "api"
)

// ActorTypes are all there are.
var ActorTypes = []string{ActorUser, ActorAgent, ActorWorker, ActorSystem, ActorAPI}

// FeedEnd as EventFilter.After is the newest position there is.
const FeedEnd int64 = -1

// EventFilter selects events. The zero value is the newest 100 of the namespace.
type EventFilter struct {
	// After asks for feed order: events with a position above this one, oldest
	// first; 0 = all, FeedEnd = those to come. Nil = by number, newest first or
	// Asc. Per task the feed's order is the order of commit; a number may come to
	// light after a higher one. A page of it may be short, or empty, before the last.
	After *int64
	// Epoch is the epoch of After, and counts only where that is above 0. An older
	// one than the feed's is a conflict with reason epoch; see RestartOf.
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
