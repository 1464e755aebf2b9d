package pawl

import (
	"encoding/json"
	"time"
)

// Type names a kind of task and holds its rules. It is data: the same in Go, in YAML and
// JSON files and over HTTP. Each change of a registered type is a new version, and a
// task keeps the version that it was created with. A type that is not registered is
// allowed and has the defaults. Rules that need Go code are in Hooks.
//
// The rules of a task's type apply to all of the task's items. An item's own type must
// not be a registered type with rules for input or results, because they would not
// apply.
type Type struct {
	Name        string `json:"name,omitempty"`        // required, ≤ 114; must not end in .plan or .apply
	Version     int    `json:"version,omitempty"`     // from 1, assigned when the type is put; ignored in calls
	Description string `json:"description,omitempty"` // for people and models, ≤ 2000 characters

	// JSON Schemas, draft 2020-12 or draft-07; absent = anything. References must stay within the
	// same schema.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"` // of the task's payload
	InputSchema   json.RawMessage `json:"input_schema,omitempty"`   // of each item's input
	ResultSchema  json.RawMessage `json:"result_schema,omitempty"`  // of each item's result, assembled or not

	Plan     Plan       `json:"plan,omitzero"`     // how the payload becomes items
	Parts    []PartRule `json:"parts,omitempty"`   // the parts that results can be handed in by; ≤ 100
	Assembly Assembly   `json:"assembly,omitzero"` // how parts become a result

	// Acceptance: results are submitted instead of completing their item at once, and
	// accepted when their task is approved. Parts, an approval other than none and an
	// apply imply it.
	Acceptance       bool     `json:"acceptance,omitempty"`
	EvidenceRequired bool     `json:"evidence_required,omitempty"` // a submission or part without evidence is refused
	Approval         Approval `json:"approval,omitzero"`
	Apply            Apply    `json:"apply,omitzero"`

	Priority      int         `json:"priority,omitempty"`      // default for tasks
	MaxAttempts   int         `json:"max_attempts,omitempty"`  // default for items, 1…1000; 0 = 3
	LeaseSeconds  int         `json:"lease_seconds,omitempty"` // default for claims of one type, 1…86400; 0 = 300
	Backoff       Backoff     `json:"backoff,omitzero"`
	OnItemFailure FailurePlan `json:"on_item_failure,omitempty"` // "" = wait
	Limits        TypeLimits  `json:"limits,omitzero"`
	Retention     Retention   `json:"retention,omitzero"`

	CreatedAt *time.Time `json:"created_at,omitempty"` // of this version; ignored in calls
	RemovedAt *time.Time `json:"removed_at,omitempty"` // if set, new tasks of the name get the defaults
}

// PlanMode says how a task's items are made.
type PlanMode string

// The plan modes.
const (
	PlanStatic PlanMode = "static" // the default: the items of the call; without any, one with the payload as input
	PlanSplit  PlanMode = "split"  // a list in the payload, cut into chunks
	PlanGo     PlanMode = "go"     // Hooks.Plan of the process that creates the task
	PlanItem   PlanMode = "item"   // a worker that claims <type>.plan; its result is the list of items
)

// Plan says how a payload becomes items. With every mode except static, a call must not
// name items itself.
type Plan struct {
	Mode PlanMode `json:"mode,omitempty"`

	// Mode split: chunk n of the list at Pointer becomes an item. Its input is an
	// object: {Number: n, Into: the chunk, and the payload's members in Keep}.
	Pointer string   `json:"pointer,omitempty"` // JSON Pointer to a list in the payload
	Size    int      `json:"size,omitempty"`    // elements of a chunk, 1…100,000
	Into    string   `json:"into,omitempty"`    // member that holds the chunk; "" = the pointer's last token
	Number  string   `json:"number,omitempty"`  // member that holds the chunk's number, from 1; "" = none
	Keep    []string `json:"keep,omitempty"`    // members of the payload that are copied to each input

	// Mode item: failure budget and lease of the plan item; 0 = the type's.
	MaxAttempts  int `json:"max_attempts,omitempty"`
	LeaseSeconds int `json:"lease_seconds,omitempty"`
}

// PartRule is the rule for the parts of one key.
type PartRule struct {
	Key        string          `json:"key"` // ≤ 120 characters, unique in the type
	Schema     json.RawMessage `json:"schema,omitempty"`
	Required   bool            `json:"required,omitempty"`   // submit and a strict finalize need a validated one
	Repeatable bool            `json:"repeatable,omitempty"` // parts of this key have a seq, from 0
}

// AssemblyMode says how parts become a result.
type AssemblyMode string

// The assembly modes.
const (
	AssembleMerge  AssemblyMode = "merge"  // the default: an object with each part under its key; repeatable ones as a list by seq
	AssembleConcat AssemblyMode = "concat" // like merge, but the lists of a repeatable key are joined into one
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
	ApprovalNone   ApprovalMode = "none"   // the default: a submitted task is approved at once
	ApprovalAuto   ApprovalMode = "auto"   // approved by rule (When, Hooks.AutoApprove); otherwise it waits for an approver
	ApprovalManual ApprovalMode = "manual" // waits for an approver
)

