package pawl

import (
	"encoding/json"
	"time"
)

// Task is what somebody asked for: one or more items, approved and applied as a
// whole. State is the shown one (never open); Version counts stored changes.
type Task struct {
	ID           string          `json:"id"`
	Namespace    string          `json:"namespace"`
	Type         string          `json:"type"`
	TypeVersion  int             `json:"type_version"`
	State        TaskState       `json:"state"`
	Status       Status          `json:"status"`
	Title        string          `json:"title,omitempty"`
	Stage        string          `json:"stage"`
	Progress     int             `json:"progress"` // 0–100; 100 only when completed
	Priority     int             `json:"priority"`
	Payload      json.RawMessage `json:"payload"`
	Metadata     json.RawMessage `json:"metadata"`
	RequestedBy  *Requester      `json:"requested_by,omitempty"`
	InputHash    string          `json:"input_hash,omitempty"`
	Thread       string          `json:"thread,omitempty"`       // the conversation it belongs to
	Deduplicated bool            `json:"deduplicated,omitempty"` // this create found an older task
	DryRun       bool            `json:"dry_run,omitempty"`      // nothing was created; Planned are the items it would have
	Planned      []NewItem       `json:"planned,omitempty"`
	Items        int             `json:"items"`
	ItemsOpen    int             `json:"items_open"`              // not yet out of work
	ItemsPending *Pending        `json:"items_pending,omitempty"` // those of them that nobody works on
	BlockedBy    *Blocked        `json:"blocked_by"`              // what it waits for, where nobody works on it
	Error        *Failure        `json:"error,omitempty"`
	RetryCount   int             `json:"retry_count"` // failures of its items, added up
	// "plan" or "apply" when it was that, and not its work, that failed
	FailedIn           string     `json:"failed_in,omitempty"`
	ReadyForApproval   bool       `json:"ready_for_approval,omitempty"` // submitted, and passed its checks: it may be approved
	Version            int        `json:"version"`
	CreatedAt          time.Time  `json:"created_at"`
	UpdatedAt          time.Time  `json:"updated_at"`
	LastTransitionedAt time.Time  `json:"last_transitioned_at"`
	AppliedAt          *time.Time `json:"applied_at,omitempty"`
	CompletedAt        *time.Time `json:"completed_at,omitempty"` // set at ends and at failed
}

// Requester says who asked for a task, in the caller's own words.
type Requester struct {
	Type string `json:"type"` // e.g. user, agent, system
	ID   string `json:"id"`
}

// NewTask asks for a task. Without Items it has one, whose input is the payload.
type NewTask struct {
	Type        string          `json:"type"`              // required, ≤ 120; need not be registered
	Payload     json.RawMessage `json:"payload,omitempty"` // any JSON ≤ 1 MiB, kept byte for byte; nil = null
	Title       string          `json:"title,omitempty"`
	Priority    int             `json:"priority,omitempty"` // −32768…32767, higher first
	Items       []NewItem       `json:"items,omitempty"`    // ≤ 100,000
	MaxAttempts int             `json:"max_attempts,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"` // not before; nil or past = at once
	Dedupe      Dedupe          `json:"dedupe,omitzero"`
	InputHash   string          `json:"input_hash,omitempty"` // own hash, ≤ 64 characters; asks for dedupe too
	RequestedBy *Requester      `json:"requested_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`   // a JSON object ≤ 16 KiB; nil = {}
	DryRun      bool            `json:"dry_run,omitempty"`    // check and plan, and create nothing
	Thread      string          `json:"thread,omitempty"`     // the conversation it belongs to, ≤ 255 characters
	Messages    []NewMessage    `json:"messages,omitempty"`   // what was said before it, e.g. by the user; ≤ 1000
	Reply       *Reply          `json:"reply,omitempty"`      // an open message for whoever claims the item
	Provenance  *Provenance     `json:"provenance,omitempty"` // of who asks
}

