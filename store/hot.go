package store

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-work/pawl"
)

// Hot is the closed list of hot verbs. Each takes a batch in which no item
// occurs twice, and answers only for the calls it carried out: a call whose
// Ord is missing from the answer was refused by the fence and left nothing
// behind; the engine then reads why. Nothing here raises for a call's content.
//
// The fence, in every verb of a worker: the lease row of the item exists, its
// namespace, worker_id and attempt are the call's, and lease_expires_at lies
// after the database's clock as read after any wait for the row's lock.
//
// First sign of life: Touch, Checkpoint and Append move a leased item to in_progress,
// with an event in_progress (leased > in_progress). It is not one for Complete,
// Fail, Release or Suspend: their events start from the state found.
//
// A worker's events have actor_type 'worker' and actor_id = its worker_id,
// unless the call's Actor says otherwise, and carry the attempt. message is
// NULL (readers put in the EVENTS table's words).
//
// A task of one item (solo = 1): its item's event carries task_from/task_to
// when the task's stored state changes (open > completed, open > failed), and
// task_live is not touched but for its first checkpoint. A task of many: its
// row in task_live is changed once per task and statement, last; the statement
// that brings open to 0 settles it: state, version+1, completed_at (not for submitted),
// updated_at, and one event of the task alone (item_id NULL, from 'open' to the
// new state, event named for that state, actor system). The new state: failed > 0 →
// failed; else dead > 0 → dead_lettered; else cancelled = items → cancelled;
// else an item with acceptance → submitted; else completed.
//
// Lock order: leases by item id, then waiting by item id, then task_live by
// task id. Batches arrive sorted by item id. Cold verbs lock the row in tasks
// before all of these, so no hot verb may lock it.
type Hot interface {
	// Create inserts tasks, their items in the place they belong (waiting when
	// Needs > 0, scheduled when RunAt lies ahead of the database's clock, else
	// ready with rank NewRank(priority)), item_deps, a task_live row for tasks that
	// are not solo, and the events: solo: one `proposed` on the item
	// (NULL > place's state, task_from NULL, task_to 'open'); many: `proposed`
	// of the task alone (NULL > open) and one `planned` for each item. Items may
	// come without their task (add_items): then only the items' rows, deps and
	// `planned` events. Returns the time used as created_at.
	Create(ctx context.Context, tx Tx, tasks []NewTask, items []NewItem) (now int64, err error)
	// Claim moves up to Limit items from ready to leases, dealt out to the
	// claimants in claim order: attempt+1, state
	// leased, started_at kept or set, heartbeat_at = acquired_at = now,
	// lease_expires_at = now + LeaseSeconds; event leased (queued > leased),
	// data NULL. From Groups (each a namespace's (type, rank), walked in the order given,
	// from Head on; groups of one rank are merged by item id) or, when Picks is
	// not empty, just those rows. Rows locked by others are skipped. The answer
	// is in claim order: rank, item id. It ends with the row that brings its bytes to
	// pawl.MaxClaimBytes. When it is not Bounded it may be ErrLarge instead, where a row
	// has more than its Share.
	Claim(ctx context.Context, tx Tx, c Claim) ([]Claimed, error)
	// Touch is heartbeat and progress: extends the lease when Extend is set
	// (LeaseSeconds 0 = the claim's length; another holds until the next heartbeat),
	// heartbeat_at = now then; writes progress and stage when given, with
	// progressed_at = now; a stage that differs from the one stored leaves an event
	// progressed (states NULL) with data {"stage":…,"progress":…}.
	Touch(ctx context.Context, tx Tx, calls []Touch) ([]Touched, error)
	// Checkpoint appends checkpoints numbered from the task's counter (task_live
	// row made if missing: solo tasks), several items of one task in one batch
	// being numbered in the order of item id; an event checkpointed (states NULL, data
	// {"checkpoint_id":…,"type":…,"name":…,"sequence":…}) only for
	// manual_checkpoint and approval_point.
	Checkpoint(ctx context.Context, tx Tx, calls []Checkpoint) ([]Checkpointed, error)
	// Append adds chunks to streaming messages: one row for each call, numbered
	// from the call's offset, which must be what the message has. The first by
	// another attempt than the last writer's begins the step anew there, and marks
	// what the step had before as cut off. Every call whose fence holds is
	// answered; only those that are Done wrote anything.
	Append(ctx context.Context, tx Tx, calls []Append) ([]Appended, error)
	// Tail reads what is new of messages: of each, by its id, up to limit rows of
	// chunks from its place on, which is where a row begins.
	Tail(ctx context.Context, tx Tx, places []ChunkPosition, limit int) (map[string][]ChunkRow, error)
	// Complete moves items from leases to ends (completed); refused like a
	// broken fence when the lease has acceptance = 1. Event completed, data
	// NULL. feeds = 1: every waiting row that item_deps names gets needs-1.
	Complete(ctx context.Context, tx Tx, calls []Complete) ([]Moved, error)
	// Leave takes items out of leases by fail, release or suspend: see Leave.
	Leave(ctx context.Context, tx Tx, calls []Leave) ([]Moved, error)
}

