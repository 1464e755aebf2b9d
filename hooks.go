package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Hooks are the rules of a type that only Go can say. They belong to a process
// and are not stored: every process that creates, finalizes, approves or
// applies tasks of the type needs those its definition calls for, and answers
// unavailable without them. They may be called by many goroutines at once, and
// more than once for the same thing. A hook that panics has failed.
type Hooks struct {
	// Plan makes the items of a task whose type plans by go. It runs before the
	// task's transaction; an *Error of code invalid reaches the caller as it is.
	Plan func(ctx context.Context, t NewTask) ([]NewItem, error)

	// Assemble makes an item's result from its live parts, by key and seq, where
	// the type assembles by go.
	Assemble func(ctx context.Context, item Item, parts []ItemPart) (json.RawMessage, error)

	// Check looks at all results of a task together once all are submitted. A
	// task that does not pass is not ready for approval; its complaints are kept.
	Check func(ctx context.Context, t Task, items []Item) ([]Complaint, error)

	// AutoApprove decides about tasks whose type approves by auto. False leaves
	// the task to somebody.
	AutoApprove func(ctx context.Context, t Task, items []Item) (bool, error)

	// Apply makes an approved task take effect, where the type applies by go.
	Apply func(ctx context.Context, a Application) (Applied, error)
	// BeforeApply may refuse, with an error; AfterApply is told when it is done.
	BeforeApply func(ctx context.Context, a Application) error
	AfterApply  func(ctx context.Context, t Task, done Applied)
}

// Application is what a hook is to apply.
type Application struct {
	Task  Task
	Items []Item // accepted, with their results
	// Tx is the transaction of the change: a pgx.Tx on PostgreSQL, nil elsewhere.
	// What is written in it is there exactly when the task is applied.
	Tx any
}

// Applied is what applying came to.
type Applied struct {
	Result json.RawMessage `json:"result,omitempty"` // becomes the task's result; nil = its items' results
	Diff   *Diff           `json:"diff,omitempty"`   // kept on the event
}

// Diff says what applying changed. Operations that are left out are worked out from
// Before and After, and Counts, how many there are of each kind, from Operations.
type Diff struct {
	Summary    string           `json:"summary,omitempty"`
	Before     json.RawMessage  `json:"before,omitempty"`
	After      json.RawMessage  `json:"after,omitempty"`
	Operations json.RawMessage  `json:"operations,omitempty"` // RFC 6902
	Counts     map[string]int64 `json:"counts,omitempty"`
}

// Complaint is one reason why work was not taken: of a check, or of somebody
// who rejects.
type Complaint struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"` // JSON Pointer into the result
}

// ItemPart is a piece of an item's result.
type ItemPart struct {
	ID           string          `json:"id"`
	ItemID       string          `json:"item_id"`
	Key          string          `json:"key"`
	Seq          *int            `json:"seq,omitempty"`
	Status       string          `json:"status"` // draft, validated, rejected
	Payload      json.RawMessage `json:"payload"`
	Evidence     json.RawMessage `json:"evidence,omitempty"`
	Notes        string          `json:"notes,omitempty"`
	Errors       []Field         `json:"errors,omitempty"`
	Checksum     string          `json:"checksum"` // SHA-256 of the payload
	WorkerID     string          `json:"worker_id"`
	Attempt      int             `json:"attempt"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	SupersededAt *time.Time      `json:"superseded_at,omitempty"` // a later part took its place
}
