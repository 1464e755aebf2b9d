package pawl

import (
	"encoding/json"
	"time"
)

// Task is a request for work: one or more items, approved and applied as a whole. State
// is the shown state (never open); Version counts stored changes.
type Task struct {
	ID                 string          `json:"id"`
	Namespace          string          `json:"namespace"`
	Type               string          `json:"type"`
	TypeVersion        int             `json:"type_version"`
	State              TaskState       `json:"state"`
	Status             Status          `json:"status"`
	Title              string          `json:"title,omitempty"`
	Stage              string          `json:"stage"`
	Progress           int             `json:"progress"` // 0–100; 100 only when completed
	Priority           int             `json:"priority"`
	Payload            json.RawMessage `json:"payload"`
	Metadata           json.RawMessage `json:"metadata"`
	RequestedBy        *Requester      `json:"requested_by,omitempty"`
	InputHash          string          `json:"input_hash,omitempty"`
	Thread             string          `json:"thread,omitempty"`       // the conversation that it belongs to
	Schedule           string          `json:"schedule,omitempty"`     // the schedule that made it
	Deduplicated       bool            `json:"deduplicated,omitempty"` // the create call found this older task
	DryRun             bool            `json:"dry_run,omitempty"`      // nothing was created; Planned are the items that would be
	Planned            []NewItem       `json:"planned,omitempty"`
	Items              int             `json:"items"`
	ItemsOpen          int             `json:"items_open"`              // items that still have work left
	ItemsPending       *Pending        `json:"items_pending,omitempty"` // the open items that no worker holds
	BlockedBy          *Blocked        `json:"blocked_by"`              // what it waits for, if no worker holds an item of it
	Error              *Failure        `json:"error,omitempty"`
	RetryCount         int             `json:"retry_count"`                  // sum of its items' failures
	FailedIn           string          `json:"failed_in,omitempty"`          // "plan" or "apply" if that failed, not the work
	ReadyForApproval   bool            `json:"ready_for_approval,omitempty"` // submitted and passed its checks: it may be approved
	Version            int             `json:"version"`
	CreatedAt          time.Time       `json:"created_at"`
	UpdatedAt          time.Time       `json:"updated_at"`
	LastTransitionedAt time.Time       `json:"last_transitioned_at"`
	AppliedAt          *time.Time      `json:"applied_at,omitempty"`
	CompletedAt        *time.Time      `json:"completed_at,omitempty"` // set by final states and by failed

	Deadline *time.Time `json:"deadline,omitempty"` // what has no result by then fails
	// the longest time of an attempt, from its claim; 0 = no limit
	StartToCloseSeconds int `json:"start_to_close_seconds,omitempty"`
	// the longest time that an item may be queued before a worker claims it; 0 = no limit
	ScheduleToStartSeconds int `json:"schedule_to_start_seconds,omitempty"`

	ParentID string `json:"parent_id,omitempty"` // the task that it is a child of
	Children int    `json:"children,omitempty"`  // how many children were created; it may be fewer now
	// the task that it is a fork of, and the number of the last checkpoint that was copied; 0 = none was
	ForkedFrom string `json:"forked_from,omitempty"`
	ForkedAt   *int64 `json:"forked_at,omitempty"`
}

// Requester says who asked for a task; any text of the caller.
type Requester struct {
	Type string `json:"type"` // e.g. user, agent, system
	ID   string `json:"id"`
}