// Timed is what time does. Both work in bounded batches and are safe to run
// from any number of processes at once.
type Timed interface {
	// Expire takes up to limit leases whose end has come (skipping locked rows)
	// out of leases: see Expired for what becomes of them. With boundary, each
	// leaves an error_boundary checkpoint whose id is the next of ids. only names
	// the items it may take; nil = any. The sweep halves by it what will not go
	// through as a whole, so that one bad row does not strand its batch.
	Expire(ctx context.Context, tx Tx, limit int, only []string, boundary bool, ids []string) ([]Expired, error)
	// Due moves up to limit items whose time has come to ready, rank RequeueRank(priority):
	// scheduled with run_at <= now (event due, scheduled > queued); waiting with
	// until <= now, or with needs = 0, until NULL and signal NULL (event ready,
	// waiting > queued). since = now. Events: actor system. only as in Expire.
	Due(ctx context.Context, tx Tx, limit int, only []string) ([]DueItem, error)
}

// Actor goes into an event.
type Actor struct {
	Type, ID string
	Key      string // the API key that the call came with; "" = none
}

// Fence names a claim.
type Fence struct {
	Namespace, ItemID, WorkerID string
	Attempt                     int
	Return                      bool // the answer carries the item: of all calls of a batch, or of none
}

// Claim asks for items of one namespace, for one or more claimants at once:
// what is found is dealt out in claim order, to each up to its Limit, in their
// order.
type Claim struct {
	Namespace string
	Claimants []Claimant
	Queues    []Queue
	Picks     []Pick
	Bounded   bool // there may be large rows: the sizes are looked at before any row is taken
}

// ErrLarge refuses a claim that has to be Bounded.
var ErrLarge = errors.New("the claim has to look at sizes")

// Share is the bytes that a row of a claim may have if all of them are to fit.
func (c *Claim) Share() int { return pawl.MaxClaimBytes / max(1, c.Limit()) }

// Claimant is one caller of a claim.
type Claimant struct {
	WorkerID            string
	Limit, LeaseSeconds int
	Prefetch            bool
	Actor               Actor // zero: the worker
	Key                 Text  // the API key that the leases belong to; "" = none
}

// Limit is how many rows a claim may take.
func (c *Claim) Limit() int {
	n := 0
	for i := range c.Claimants {
		n += c.Claimants[i].Limit
	}
	return n
}

// Queue is the rows of ready of one type and rank.
type Queue struct {
	Type string
	Rank int
	Head string // start at this item id; "" = from the beginning
}

// Pick is one row of ready by its key.
type Pick struct {
	Type   string
	Rank   int
	ItemID string
}

// Claimed is one claimed item, and which claimant's it is.
type Claimed struct {
	Claimant                          int
	ItemID, TaskID, Type              string
	Key                               Text
	Rank, Priority, Attempt, Failures int
	MaxAttempts, LeaseSeconds         int
	Input                             string
	Said                              Text // its open message, or the newest that was stopped: state, id, chunks and step number, parted by spaces
	Error, Reasons                    Text // the last failure, and the complaints of the last rework, as JSON
	AcquiredAt, LeaseExpiresAt        int64
}

// Bytes is how much of a claim's bytes the row takes.
func (c *Claimed) Bytes() int { return len(c.Input) + len(c.Error) + len(c.Reasons) }

// StoppedIn is the id of the message in Claimed.Said that was stopped; "" = none.
func StoppedIn(said Text) Text {
	rest, stopped := strings.CutPrefix(string(said), string(pawl.MessageStopped)+" ")
	if !stopped {
		return ""
	}
	id, _, _ := strings.Cut(rest, " ")
	return Text(id)
}

// Touch is one heartbeat or progress report.
type Touch struct {
	Ord int
	Fence
	Extend       bool
	LeaseSeconds int
	Progress     *int
	Stage        *string
}

