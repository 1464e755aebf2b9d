package pawl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl/internal/asked"
)

// Item is one unit of work, leased by one worker at a time. After a lease these fields
// keep its data: LastWorkerID, Attempt, Failures, StartedAt, Error.
type Item struct {
	ID              string          `json:"id"`
	TaskID          string          `json:"task_id"`
	Namespace       string          `json:"namespace"`
	Type            string          `json:"type"`
	Kind            string          `json:"kind"` // work, plan, apply
	Key             string          `json:"key,omitempty"`
	Position        int             `json:"position"`
	State           ItemState       `json:"state"`
	Status          Status          `json:"status"` // expired: the lease has run out and is not swept yet
	Stage           string          `json:"stage"`
	Progress        int             `json:"progress"`
	Priority        int             `json:"priority"`
	Attempt         int             `json:"attempt"`  // number of claims; part of the fence
	Failures        int             `json:"failures"` // counted against MaxAttempts
	MaxAttempts     int             `json:"max_attempts"`
	Rework          int             `json:"rework,omitempty"`
	WorkerID        string          `json:"worker_id,omitempty"` // the holder, while leased
	LastWorkerID    string          `json:"last_worker_id,omitempty"`
	LeaseSeconds    int             `json:"lease_seconds,omitempty"`
	LeaseAcquiredAt *time.Time      `json:"lease_acquired_at,omitempty"`
	LeaseExpiresAt  *time.Time      `json:"lease_expires_at,omitempty"`
	HeartbeatAt     *time.Time      `json:"heartbeat_at,omitempty"`
	Input           json.RawMessage `json:"input"`
	Result          json.RawMessage `json:"result,omitempty"`
	AssembledResult json.RawMessage `json:"assembled_result,omitempty"`
	PartsRequired   json.RawMessage `json:"parts_required,omitempty"`
	// of one item read by itself: by key, the status and number of its live parts
	PartsState  json.RawMessage `json:"parts_state,omitempty"`
	Error       *Failure        `json:"error,omitempty"` // the last error, in every state
	After       []string        `json:"after,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"` // scheduled: when it becomes due; waiting: when the wait ends
	Deadline    *time.Time      `json:"deadline,omitempty"`
	BlockedBy   *Blocked        `json:"blocked_by"` // what it waits for, if no worker holds it
	CreatedAt   time.Time       `json:"created_at"`
	StartedAt   *time.Time      `json:"started_at,omitempty"` // first claim
	AcceptedAt  *time.Time      `json:"accepted_at,omitempty"`
	CompletedAt *time.Time      `json:"completed_at,omitempty"` // set by final states and by failed, cleared by a retry
	UpdatedAt   time.Time       `json:"updated_at"`             // of the last change, heartbeats included
	// of the answer to a worker's call: an earlier call of this worker, attempt and body was carried
	// out, and this one changed nothing
	Repeated bool `json:"repeated,omitempty"`
}

// The words of items, of their parts, and of calls about them.
const (
	// The kinds of items. Plan and apply items are claimed only by naming their type.
	KindWork  = "work"
	KindPlan  = "plan"
	KindApply = "apply"

	// The modes of a finalize.
	FinalizeStrict     = "strict"      // the default: every required part exists, and none is a draft or rejected
	FinalizeBestEffort = "best_effort" // from the validated parts only

	// The statuses of a part.
	PartDraft     = "draft"
	PartValidated = "validated"
	PartRejected  = "rejected"

	// The values of ChildWait.OnFailure. A child fails if it ends in another state than completed.
	OnFailureFail     = "fail"     // the item fails with the code child_failed as soon as it cannot get what it needs
	OnFailureContinue = "continue" // children that failed count as ended
	OnFailureCancel   = "cancel"   // as soon as the item cannot get what it needs, the other children are cancelled and it goes on

	// SinceEver is the value of SuspendCall.Since that takes any stored signal.
	SinceEver = "ever"

	// OrderCreated is the value of KeyLimits.Order for items of a key one at a time, in the order
	// in which they were created.
	OrderCreated = "created"

	// What makes a task unique: Unique.By.
	UniqueByInput = "input" // its payload and items
	UniqueByKey   = "key"   // a key that the caller gives

	// What a create does that finds an older task: Unique.OnConflict.
	OnConflictReject  = "reject"  // it is refused; the error has the older task's id
	OnConflictReturn  = "return"  // it returns the older task
	OnConflictReplace = "replace" // it replaces the older task's payload, if no worker has claimed it yet, and is refused otherwise
)

