package pawl

import "encoding/json"

// SubmitCall hands in the result of an item whose type needs acceptance: the item
// completes when its task has been approved and applied. A result that violates the
// type's schema is an invalid error with pointers. The lease and the item then stay as
// they are, and the violations become the item's error.
type SubmitCall struct {
	Fence
	Result     json.RawMessage `json:"result,omitempty"`   // nil = null
	Evidence   json.RawMessage `json:"evidence,omitempty"` // supports the result; kept on the event
	Notes      string          `json:"notes,omitempty"`    // ≤ 1000 characters
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// PartCall hands in one piece of an item's result. It replaces the live part of the same
// key and seq; the old one is kept as superseded. The same payload again changes
// nothing, whatever else the call says. A part that violates its schema is stored as
// rejected, and the call is invalid.
type PartCall struct {
	Fence
	Key      string          `json:"key"`           // one of the type's part keys
	Seq      *int            `json:"seq,omitempty"` // of a repeatable part: its number, from 0
	Payload  json.RawMessage `json:"payload"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
	Notes    string          `json:"notes,omitempty"`
	Draft    bool            `json:"draft,omitempty"` // stored unchecked; not part of a result
}

// FinalizeCall assembles an item's parts and submits the result.
type FinalizeCall struct {
	Fence
	Mode       string          `json:"mode,omitempty"`
	Evidence   json.RawMessage `json:"evidence,omitempty"`
	Notes      string          `json:"notes,omitempty"`
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// PartFilter selects an item's parts, oldest first.
type PartFilter struct {
	ItemID string // required
	Key    string
	All    bool // superseded parts too
	Page
}

// ApproveCall approves a submitted task.
type ApproveCall struct {
	TaskID string `json:"task_id"`
	// the version that was looked at; ErrPrecondition if the task has changed since; nil = any
	Version    *int        `json:"version,omitempty"`
	Comment    string      `json:"comment,omitempty"`
	Provenance *Provenance `json:"provenance,omitempty"`
	// Limit is for tasks of TypeBudget: the budget's new limit. Nil = it is raised as far as the
	// amount needs.
	Limit *int64 `json:"limit,omitempty"`
}

// RejectCall rejects a submitted task for good, or sends items back for rework.
type RejectCall struct {
	TaskID      string      `json:"task_id"`
	Version     *int        `json:"version,omitempty"` // as in ApproveCall
	Errors      []Complaint `json:"errors"`            // at least one; the next worker gets them
	AllowRework bool        `json:"allow_rework,omitempty"`
	ItemIDs     []string    `json:"items,omitempty"` // with AllowRework: only these items; empty = all
	Comment     string      `json:"comment,omitempty"`
	Provenance  *Provenance `json:"provenance,omitempty"`
}