// Touched answers a Touch.
type Touched struct {
	Ord                    int
	TaskID, State          string // the state after it: in_progress
	Failures, LeaseSeconds int
	LeaseExpiresAt, Now    int64
	Stopped                Text // ids of messages that were stopped, parted by spaces
	Returned               *Returned
}

// Checkpoint is one checkpoint under a lease.
type Checkpoint struct {
	Ord int
	Fence
	ID, Type       string
	Name, ArgsHash Text
	Snapshot       string
	Metadata       Text
}

// Checkpointed answers a Checkpoint.
type Checkpointed struct {
	Ord int
	ID  string
	Seq int64
}

// Append is the chunks of one call, encoded.
type Append struct {
	Ord int
	Fence
	MessageID string
	Offset    int64
	Count     int
	Body      string
}

// Appended answers an Append.
type Appended struct {
	Ord       int
	State     string // of the message
	Chunks    int64  // it had before
	TakenOver bool   // its last writer was of another attempt
	Full      bool   // it would have more than pawl.MaxMessageBytes
	Done      bool
}

// Complete is one result.
type Complete struct {
	Ord int
	Fence
	Result string
}

// Verbs of Leave.
const (
	VerbFail    = "fail"
	VerbRelease = "release"
	VerbSuspend = "suspend"
)

// Leave gives a lease up.
//
// fail: failures+1. Retryable and failures < max_attempts → the delay is
// DelayMicros when given, else pawl.Backoff{}.After(failures) * Jitter; a delay
// of 0 → ready, rank RequeueRank(priority) (state queued), else scheduled at now + delay;
// otherwise → rests failed, since = completed_at = now, progress and stage kept
// (solo: task open > failed; many: open-1, failed+1, settle; feeds = 1: every
// waiting row that item_deps names gets broken+1). error = Error. left_by
// 'failed'. Event failed, data {"error":…,"failures":n,"max_attempts":m} and
// "run_at" (RFC 3339 in microseconds, UTC, Z) when scheduled. One checkpoint error_boundary with id
// CheckpointID, snapshot {"error": Error, "failures": n, "max_attempts": m,
// "expired_lease": null}.
//
// release → ready, rank RequeueRank(priority), left_by 'released', event released.
// suspend → waiting, until/signal/signal_key, left_by 'suspended', event
// suspended, data {"until":…, "signal":…, "key":…} as given (null when not).
// Both keep failures and error. All set since = now and carry attempt, started_at,
// worker_id (the holder becomes the last), max_attempts, solo, feeds,
// acceptance, rework, spared.
type Leave struct {
	Ord int
	Fence
	Verb         string
	Error        string // JSON {code?, message, detail?}
	Retryable    bool
	DelayMicros  *int64
	Jitter       float64
	CheckpointID string
	Until        *int64
	Signal, Key  Text
}

// Moved answers a verb that took an item out of leases.
type Moved struct {
	Ord                int
	TaskID, State      string
	Failures, Priority int
	Type               string
	RunAt              int64 // scheduled, waiting until: when; else 0
	Now                int64
	Fed                bool // feeds was 1: others may have become ready, or broken
	Settled            bool // the task left open in this statement
	Owed               bool // … and the engine owes it a step: it is submitted, or its input hash is to be released
	Returned           *Returned
}

// Expired is one lease the sweep ended. Claimed with prefetch and still leased,
// and spared < max_attempts: back to ready uncounted, spared+1. Otherwise
// failures+1: below max_attempts → ready, rank RequeueRank(priority), error
// {"code":"lease_expired","message":"Lease expired - retry N/M"}; else → rests failed, completed_at
// = since = now, error {"code":"lease_expired","message":"Max retries exceeded"}, the task as in
// Leave fail. left_by 'expired', event lease_expired, actor system, data
// {"worker_id":…,"lease_expires_at":…,"failures":n,"max_attempts":m,"spared":true|false}.
// error_boundary snapshot: {"error": message, "failures": n, "max_attempts": m,
// "expired_lease": {"worker_id","attempt","acquired_at","expires_at","heartbeat_at"}};
// times RFC 3339 in microseconds, UTC, Z.
type Expired struct {
	Namespace, ItemID, TaskID, Type, State string
	Priority                               int
	Checkpoint                             bool
	Fed                                    bool
}

// DueItem is one item that became claimable.
type DueItem struct {
	Namespace, ItemID, Type string
	Rank                    int
}