// Failure is why an item or task failed. A plain JSON string is read as its message.
type Failure struct {
	Code    string          `json:"code,omitempty"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// UnmarshalJSON reads an object or a plain string.
func (f *Failure) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*f = Failure{}
		return json.Unmarshal(b, &f.Message)
	}
	type plain Failure
	return json.Unmarshal(b, (*plain)(f))
}

// Fence identifies a claim. Every write of a worker carries it, and is refused if it is
// not the item's current claim by the database's clock.
type Fence struct {
	ItemID   string `json:"id"`
	WorkerID string `json:"worker_id"`
	Attempt  int    `json:"attempt"`
}

// ClaimRequest asks for items to work on: highest priority first; within a priority,
// items that were given back before new ones, then the oldest first.
type ClaimRequest struct {
	WorkerID string   `json:"worker_id"`
	Types    []string `json:"types,omitempty"` // empty = any type of work
	TaskID   string   `json:"task_id,omitempty"`
	ItemID   string   `json:"item_id,omitempty"`
	Limit    int      `json:"limit,omitempty"` // 1…1000; 0 = 1
	// 1…86400; 0 = each item has the lease of its own type, or 300
	LeaseSeconds int         `json:"lease_seconds,omitempty"`
	WaitSeconds  int         `json:"wait_seconds,omitempty"` // 0…60: how long to wait for work
	Prefetch     bool        `json:"prefetch,omitempty"`     // claimed ahead; an expiry is not counted if the item was never started
	Provenance   *Provenance `json:"provenance,omitempty"`   // of the claimer
}

// Lease is one claimed item: its input, and until when the worker holds it.
type Lease struct {
	ID             string          `json:"id"`
	TaskID         string          `json:"task_id"`
	Type           string          `json:"type"`
	Key            string          `json:"key,omitempty"`
	Attempt        int             `json:"attempt"`
	Failures       int             `json:"failures"`
	MaxAttempts    int             `json:"max_attempts"`
	Priority       int             `json:"priority"`
	Input          json.RawMessage `json:"input"`
	LeaseSeconds   int             `json:"lease_seconds"`
	LeaseExpiresAt time.Time       `json:"lease_expires_at"`
	ServerTime     time.Time       `json:"server_time"` // the database's clock at the claim
	WorkerID       string          `json:"worker_id"`
	OpenMessage    *OpenMessage    `json:"open_message,omitempty"` // of an earlier attempt, or created with the task
	// the id of its message that was stopped, if none is open: do not write it again
	Stopped []string    `json:"stopped,omitempty"`
	Token   string      `json:"token"`             // proves to other services that the item is being worked on: see TaskToken
	Error   *Failure    `json:"error,omitempty"`   // the item's last error
	Reasons []Complaint `json:"reasons,omitempty"` // why the item was sent back for rework, the last time
	Rework  int         `json:"rework,omitempty"`  // how often it was sent back
	// the task began with the checkpoints of another one, so the first attempt may have a resume state
	Forked bool `json:"forked,omitempty"`
	// the W3C trace context of the call that created the task; "" = it had none
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
}

// Fence returns the fence of this claim.
func (l Lease) Fence() Fence { return Fence{l.ID, l.WorkerID, l.Attempt} }

// Resumes reports whether something may have been left for this attempt to resume from: by an earlier
// one, or by the task that its task is a fork of. Else its resume state has no checkpoints.
func (l Lease) Resumes() bool { return l.Attempt > 1 || l.Forked }

// HeartbeatCall extends a lease; LeaseSeconds 0 = the length of the claim.
type HeartbeatCall struct {
	Fence
	LeaseSeconds int `json:"lease_seconds,omitempty"`
}

// Beat is the answer to a heartbeat. If Cancelled is set the item was cancelled: stop.
type Beat struct {
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
	LeaseSeconds   int       `json:"lease_seconds,omitempty"`
	ServerTime     time.Time `json:"server_time"`
	Cancelled      bool      `json:"cancelled"`
	Stopped        []string  `json:"stopped"` // ids of the item's messages that were stopped
}

// ProgressCall reports how far an item is. A nil Progress or Stage stays as it was.
type ProgressCall struct {
	Fence
	Progress *int    `json:"progress,omitempty"` // 0…100; below 100 until completed
	Stage    *string `json:"stage,omitempty"`
}

// CompleteCall ends an item with its result.
type CompleteCall struct {
	Fence
	Result     json.RawMessage `json:"result,omitempty"` // nil = null
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// FailCall reports that an attempt failed.
type FailCall struct {
	Fence
	Error        Failure     `json:"error"`
	Retryable    *bool       `json:"retryable,omitempty"`      // nil = true
	RetryAfterMS *int64      `json:"retry_after_ms,omitempty"` // nil = the policy's back-off; 0 = at once
	Provenance   *Provenance `json:"provenance,omitempty"`
}

// ReleaseCall gives an item back; the attempt is not counted as a failure. With
// DelaySeconds the item is scheduled for that long, and queued after it.
type ReleaseCall struct {
	Fence
	DelaySeconds int `json:"delay_seconds,omitempty"` // 0 = claimable at once; ≤ 10 years
}

// SuspendCall gives the lease up until a time or a signal; at least one is required.
type SuspendCall struct {
	Fence
	Until  *time.Time `json:"until,omitempty"`
	Signal string     `json:"signal,omitempty"`
	Key    string     `json:"key,omitempty"` // of the signal
	// Since says which signal ends the wait that was sent before it. "" = one that was sent after
	// the item last took one of this name and key, or any if it took none; "ever" = any.
	Since string `json:"since,omitempty"`
	// Children are the children to wait for, in place of a time and a signal.
	Children *ChildWait `json:"children,omitempty"`
}

// Moved is the answer to a worker's verb: the item's new state.
type Moved struct {
	ID       string     `json:"id"`
	TaskID   string     `json:"task_id"`
	State    ItemState  `json:"state"`
	Attempt  int        `json:"attempt"`
	Failures int        `json:"failures"`
	RunAt    *time.Time `json:"run_at,omitempty"` // scheduled, waiting: when it continues
	// Repeated says that an earlier call of this worker, attempt and body was carried out. This call
	// changed nothing; the answer is how that call left the item.
	Repeated bool `json:"repeated,omitempty"`
	// Item is the whole item as the verb left it, if the context asks for it (WithItem)
	// and the service runs in this process; else nil.
	Item *Item `json:"-"`
}

// WithItem returns a context in which verbs that change an item return it in Moved.Item.
// Their statement then reads the item's input too, so use it for single calls.
func WithItem(ctx context.Context) context.Context {
	return asked.With(ctx, asked.Item, true)
}

// RevokeCall ends the lease of an item, whichever worker holds it.
type RevokeCall struct {
	ItemID  string `json:"id"`
	Attempt int    `json:"attempt,omitempty"` // only the lease of this attempt; 0 = the current one
	Reason  string `json:"reason,omitempty"`  // kept on the event
}

// ItemFilter selects items, oldest first unless Desc.
type ItemFilter struct {
	IDs      []string `id:"item"`
	TaskID   string
	Types    []string
	States   []ItemState
	Statuses []Status // also StatusExpired
	WorkerID string   // the holder or the last holder
	// Search is the beginning of an id of the item, its task or one of its messages, or else of
	// its type. The case of ASCII letters does not count.
	Search  string
	Error   string // part of the code or message of its last error, in any case, if it has not ended
	Failure string // of this group of failures: FailureGroup.Failure
	Desc    bool
	// Fields are the members to read; nil = all. input, result and assembled_result are
	// not read from the database unless they are listed.
	Fields []string
	Page
}