// Approval says how a submitted task is approved.
type Approval struct {
	Mode ApprovalMode `json:"mode,omitempty"`
	// When is the rule of mode auto: a JSON Schema that every item's result must fit.
	// Without it and without a hook, auto approves every task that passed its checks.
	When json.RawMessage `json:"when,omitempty"`
	// By lists who may decide, as type/id or type/* of the caller's actor; empty = every
	// approver.
	By []string `json:"by,omitempty"`
	// NotByRequester: the requester must not approve the task. That is its requested_by,
	// and the actor and the API key that created it. Nil = true if the mode is manual.
	NotByRequester *bool `json:"not_by_requester,omitempty"`
	// NotByWorker: a worker that claimed an item of the task must not approve it;
	// neither may its actor or API key. Nil = true if the mode is manual or
	// NotByRequester is true.
	NotByWorker *bool `json:"not_by_worker,omitempty"`
	// ExpiresSeconds after its submission an undecided task leaves an event
	// approval_expired; 0 = never.
	ExpiresSeconds int `json:"expires_seconds,omitempty"`
	// OnExpiry is what else happens then; "" = wait.
	OnExpiry ExpiryPlan `json:"on_expiry,omitempty"`
	// EscalateTo lists who may decide after an escalation, in addition to By.
	EscalateTo []string `json:"escalate_to,omitempty"`
}

// Separates reports who must not approve by these rules: the requester of a task, and
// the workers on it.
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

// ExpiryPlan says what happens when an approval expires.
type ExpiryPlan string

// The expiry plans.
const (
	ExpiryWait     ExpiryPlan = "wait"     // keep waiting
	ExpiryEscalate ExpiryPlan = "escalate" // leave an event escalated; EscalateTo may decide too
	ExpiryReject   ExpiryPlan = "reject"   // the task is rejected
)

// ApplyMode says who applies an approved task.
type ApplyMode string

// The apply modes.
const (
	ApplyNone ApplyMode = "none" // the default: nothing to apply; an approved task completes
	ApplyGo   ApplyMode = "go"   // Hooks.Apply, in the transaction of the change
	ApplyItem ApplyMode = "item" // a worker that claims <type>.apply
)

// Apply says how an approved task takes effect.
type Apply struct {
	Mode         ApplyMode `json:"mode,omitempty"`
	MaxAttempts  int       `json:"max_attempts,omitempty"`  // of the apply item; 0 = the type's
	LeaseSeconds int       `json:"lease_seconds,omitempty"` // of the apply item; 0 = the type's
}

// FailurePlan says what happens to the other items of a task when one has failed.
type FailurePlan string

// The failure plans.
const (
	FailureWait   FailurePlan = "wait"   // they run to their end
	FailureCancel FailurePlan = "cancel" // they are cancelled
	FailureIgnore FailurePlan = "ignore" // they run to their end, and only they decide the task's state
)

// TypeLimits are limits of a type. They can only be tighter than Limits; 0 = those.
type TypeLimits struct {
	MaxItems        int `json:"max_items,omitempty"`         // of a task
	MaxPayloadBytes int `json:"max_payload_bytes,omitempty"` // of a payload and of each input
	MaxResultBytes  int `json:"max_result_bytes,omitempty"`  // of a result, assembled or not
	MaxParts        int `json:"max_parts,omitempty"`         // live parts of an item
	MaxPartBytes    int `json:"max_part_bytes,omitempty"`    // of a part
}

// Retention is how long ended, failed and dead-lettered tasks are kept, with all their
// rows, before they are archived and removed. It overrides SweepOptions, whether it is
// shorter or longer. A task uses the version that it was created with. 0 = the value of
// SweepOptions.
type Retention struct {
	TaskSeconds   int `json:"task_seconds,omitempty"`          // 60…ten years after its end
	FailedSeconds int `json:"failed_seconds,omitempty"`        // 60…ten years after a failed task last changed
	DeadSeconds   int `json:"dead_lettered_seconds,omitempty"` // 60…ten years after a dead-lettered task last changed
}

// TypeRef is the answer to a put: the current version.
type TypeRef struct {
	Name      string `json:"name"`
	Version   int    `json:"version"`
	Unchanged bool   `json:"unchanged,omitempty"` // the same definition was registered already; nothing was written
}

// TypeFilter selects types, by name.
type TypeFilter struct {
	Names    []string
	Versions bool // every version, newest first within a name; false = the current one
	Removed  bool // removed types too
	Page
}

// NeedsAcceptance reports whether results of the type are submitted, and accepted with
// their task, rather than completing their item at once.
func (t *Type) NeedsAcceptance() bool {
	return t.Acceptance || len(t.Parts) > 0 || t.Approval.Mode != "" && t.Approval.Mode != ApprovalNone ||
		t.Apply.Mode != "" && t.Apply.Mode != ApplyNone
}

// Part returns the rule for parts of a key; nil if there is none.
func (t *Type) Part(key string) *PartRule {
	for i := range t.Parts {
		if t.Parts[i].Key == key {
			return &t.Parts[i]
		}
	}
	return nil
}

// RequiredParts returns the keys that submit and a strict finalize need.
func (t *Type) RequiredParts() []string {
	var keys []string
	for _, p := range t.Parts {
		if p.Required {
			keys = append(keys, p.Key)
		}
	}
	return keys
}
