package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Item is one unit of work, leased by one worker at a time. What a lease knew
// stays readable after it: LastWorkerID, Attempt, Failures, StartedAt, Error.
type Item struct {
	ID              string          `json:"id"`
	TaskID          string          `json:"task_id"`
	Namespace       string          `json:"namespace"`
	Type            string          `json:"type"`
	Kind            string          `json:"kind"` // work, plan, apply
	Key             string          `json:"key,omitempty"`
	Position        int             `json:"position"`
	State           ItemState       `json:"state"`
	Status          Status          `json:"status"` // expired while a lease has run out and is not swept
	Stage           string          `json:"stage"`
	Progress        int             `json:"progress"`
	Priority        int             `json:"priority"`
	Attempt         int             `json:"attempt"`  // claims so far: the fence
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
	Error       *Failure        `json:"error,omitempty"` // the last one, in every state
	After       []string        `json:"after,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"` // scheduled: when it becomes due; waiting: until when
	BlockedBy   *Blocked        `json:"blocked_by"`       // what it waits for, where nobody works on it
	CreatedAt   time.Time       `json:"created_at"`
	StartedAt   *time.Time      `json:"started_at,omitempty"` // first claim
	AcceptedAt  *time.Time      `json:"accepted_at,omitempty"`
	CompletedAt *time.Time      `json:"completed_at,omitempty"` // set at ends and at failed, cleared by retry
	UpdatedAt   time.Time       `json:"updated_at"`             // newest change, heartbeats too
}

// Kinds of items. Plan and apply items are claimed only by name.
const (
	KindWork  = "work"
	KindPlan  = "plan"
	KindApply = "apply"
)

// Failure is why an item or task failed. As JSON it is read from a string too.
type Failure struct {
	Code    string          `json:"code,omitempty"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// UnmarshalJSON reads the object or a plain string.
func (f *Failure) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*f = Failure{}
		return json.Unmarshal(b, &f.Message)
	}
	type plain Failure
	return json.Unmarshal(b, (*plain)(f))
}

// Fence names a claim: every write by a worker carries one, and is refused whole
// unless it is the item's current claim by the database's clock.
type Fence struct {
	ItemID   string `json:"id"`
	WorkerID string `json:"worker_id"`
	Attempt  int    `json:"attempt"`
}

// ClaimRequest asks for items to work on: highest priority first, then what was
// handed back before what is fresh, then oldest.
type ClaimRequest struct {
	WorkerID     string      `json:"worker_id"`
	Types        []string    `json:"types,omitempty"` // empty = any kind of work
	TaskID       string      `json:"task_id,omitempty"`
	ItemID       string      `json:"item_id,omitempty"`
	Limit        int         `json:"limit,omitempty"`         // 1…1000; 0 = 1
	LeaseSeconds int         `json:"lease_seconds,omitempty"` // 1…86400; 0 = 300
	WaitSeconds  int         `json:"wait_seconds,omitempty"`  // 0…60: wait for work that long
	Prefetch     bool        `json:"prefetch,omitempty"`      // taken ahead: expires uncounted if never started
	Provenance   *Provenance `json:"provenance,omitempty"`    // of who claims
}

// Lease is one claimed item: what to do and until when it is ours.
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
	OpenMessage    *OpenMessage    `json:"open_message,omitempty"` // that an earlier attempt, or the task's maker, has begun
	// id of its message that was stopped, when none is open: it is not to be said again
	Stopped []string    `json:"stopped,omitempty"`
	Token   string      `json:"token"`             // shows a service of yours that the item is being worked on: see TaskToken
	Error   *Failure    `json:"error,omitempty"`   // the item's last one: what to do otherwise
	Reasons []Complaint `json:"reasons,omitempty"` // why the item was sent back for rework, the last time it was
}

// Fence names this claim.
func (l Lease) Fence() Fence { return Fence{l.ID, l.WorkerID, l.Attempt} }

// HeartbeatCall extends a lease; LeaseSeconds 0 = the claim's.
type HeartbeatCall struct {
	Fence
	LeaseSeconds int `json:"lease_seconds,omitempty"`
}

// Beat answers a heartbeat. Cancelled says that the item was cancelled: stop.
type Beat struct {
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
	LeaseSeconds   int       `json:"lease_seconds,omitempty"`
	ServerTime     time.Time `json:"server_time"`
	Cancelled      bool      `json:"cancelled"`
	Stopped        []string  `json:"stopped"` // ids of the item's messages that were stopped
}

// ProgressCall reports how far an item is. Nil Progress and nil Stage leave what is.
type ProgressCall struct {
	Fence
	Progress *int    `json:"progress,omitempty"` // 0…100; below 100 until completed
	Stage    *string `json:"stage,omitempty"`
}

// CompleteCall hands in an item's result and ends it.
type CompleteCall struct {
	Fence
	Result     json.RawMessage `json:"result,omitempty"` // nil = null
	Provenance *Provenance     `json:"provenance,omitempty"`
}

// FailCall says that an attempt failed.
type FailCall struct {
	Fence
	Error        Failure     `json:"error"`
	Retryable    *bool       `json:"retryable,omitempty"`      // nil = true
	RetryAfterMS *int64      `json:"retry_after_ms,omitempty"` // nil = the policy's back-off; 0 = at once
	Provenance   *Provenance `json:"provenance,omitempty"`
}

// ReleaseCall gives an item back, uncounted.
type ReleaseCall struct {
	Fence
}

// SuspendCall gives the lease up until a time or a signal.
type SuspendCall struct {
	Fence
	Until  *time.Time `json:"until,omitempty"`
	Signal string     `json:"signal,omitempty"`
	Key    string     `json:"key,omitempty"` // of the signal
}

// Moved answers a worker's verb: where the item is now.
type Moved struct {
	ID       string     `json:"id"`
	TaskID   string     `json:"task_id"`
	State    ItemState  `json:"state"`
	Attempt  int        `json:"attempt"`
	Failures int        `json:"failures"`
	RunAt    *time.Time `json:"run_at,omitempty"` // scheduled, waiting: when it goes on
	// Item is the whole item as the verb left it, if the context asks for it (WithItem)
	// and the service runs in this process; else nil.
	Item *Item `json:"-"`
}

type wantsItem struct{}

// WithItem returns a context in which verbs that move an item answer with the item too,
// in Moved.Item. The statement that moves it reads its input then: for single calls.
func WithItem(ctx context.Context) context.Context {
	return context.WithValue(ctx, wantsItem{}, true)
}

// WantsItem says that ctx is one of WithItem.
func WantsItem(ctx context.Context) bool { return ctx.Value(wantsItem{}) != nil }

// ItemOf is the item of an answer; where the answer does not carry it, it is read.
func ItemOf(ctx context.Context, s ItemReader, m Moved) (Item, error) {
	if m.Item != nil {
		return *m.Item, nil
	}
	return s.GetItem(ctx, m.ID)
}

// RevokeCall ends the lease of an item, whoever holds it.
type RevokeCall struct {
	ItemID  string `json:"id"`
	Attempt int    `json:"attempt,omitempty"` // only this attempt's; 0 = whichever holds it
	Reason  string `json:"reason,omitempty"`  // for the record
}

// ItemFilter selects items, oldest first unless Desc.
type ItemFilter struct {
	IDs      []string
	TaskID   string
	Types    []string
	States   []ItemState
	Statuses []Status // StatusExpired too
	WorkerID string   // the holder or the last one
	Desc     bool
	// Fields are the members that are wanted; nil = all. Large ones that are not,
	// input, result and assembled_result, are not read.
	Fields []string
	Page
}
