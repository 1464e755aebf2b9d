package pawl

import (
	"encoding/json"
	"time"
)

// Type names a kind of task and holds its rules. It is data: the same in Go, in
// YAML and JSON files and over HTTP. Each change of a registered type is a new
// version; a task keeps the version it was made with. A type that nobody
// registered is allowed and has the defaults. What only Go can say is in Hooks.
//
// A task's type rules all of the task's items. An item's own type must not be a
// registered one that has rules for input or results: they would not apply.
type Type struct {
	Name        string `json:"name,omitempty"`        // required, ≤ 114; must not end in .plan or .apply
	Version     int    `json:"version,omitempty"`     // from 1, given when it is put; what a caller says is not heard
	Description string `json:"description,omitempty"` // for people and models, ≤ 2000 characters

	// JSON Schemas, draft 2020-12; absent = anything. References go to places
	// within the same schema only.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"` // of the task's payload
	InputSchema   json.RawMessage `json:"input_schema,omitempty"`   // of each item's input
	ResultSchema  json.RawMessage `json:"result_schema,omitempty"`  // of each item's result, assembled or not

	Plan     Plan       `json:"plan,omitzero"`     // from the payload to items
	Parts    []PartRule `json:"parts,omitempty"`   // pieces that results are handed in by; ≤ 100
	Assembly Assembly   `json:"assembly,omitzero"` // from parts to a result

	// Acceptance: results are submitted, and accepted when their task is
	// approved, instead of completing their item at once. Parts, an approval
	// other than none and an apply imply it.
	Acceptance       bool     `json:"acceptance,omitempty"`
	EvidenceRequired bool     `json:"evidence_required,omitempty"` // a submission or part without evidence is refused
	Approval         Approval `json:"approval,omitzero"`
	Apply            Apply    `json:"apply,omitzero"`

	Priority      int         `json:"priority,omitempty"`      // of tasks that name none
	MaxAttempts   int         `json:"max_attempts,omitempty"`  // 1…1000 of items that name none; 0 = 3
	LeaseSeconds  int         `json:"lease_seconds,omitempty"` // 1…86400 of claims for the type that name none; 0 = 300
	Backoff       Backoff     `json:"backoff,omitzero"`
	OnItemFailure FailurePlan `json:"on_item_failure,omitempty"` // "" = wait
	Limits        TypeLimits  `json:"limits,omitzero"`
	Retention     Retention   `json:"retention,omitzero"`

	CreatedAt *time.Time `json:"created_at,omitempty"` // of this version; what a caller says is not heard
	RemovedAt *time.Time `json:"removed_at,omitempty"` // set: new tasks of the name have the defaults
}

// PlanMode says who makes a task's items.
type PlanMode string

// The plan modes.
const (
	PlanStatic PlanMode = "static" // "" too: the items that the call names; without any, one whose input is the payload
	PlanSplit  PlanMode = "split"  // a list in the payload, cut into chunks
	PlanGo     PlanMode = "go"     // Hooks.Plan of the process that creates the task
	PlanItem   PlanMode = "item"   // a worker that claims <type>.plan; its result is the items
)

// Plan says how a payload becomes items. With any mode but static a call must
// not name items itself.
type Plan struct {
	Mode PlanMode `json:"mode,omitempty"`

	// Split. Chunk n of the list at Pointer becomes an item whose input is an
	// object: {Number: n, Into: the chunk, and the payload's members in Keep}.
	Pointer string   `json:"pointer,omitempty"` // JSON Pointer to a list in the payload
	Size    int      `json:"size,omitempty"`    // 1…100,000 elements a chunk
	Into    string   `json:"into,omitempty"`    // member the chunk is put in; "" = the pointer's last token
	Number  string   `json:"number,omitempty"`  // member that takes the chunk's number, from 1; "" = none
	Keep    []string `json:"keep,omitempty"`    // members of the payload that each input has too

	// Item: the plan item's own budget and lease; 0 = the type's.
	MaxAttempts  int `json:"max_attempts,omitempty"`
	LeaseSeconds int `json:"lease_seconds,omitempty"`
}

// PartRule says what parts of one key are like.
type PartRule struct {
	Key        string          `json:"key"` // ≤ 120, once in a type
	Schema     json.RawMessage `json:"schema,omitempty"`
	Required   bool            `json:"required,omitempty"`   // finalize in strict mode needs one that is validated
	Repeatable bool            `json:"repeatable,omitempty"` // parts of this key carry a seq, from 0
}

// AssemblyMode says how parts become a result.
type AssemblyMode string

// The assembly modes.
const (
	AssembleMerge  AssemblyMode = "merge"  // "" too: an object, each part under its key; repeatable ones as a list by seq
	AssembleConcat AssemblyMode = "concat" // like merge, and the lists of a repeatable key are joined into one
	AssembleGo     AssemblyMode = "go"     // Hooks.Assemble
)

// Assembly says how an item's parts become its result.
type Assembly struct {
	Mode AssemblyMode `json:"mode,omitempty"`
}

// ApprovalMode says who approves a submitted task.
type ApprovalMode string

// The approval modes.
const (
	ApprovalNone   ApprovalMode = "none"   // "" too: a submitted task needs nobody's consent and is approved at once
	ApprovalAuto   ApprovalMode = "auto"   // approved by rule (When, Hooks.AutoApprove); what no rule approves waits for somebody
	ApprovalManual ApprovalMode = "manual" // waits for somebody
)