// NewTask describes a task to create. Without Items it gets one item, with the payload
// as input.
type NewTask struct {
	Type        string          `json:"type"`              // required, ≤ 120; need not be registered
	Payload     json.RawMessage `json:"payload,omitempty"` // any JSON ≤ 1 MiB, kept byte for byte; nil = null
	Title       string          `json:"title,omitempty"`
	Priority    int             `json:"priority,omitempty"` // −32768…32767, higher first
	Items       []NewItem       `json:"items,omitempty"`    // ≤ 100,000
	MaxAttempts int             `json:"max_attempts,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"` // not before; nil or past = at once; at most ten years ahead, or Never
	Dedupe      Dedupe          `json:"dedupe,omitzero"`
	InputHash   string          `json:"input_hash,omitempty"` // the caller's own hash, ≤ 64 characters; implies dedupe
	RequestedBy *Requester      `json:"requested_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`   // a JSON object ≤ 16 KiB; nil = {}
	DryRun      bool            `json:"dry_run,omitempty"`    // check and plan, but create nothing
	Thread      string          `json:"thread,omitempty"`     // the conversation it belongs to, ≤ 255 characters
	Messages    []NewMessage    `json:"messages,omitempty"`   // earlier messages of the conversation, for example the user's; ≤ 1000
	Reply       *Reply          `json:"reply,omitempty"`      // an open message for the worker that claims the item
	Provenance  *Provenance     `json:"provenance,omitempty"` // of the caller

	// what has no result by then fails with the code deadline; also items that are added
	// later. It must lie ahead, by at most ten years
	Deadline *time.Time `json:"deadline,omitempty"`
	// the longest time of an attempt of an item, from its claim: its lease ends then,
	// whatever its worker sends. 0 = no limit, left out in JSON; ≤ 10 years
	StartToCloseSeconds int `json:"start_to_close_seconds,omitempty"`
	// the longest time that an item may be queued: it fails if no worker claims it by then.
	// 0 = no limit, left out in JSON; ≤ 10 years
	ScheduleToStartSeconds int `json:"schedule_to_start_seconds,omitempty"`

	Unique   *Unique   `json:"unique,omitempty"`   // not while another task has its key; not with dedupe, input_hash or debounce
	Debounce *Debounce `json:"debounce,omitempty"` // wait until no more of these are created; not with run_at, dedupe or input_hash
	// the task that it becomes a child of, which must not have ended. Cancel and delete of
	// that task are passed on to it
	ParentID string `json:"parent_id,omitempty" id:"task"`
}

// NewItem describes one item of a new task; zero fields take the task's values.
type NewItem struct {
	Input       json.RawMessage `json:"input"`
	Type        string          `json:"type,omitempty"`
	Priority    *int            `json:"priority,omitempty"`
	Key         string          `json:"key,omitempty"`   // unique within the task; used by After and in the result
	After       []string        `json:"after,omitempty"` // keys of items that must complete first
	MaxAttempts int             `json:"max_attempts,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"`
	Deadline    *time.Time      `json:"deadline,omitempty"` // the earlier one of the task's and the item's counts
}

// Dedupe asks for one task per input: by the payload and items (All), or by the values
// at some JSON Pointers into the payload. In JSON it is true or a list.
type Dedupe struct {
	All      bool
	Pointers []string
}

// IsZero reports whether no dedupe was asked for.
func (d Dedupe) IsZero() bool { return !d.All && len(d.Pointers) == 0 }

// MarshalJSON encodes true, false or the list of pointers.
func (d Dedupe) MarshalJSON() ([]byte, error) {
	if len(d.Pointers) > 0 {
		return json.Marshal(d.Pointers)
	}
	return json.Marshal(d.All)
}

// UnmarshalJSON decodes true, false or a list of pointers.
func (d *Dedupe) UnmarshalJSON(b []byte) error {
	*d = Dedupe{}
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, &d.Pointers)
	}
	return json.Unmarshal(b, &d.All)
}

// AddItems adds items to an open task.
type AddItems struct {
	TaskID string    `json:"task_id"`
	Items  []NewItem `json:"items"`
}

