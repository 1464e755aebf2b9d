package pawl

import "encoding/json"

// SubmitCall hands an item's result in, where the type asks for acceptance: the
// item is completed when its task has been approved and applied. A result that
// does not fit the type's schema is invalid, with pointers; the lease and the
// item stay as they were, and the complaints are the item's error.
type SubmitCall struct {
	Fence
	Result     json.RawMessage `json:"result,omitempty"`   // nil = null
	Evidence   json.RawMessage `json:"evidence,omitempty"` // what the result rests on; kept on the event
	Notes      string          `json:"notes,omitempty"`    // ≤ 1000 characters
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// PartCall hands in a piece of an item's result. It takes the place of the
// live part of the same key and seq; the old one stays as evidence. The same
// payload again changes nothing, whatever is said with it. A piece that does not fit its schema is kept as
// rejected, and the call is invalid.
type PartCall struct {
	Fence
	Key      string          `json:"key"`           // one of the type's
	Seq      *int            `json:"seq,omitempty"` // of a repeatable part, from 0
	Payload  json.RawMessage `json:"payload"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
	Notes    string          `json:"notes,omitempty"`
	Draft    bool            `json:"draft,omitempty"` // kept unchecked; not part of a result
}

// The modes of a finalize.
const (
	FinalizeStrict     = "strict"      // "" too: every required part is there, and none is a draft or rejected
	FinalizeBestEffort = "best_effort" // of what is validated
)

// FinalizeCall puts an item's parts together and submits what comes of it.
type FinalizeCall struct {
	Fence
	Mode       string          `json:"mode,omitempty"`
	Evidence   json.RawMessage `json:"evidence,omitempty"`
	Notes      string          `json:"notes,omitempty"`
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// The statuses of a part.
const (
	PartDraft     = "draft"
	PartValidated = "validated"
	PartRejected  = "rejected"
)

// PartFilter selects an item's parts, oldest first.
type PartFilter struct {
	ItemID string // required
	Key    string
	All    bool // those that a later one took the place of too
	Page
}

// ApproveCall decides for a submitted task.
type ApproveCall struct {
	TaskID     string      `json:"task_id"`
	Version    *int        `json:"version,omitempty"` // the task must still have it: what was looked at; nil = any
	Comment    string      `json:"comment,omitempty"`
	Provenance *Provenance `json:"provenance,omitempty"`
}

// RejectCall decides against a submitted task: for good, or sends items back.
type RejectCall struct {
	TaskID      string      `json:"task_id"`
	Version     *int        `json:"version,omitempty"` // as in ApproveCall
	Errors      []Complaint `json:"errors"`            // at least one: the next worker gets them
	AllowRework bool        `json:"allow_rework,omitempty"`
	ItemIDs     []string    `json:"items,omitempty"` // rework: only these; empty = all
	Comment     string      `json:"comment,omitempty"`
	Provenance  *Provenance `json:"provenance,omitempty"`
}
