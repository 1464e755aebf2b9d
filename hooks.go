package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Hooks are the rules of a type that are written in Go. They belong to a process and are
// not stored. Every process that creates, finalizes, approves or applies tasks of the
// type needs the hooks that its definition names; without them the call is unavailable.
// The database notes which types have a Check or an AutoApprove in some process: one
// without it leaves what it decides to a process that has it. An engine with an empty
// Hooks for a type takes that note back, and one with Without that of single hooks.
// Hooks may be called concurrently, and more than once for the same thing. A hook that
// panics has failed.
type Hooks struct {
	// Plan returns the items of a task whose type has plan mode go. It runs before the
	// task's transaction. An *Error of code invalid is returned to the caller unchanged.
	Plan func(ctx context.Context, t NewTask) ([]NewItem, error)

	// Assemble returns an item's result from its live parts, ordered by key and seq, if
	// the type has assembly mode go.
	Assemble func(ctx context.Context, item Item, parts []ItemPart) (json.RawMessage, error)

	// Check examines all results of a task together, once all are submitted. A task with
	// complaints is not ready for approval; up to 100 complaints are stored, within 64 KiB. So is an error, and Check
	// is called again by the next sweep: that of Run comes after 5 s, and with each further error twice as
	// late, up to 5 minutes.
	Check func(ctx context.Context, t Task, items []Item) ([]Complaint, error)

	// AutoApprove decides about tasks whose type has approval mode auto. False leaves
	// the decision to an approver.
	AutoApprove func(ctx context.Context, t Task, items []Item) (bool, error)

	// Apply makes an approved task take effect, if the type has apply mode go.
	Apply func(ctx context.Context, a Application) (Applied, error)
	// BeforeApply may refuse by returning an error; AfterApply is called when it is
	// done. Both are of the process that applies: without Apply they are refused.
	BeforeApply func(ctx context.Context, a Application) error
	AfterApply  func(ctx context.Context, t Task, done Applied)

	// Without names hooks that no process has any more, "Check" or "AutoApprove". Tasks that waited for them go on.
	Without []string
}

// Application is the input of the apply hooks.
type Application struct {
	Task  Task
	Items []Item // accepted, with their results
	// Tx is the transaction of the change: a pgx.Tx on PostgreSQL, nil on SQLite. What
	// is written in it is committed only if the task is applied.
	Tx any
}

// Applied is the result of applying.
type Applied struct {
	Result json.RawMessage `json:"result,omitempty"` // becomes the task's result; nil = the results of its items
	Diff   *Diff           `json:"diff,omitempty"`   // kept on the event
}

// Diff says what applying changed. If Operations is absent it is computed from Before
// and After, and Counts, the number of operations of each kind, from Operations.
type Diff struct {
	Summary    string           `json:"summary,omitempty"`
	Before     json.RawMessage  `json:"before,omitempty"`
	After      json.RawMessage  `json:"after,omitempty"`
	Operations json.RawMessage  `json:"operations,omitempty"` // RFC 6902
	Counts     map[string]int64 `json:"counts,omitempty"`
}

// Complaint is one reason why work was rejected, by a check or by an approver.
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
	SupersededAt *time.Time      `json:"superseded_at,omitempty"` // when a later part replaced it
}