// TaskCall names a task for an operator's verb. With ItemIDs cancel, retry and bury
// apply only to those items; empty = all items that the verb applies to.
type TaskCall struct {
	TaskID  string   `json:"task_id"`
	ItemIDs []string `json:"item_ids,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Force   bool     `json:"force,omitempty"` // delete the task even if it has not ended and holds work
}

// TaskUpdate changes a task that has not ended; nil keeps a value. An update that
// changes nothing leaves no event and keeps the version.
type TaskUpdate struct {
	TaskID   string          `json:"task_id"`
	Version  *int            `json:"version,omitempty"`  // the version that it must have, else ErrPrecondition
	Title    *string         `json:"title,omitempty"`    // "" = none
	Priority *int            `json:"priority,omitempty"` // also of its items that had the task's priority and have not ended
	Metadata json.RawMessage `json:"metadata,omitempty"` // merged into the existing metadata (RFC 7396): null removes a member
}

// TaskClone asks for a copy of a task, in whatever state that is: its type, payload,
// items, title, priority, metadata, timeouts and requester. A clone is not deduplicated,
// and deadlines and run_at are not copied, except for Never.
type TaskClone struct {
	TaskID string `json:"task_id"`
	// in place of the payload, and of the input of a task that was made of a payload alone
	Payload     json.RawMessage `json:"payload,omitempty"`
	Title       *string         `json:"title,omitempty"`
	Priority    *int            `json:"priority,omitempty"` // also of its items that had the task's priority
	RunAt       *time.Time      `json:"run_at,omitempty"`
	RequestedBy *Requester      `json:"requested_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // merged into the older task's
	// Checkpoints copies all checkpoints of the task too, as a fork does, also of an archived one:
	// the clone has ForkedFrom and ForkedAt. Snapshots that are stored as blobs are shared.
	Checkpoints bool `json:"checkpoints,omitempty"`
	// as of NewTask: with OnConflictReturn, a call that is repeated returns the clone that it made.
	// OnConflictReplace is invalid with Checkpoints
	Unique *Unique `json:"unique,omitempty"`
}

// TaskFork asks for a new task that goes on from a checkpoint of another one, in whatever state
// that is, also of an archived one. The new task is like a clone. It also has the checkpoints of
// the other one up to the given number, with the same numbers. Each of its items has those of the
// item that it is a copy of.
type TaskFork struct {
	TaskID     string `json:"task_id"`
	Checkpoint int64  `json:"checkpoint"` // the number of the last checkpoint to copy; 0 = none
}

// TaskFilter selects tasks. The zero value selects the newest 100 of the namespace.
type TaskFilter struct {
	IDs         []string `id:"task"`
	Types       []string
	States      []TaskState
	Statuses    []Status
	MinPriority *int
	MaxPriority *int
	Since       time.Time // created at or after
	Until       time.Time // created before
	Changed     time.Time // updated_at is at or after this time
	RequestedBy string    // id of the requester
	InputHash   string
	ParentIDs   []string `id:"task"` // the children of any of these tasks
	// Search is the beginning of an id of the task, of one of its items or messages, or else the
	// beginning of its type or title. The case of ASCII letters does not count.
	Search      string
	TitlePrefix string            // the beginning of its title; the case of ASCII letters does not count
	Error       string            // part of the code or message of the last error of an item that has not ended, in any case
	Failure     string            // with items of this group of failures: FailureGroup.Failure
	Metadata    map[string]string // metadata members and their values: a text, or the JSON of a number, true or false
	Available   *bool             // true: has items that can be claimed now; false: has none
	ByPriority  bool              // highest first, newest first among equals; Asc reverses both
	ByUpdate    bool              // last updated first, by updated_at and id; Asc turns both round. Not with ByPriority
	Asc         bool              // oldest first
	// Fields are the members to read; nil = all. payload and metadata are not read from
	// the database unless they are listed.
	Fields []string
	Page
}

// TaskResult is the result of a task: that of its only item, a list of its items'
// results by position (an object by key if all items have one), or what apply returned.
type TaskResult struct {
	TaskID    string          `json:"task_id"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt time.Time       `json:"created_at"`
	Partial   bool            `json:"partial,omitempty"` // the task did not complete: only the results of its completed items
}