// NewItem asks for one item of a task; zero fields take the task's.
type NewItem struct {
	Input       json.RawMessage `json:"input"`
	Type        string          `json:"type,omitempty"`
	Priority    *int            `json:"priority,omitempty"`
	Key         string          `json:"key,omitempty"`   // unique within the task; names it for After and the result
	After       []string        `json:"after,omitempty"` // keys of items that must complete first
	MaxAttempts int             `json:"max_attempts,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"`
}

// Dedupe asks for one task per input: of the payload and items (All), or of the
// values at the given JSON Pointers into the payload. In JSON: true or a list.
type Dedupe struct {
	All      bool
	Pointers []string
}

// IsZero says that no dedupe was asked for.
func (d Dedupe) IsZero() bool { return !d.All && len(d.Pointers) == 0 }

// MarshalJSON writes true, false or the list of pointers.
func (d Dedupe) MarshalJSON() ([]byte, error) {
	if len(d.Pointers) > 0 {
		return json.Marshal(d.Pointers)
	}
	return json.Marshal(d.All)
}

// UnmarshalJSON reads true, false or a list of pointers.
func (d *Dedupe) UnmarshalJSON(b []byte) error {
	*d = Dedupe{}
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, &d.Pointers)
	}
	return json.Unmarshal(b, &d.All)
}

// AddItems adds items to a live task (its state still open).
type AddItems struct {
	TaskID string    `json:"task_id"`
	Items  []NewItem `json:"items"`
}

// TaskCall names a task for an operator's verb. ItemIDs narrows cancel, retry
// and bury to some of its items; empty = all that the verb applies to.
type TaskCall struct {
	TaskID  string   `json:"task_id"`
	ItemIDs []string `json:"item_ids,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Force   bool     `json:"force,omitempty"` // delete: even when it has not ended
}

// TaskUpdate changes a task that has not ended; nil leaves a thing as it is. One
// that comes to no change leaves no event and the version as it was.
type TaskUpdate struct {
	TaskID   string          `json:"task_id"`
	Version  *int            `json:"version,omitempty"`  // only while it has this one, else ErrPrecondition
	Title    *string         `json:"title,omitempty"`    // "" = none
	Priority *int            `json:"priority,omitempty"` // of its items too that had the task's and have not ended
	Metadata json.RawMessage `json:"metadata,omitempty"` // merged into what is there (RFC 7396): null removes a member
}

// TaskClone asks for a new task that is like an older one, in whatever state
// that is: its type, payload, items, title, priority, metadata and requester. A
// clone does not dedupe, and run_at is not copied.
type TaskClone struct {
	TaskID string `json:"task_id"`
	// in place of the payload, and of the input of a task that was made of a payload alone
	Payload     json.RawMessage `json:"payload,omitempty"`
	Title       *string         `json:"title,omitempty"`
	Priority    *int            `json:"priority,omitempty"` // of its items too that had the task's
	RunAt       *time.Time      `json:"run_at,omitempty"`
	RequestedBy *Requester      `json:"requested_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // merged into the older one's
}

// TaskFilter selects tasks. The zero value is the newest 100 of the namespace.
type TaskFilter struct {
	IDs         []string
	Types       []string
	States      []TaskState
	Statuses    []Status
	MinPriority *int
	MaxPriority *int
	Since       time.Time // created at or after
	Until       time.Time // created before
	Changed     time.Time // updated_at is at or after this time
	RequestedBy string    // the id of who requested it
	InputHash   string
	Metadata    map[string]string // members of its metadata: a text, or the JSON of a number, true or false
	Available   *bool             // has items that could be claimed now, or has none
	ByPriority  bool              // highest first, newest first among equals; Asc turns both round
	ByUpdate    bool              // last updated first, by updated_at and id; Asc turns both round. Not with ByPriority
	Asc         bool              // oldest first
	// Fields are the members that are wanted; nil = all. Large ones that are not,
	// payload and metadata, are not read.
	Fields []string
	Page
}

// TaskResult is what a task came to: the only item's result, a list of its
// items' results by position (an object by key when all have one), or what
// apply returned.
type TaskResult struct {
	TaskID    string          `json:"task_id"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt time.Time       `json:"created_at"`
	Partial   bool            `json:"partial,omitempty"` // of a task that did not complete: results of its completed items alone
}