// Approval says how a submitted task is approved.
type Approval struct {
	Mode ApprovalMode `json:"mode,omitempty"`
	// When is auto's rule as data: a JSON Schema that every item's result must
	// fit. Absent and without a hook, auto approves whatever passed its checks.
	When json.RawMessage `json:"when,omitempty"`
	// By lists who may decide, as type/id or type/* of the caller's actor; empty
	// = whoever holds the approver's role.
	By []string `json:"by,omitempty"`
	// NotByRequester: who asked for the task may not approve it: neither its
	// requested_by, nor the actor or the API key that created it. Nil = where the
	// mode is manual.
	NotByRequester *bool `json:"not_by_requester,omitempty"`
	// NotByWorker: who claimed an item of the task may not approve it: neither that
	// worker, nor its actor or API key. Nil = where the mode is manual, or
	// NotByRequester is true.
	NotByWorker *bool `json:"not_by_worker,omitempty"`
	// ExpiresSeconds after it was submitted a task that nobody decided about
	// leaves an event approval_expired; 0 = never.
	ExpiresSeconds int `json:"expires_seconds,omitempty"`
	// OnExpiry is what else happens then; "" = wait.
	OnExpiry ExpiryPlan `json:"on_expiry,omitempty"`
	// EscalateTo lists who may decide after an escalation, besides By.
	EscalateTo []string `json:"escalate_to,omitempty"`
}

// Separates says whom the rules keep from approving: the requester of a task,
// and the workers on it.
func (a *Approval) Separates() (requester, workers bool) {
	requester = a.Mode == ApprovalManual
	if a.NotByRequester != nil {
		requester = *a.NotByRequester
	}
	workers = a.Mode == ApprovalManual || requester
	if a.NotByWorker != nil {
		workers = *a.NotByWorker
	}
	return requester, workers
}

// ExpiryPlan says what becomes of an approval that expired.
type ExpiryPlan string

// The expiry plans.
const (
	ExpiryWait     ExpiryPlan = "wait"     // go on waiting
	ExpiryEscalate ExpiryPlan = "escalate" // an event escalated, and EscalateTo may decide too
	ExpiryReject   ExpiryPlan = "reject"   // the task is rejected
)

// ApplyMode says who applies an approved task.
type ApplyMode string

// The apply modes.
const (
	ApplyNone ApplyMode = "none" // "" too: there is nothing to apply; approved is applied
	ApplyGo   ApplyMode = "go"   // Hooks.Apply, in the transaction of the change
	ApplyItem ApplyMode = "item" // a worker that claims <type>.apply
)

// Apply says how an approved task takes effect.
type Apply struct {
	Mode         ApplyMode `json:"mode,omitempty"`
	MaxAttempts  int       `json:"max_attempts,omitempty"`  // of the apply item; 0 = the type's
	LeaseSeconds int       `json:"lease_seconds,omitempty"` // of the apply item; 0 = the type's
}

// FailurePlan says what becomes of the others when an item of a task has failed.
type FailurePlan string

// The failure plans.
const (
	FailureWait   FailurePlan = "wait"   // they run to their end
	FailureCancel FailurePlan = "cancel" // they are cancelled
	FailureIgnore FailurePlan = "ignore" // they run to their end, and decide alone what the task becomes
)

// TypeLimits bound what a type takes. They can only be tighter than the Limits
// that hold for all; 0 = those.
type TypeLimits struct {
	MaxItems        int `json:"max_items,omitempty"`         // of a task
	MaxPayloadBytes int `json:"max_payload_bytes,omitempty"` // of a payload and of each input
	MaxResultBytes  int `json:"max_result_bytes,omitempty"`  // of a result, assembled or not
	MaxParts        int `json:"max_parts,omitempty"`         // live parts of an item
	MaxPartBytes    int `json:"max_part_bytes,omitempty"`    // of a part
}

// Retention says how long tasks that ended, failed or were dead-lettered are kept,
// with all that hangs on them, before they are archived and removed. It overrides
// the ages in SweepOptions, whichever is longer; a task goes by the version that
// it was made with. 0 = as long as all.
type Retention struct {
	TaskSeconds   int `json:"task_seconds,omitempty"`          // 60…ten years after its end
	FailedSeconds int `json:"failed_seconds,omitempty"`        // 60…ten years after a failed task last changed
	DeadSeconds   int `json:"dead_lettered_seconds,omitempty"` // 60…ten years after a dead-lettered task last changed
}

// TypeRef answers a put: the version that holds now.
type TypeRef struct {
	Name      string `json:"name"`
	Version   int    `json:"version"`
	Unchanged bool   `json:"unchanged,omitempty"` // the definition was there already; nothing was written
}

// TypeFilter selects types, by name.
type TypeFilter struct {
	Names    []string
	Versions bool // every version, newest first within a name; else the one that holds
	Removed  bool // those removed too
	Page
}

// Endings of the types of plan and apply items. No task and no other item may
// have such a type: a worker that claims one trusts it to come from Pawl.
const (
	PlanSuffix  = ".plan"
	ApplySuffix = ".apply"
)

// NeedsAcceptance says whether results of the type are submitted, and accepted
// with their task, rather than completing their item at once.
func (t *Type) NeedsAcceptance() bool {
	return t.Acceptance || len(t.Parts) > 0 || t.Approval.Mode != "" && t.Approval.Mode != ApprovalNone ||
		t.Apply.Mode != "" && t.Apply.Mode != ApplyNone
}

// Part is the rule for parts of a key, nil when the type has none.
func (t *Type) Part(key string) *PartRule {
	for i := range t.Parts {
		if t.Parts[i].Key == key {
			return &t.Parts[i]
		}
	}
	return nil
}

// RequiredParts are the keys that a strict finalize needs.
func (t *Type) RequiredParts() []string {
	var keys []string
	for _, p := range t.Parts {
		if p.Required {
			keys = append(keys, p.Key)
		}
	}
	return keys
}
