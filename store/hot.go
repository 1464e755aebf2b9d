package store

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-work/pawl"
)

// Hot is the closed list of hot verbs. Each takes a batch in which no item occurs twice.
// The answer has only the calls that were carried out. A call whose Ord is missing from
// the answer was refused by the fence and changed nothing; the engine then reads the
// reason. No verb fails because of the content of a call.
//
// The fence, in every verb of a worker: the lease row of the item exists; its namespace,
// worker_id and attempt are the call's; and lease_expires_at lies after the database's
// clock, which is read after any wait for the row's lock.
//
// First sign of life: Touch, Checkpoint and Append move a leased item to in_progress, with
// an event in_progress (leased > in_progress). Complete, Fail, Release and Suspend do not:
// their events start from the state that they find.
//
// A worker's events have actor_type 'worker' and actor_id = its worker_id, unless the
// call's Actor says otherwise, and have the attempt. message is NULL; readers fill in the
// words of the EVENTS table.
//
// A task of one item (solo = 1): its item's event has task_from and task_to when the
// task's stored state changes (open > completed, open > failed). task_counters is not written,
// except for the task's first checkpoint.
//
// A task of many: its row in task_counters is changed last, once per task and statement. The
// statement that brings open to 0 settles the task: state, version+1, completed_at (not
// for submitted), updated_at, and one event of the task alone (item_id NULL, from 'open'
// to the new state, event named for that state, actor system). The new state: failed > 0 →
// failed; else dead > 0 → dead_lettered; else cancelled = items → cancelled; else an item
// with acceptance → submitted; else completed.
//
// Lock order: leases by item id, then waiting by item id, then task_counters by task id.
// Batches arrive sorted by item id. Cold verbs lock the row in tasks before all of these,
// so no hot verb may lock it.
type Hot interface {
	// Create inserts tasks, their items, item_deps, and a task_counters row for each task that is
	// not solo. An item starts in waiting when Needs > 0, in scheduled when RunAt lies after
	// the database's clock, else in ready with rank NewRank(priority).
	//
	// Events of a solo task: one `proposed` on the item (NULL > the item's state, task_from
	// NULL, task_to 'open'). Events of a task of many: `proposed` of the task alone (NULL >
	// open) and one `planned` for each item. Items may come without their task (add_items):
	// then only the items' rows, item_deps and `planned` events are inserted. Create returns
	// the time used as created_at.
	Create(ctx context.Context, tx Tx, tasks []NewTask, items []NewItem) (now int64, err error)
	// Claim moves up to Limit items from ready to leases and hands them to the claimants in
	// claim order: attempt+1, state leased, started_at kept or set, heartbeat_at = acquired_at
	// = now, lease_expires_at = now + LeaseSeconds. Event leased (queued > leased), data NULL.
	//
	// It claims from Queues, each one (type, rank) of the namespace, in the order given and
	// each from its Head on. Queues of the same rank are merged by item id. When Picks is not
	// empty, it claims only those rows. Rows locked by other transactions are skipped.
	//
	// The answer is in claim order: rank, item id. It ends with the row that brings its bytes
	// to pawl.MaxClaimBytes. A claim that is not Bounded may fail with ErrLarge instead when a
	// row has more bytes than its Share.
	Claim(ctx context.Context, tx Tx, c Claim) ([]Claimed, error)
	// Heads returns the first items of gates of a queue with limits, in the order in which they
	// are claimed. It locks them, unless it only looks, and skips those that other transactions
	// lock; of Oldest it then returns nothing.
	Heads(ctx context.Context, tx Tx, queue int64, gates []GateWish) (map[int64][]Pick, error)
	// Touch is heartbeat and progress. When Extend is set, it extends the lease and sets
	// heartbeat_at = now. LeaseSeconds 0 means the claim's length; another length applies
	// until the next heartbeat. It writes progress and stage when given, with progressed_at =
	// now. A stage that differs from the stored one leaves an event progressed (states NULL)
	// with data {"stage":…,"progress":…}.
	Touch(ctx context.Context, tx Tx, calls []Touch) ([]Touched, error)
	// Checkpoint appends checkpoints, numbered from the task's counter. It inserts the
	// task_counters row if it is missing (solo tasks). Checkpoints of several items of one task in
	// one batch are numbered in the order of item id. Only manual_checkpoint and
	// approval_point leave an event checkpointed (states NULL, data
	// {"checkpoint_id":…,"type":…,"name":…,"sequence":…}).
	Checkpoint(ctx context.Context, tx Tx, calls []Checkpoint) ([]Checkpointed, error)
	// Append adds chunks to streaming messages. Each call becomes one row, numbered from the
	// call's offset, which must equal the number of chunks that the message has. When the
	// attempt is not that of the last writer, the step begins again at this offset, and the
	// earlier chunks of the step are marked as cut off. Every call whose fence holds is
	// answered; only the calls that are Done wrote anything.
	Append(ctx context.Context, tx Tx, calls []Append) ([]Appended, error)
	// Tail reads the new chunks of messages. For each message, by its id, it reads up to limit
	// rows of chunks from the reader's position on, where a row begins.
	Tail(ctx context.Context, tx Tx, places []ChunkPosition, limit int) (map[string][]ChunkRow, error)
	// Complete moves items from leases to ends (completed). A lease with acceptance = 1 is
	// refused like a broken fence. Event completed, data NULL. feeds is odd: every waiting
	// row that item_deps names gets needs-1.
	Complete(ctx context.Context, tx Tx, calls []Complete) ([]Moved, error)
	// Leave takes items out of leases by fail, release or suspend: see the type Leave.
	Leave(ctx context.Context, tx Tx, calls []Leave) ([]Moved, error)
	BudgetVerbs
	EffectVerbs
}

// BudgetVerbs are the hot verbs of budgets. They carry out the usual call: the fence holds, the
// budget's stored period is the current one, the amount is free, the budget applies to the
// item without a search, and there is no other reservation of the key; or the reservation is
// open, of this attempt and of the current period. done is false when anything is different,
// or the database has no such verb: then nothing was changed, and LockedItem.Reserve and
// LockedItem.Settle decide. The lease is locked first, then the budget; the clock is read after
// both.
type BudgetVerbs interface {
	Reserve(ctx context.Context, tx Tx, f Fence, id, budget string, c *pawl.ReserveCall) (out pawl.Reserved, done bool, err error)
	Settle(ctx context.Context, tx Tx, f Fence, budget string, c *pawl.SettleCall) (out pawl.Settled, done bool, err error)
}

// EffectVerbs are the hot verbs of effects. They carry out the usual call, in which nothing is decided: the effect of
// the key is new, or the effect is open and was sent by the call's attempt, whose lease is there, and it has
// reserved nothing. The actor is the worker. A call that is missing from the answer changed nothing: the ledger of
// effects decides. The lease is locked first, then the effect; the clock is read after both.
type EffectVerbs interface {
	// OpenEffect inserts effects that are open, with their events, and returns the Ord of each. New keys are inserted in
	// their order.
	OpenEffect(ctx context.Context, tx Tx, calls []OpenEffect) (opened []int, err error)
	// ReportEffect sets state, answer and error of effects, each named by its id and by the API key of its sender, with
	// the event of the state. It returns them with their other fields.
	ReportEffect(ctx context.Context, tx Tx, calls []ReportEffect) (reported []ReportEffect, err error)
}

// OpenEffect is one effect that is opened.
type OpenEffect struct {
	Ord int
	Fence
	Effect      EffectRow
	GateSeconds int  // the length of the lease of a gate; 0 = the attempt sends, and the effect is counted on its lease
	Data        Text // of the event effect_opened
}

// ReportEffect is one report about an effect.
type ReportEffect struct {
	Ord int
	Fence
	Effect EffectRow
}

// Timed is the list of time-driven verbs. Both work in bounded batches and are safe to run
// from any number of processes at the same time.
type Timed interface {
	// Expire takes up to limit expired leases out of leases and skips locked rows. See Expired
	// for what it does with the items. With boundary, each item that is not spared gets an
	// error_boundary checkpoint whose id is the next of ids. only names the items that it may
	// take; nil = any. When a whole batch fails, the sweep halves it with only, so that one
	// bad row does not stop the others.
	Expire(ctx context.Context, tx Tx, limit int, only []string, boundary bool, ids []string) ([]Expired, error)
	// Due moves up to limit items that are due to ready, with its BackRank:
	// scheduled items with run_at <= now (event due, scheduled > queued); waiting items with
	// until <= now, or with needs = 0, until NULL and signal NULL (event ready, waiting >
	// queued). since = now. The actor of the events is system. only is as in Expire.
	Due(ctx context.Context, tx Tx, limit int, only []string) ([]DueItem, error)
}

// Actor is the actor of an event.
type Actor struct {
	Type, ID string
	Key      string // the API key that the call came with; "" = none
}

// Fence identifies a claim: the fencing token and its item.
type Fence struct {
	Namespace, ItemID, WorkerID string
	Attempt                     int
	Return                      bool // the answer contains the item; set for all calls of a batch or for none
}

// Claim asks for items of one namespace for one or more claimants. The items found are
// handed out in claim order to the claimants in their order, up to the Limit of each.
type Claim struct {
	Namespace string
	Claimants []Claimant
	Queues    []Queue
	Picks     []Pick
	Leases    map[string]int // by type, in seconds: for claimants that name no lease
	Mixed     []string       // types of which older versions may have other leases
	Bounded   bool           // there may be large rows: the sizes are read before any row is taken
	Admitted  bool           // the Picks are from a queue with limits, which has admitted them: see Admit
}

// GateWish asks for the first items of a gate: the Most that are to be claimed next, or, with
// Oldest, the one that was created first. All wishes of a call have the same Oldest and Look.
type GateWish struct {
	Gate   int64
	Most   int
	Oldest bool
	Look   bool // lock nothing
}

// ErrLarge refuses a claim that must be repeated with Bounded.
var ErrLarge = errors.New("repeat the claim with Bounded: a row is too large")

// Share returns the size in bytes that each row may have so that all rows of the claim
// fit.
func (c *Claim) Share() int { return pawl.MaxClaimBytes / max(1, c.Limit()) }

// Claimant is one caller whose claim is part of a Claim.
type Claimant struct {
	WorkerID            string
	Limit, LeaseSeconds int   // LeaseSeconds 0 = each item has the lease of its type
	Prefetch            bool  // claimed ahead, or by a claim that waited: see Expired
	Actor               Actor // zero: the worker
	Key                 Text  // the API key that the leases belong to; "" = none
}

// Limit returns how many rows the claim may take.
func (c *Claim) Limit() int {
	n := 0
	for i := range c.Claimants {
		n += c.Claimants[i].Limit
	}
	return n
}

// Queue is the set of rows of ready of one type and rank.
type Queue struct {
	Type string
	Rank int
	Head string // start at this item id; "" = from the beginning
}

// Pick identifies one row of ready by its key.
type Pick struct {
	Type   string
	Rank   int
	ItemID string
}

// Claimed is one claimed item. Claimant is the index of its claimant.
type Claimed struct {
	Claimant                          int
	ItemID, TaskID, Type              string
	Key                               Text
	Rank, Priority, Attempt, Failures int
	MaxAttempts, LeaseSeconds, Rework int
	Input                             []byte
	Said                              Text // its open message or newest stopped one: state, id, chunks and step number, separated by spaces
	Error, Reasons                    Text // the last failure, and the reasons of the last rework, as JSON
	Trace                             Text // of its task; see TraceOf
	Forked                            bool // its task has checkpoints of another one
	AcquiredAt, LeaseExpiresAt        int64
}

// Bytes returns the row's share of pawl.MaxClaimBytes.
func (c *Claimed) Bytes() int { return len(c.Input) + len(c.Error) + len(c.Reasons) }

// StoppedIn returns the id of the stopped message in Claimed.Said, or "" when there is
// none.
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
	Stopped                Text // ids of messages that were stopped, separated by spaces
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

// Append has the encoded chunks of one call.
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
	Chunks    int64  // the number of chunks that it had before
	TakenOver bool   // its last writer was another attempt
	Full      bool   // the message would have more than pawl.MaxMessageBytes
	Done      bool
}

// Complete is one result.
type Complete struct {
	Ord int
	Fence
	Result  string
	Request int64 // a digest of the call, kept with its event: see Repeated
}

// The verbs of Leave.
const (
	VerbFail    = "fail"
	VerbRelease = "release"
	VerbSuspend = "suspend"
)

// Leave gives up a lease.
//
// fail: failures+1. When Retryable and failures < max_attempts, the item runs again. The
// delay is DelayMicros when given, else pawl.Backoff{}.After(failures) * Jitter. With
// delay 0 the item goes to ready with its BackRank (state queued), else to
// scheduled at now + delay. Otherwise the item goes to parked_items as failed, since =
// completed_at = now, progress and stage kept. Its task then: solo: open > failed; many:
// open-1, failed+1, settle. feeds is odd: every waiting row that item_deps names gets
// broken+1. error = Error. left_by 'failed'. Event failed, data
// {"error":…,"failures":n,"max_attempts":m} and, when scheduled, "run_at" (RFC 3339 in
// microseconds, UTC, Z). One checkpoint error_boundary with id CheckpointID, snapshot
// {"error": Error, "failures": n, "max_attempts": m, "expired_lease": null}.
//
// release: the item goes to ready, with its BackRank, or with DelayMicros above 0 to
// scheduled at now + delay, left_by 'released', event released, data {"run_at"} when
// scheduled.
//
// suspend: the item goes to waiting with until/signal/signal_key, left_by 'suspended',
// event suspended, data {"until":…, "signal":…, "key":…} as given (null when not given).
//
// release and suspend keep failures and error. All three verbs set since = now and keep
// attempt, started_at, worker_id (the holder becomes the last worker), max_attempts, solo,
// feeds, acceptance, rework and spared.
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
	Ever         bool       // suspend for a signal: any stored signal ends the wait
	Children     *ChildWait // suspend: the room of children stores it
	Request      int64      // as in Complete
}

// Moved answers a verb that took an item out of leases.
type Moved struct {
	Ord           int
	TaskID, State string
	Failures      int
	Rank          int // if it is queued
	Type          string
	RunAt         int64 // when a scheduled or waiting item is due; else 0
	Now           int64
	Fed           bool // items depend on it, which may have become ready or broken, or the last of a task that leftOpen (sweep) lists
	Child         bool // it has no work left, and its task is a child
	Settled       bool // this statement moved the task out of open
	Owed          bool // … and the engine has a next step for it: it is submitted, or its input hash must be released
	Returned      *Returned
}

// Expired is one lease that the sweep ended.
//
// An item that was claimed with Prefetch, is still in state leased and has spared <
// max_attempts goes back to ready. It is not counted; spared+1. For any other item,
// failures+1: below max_attempts it goes to ready, with its BackRank, error
// {"code":"lease_expired","message":"Lease expired - retry N/M"}. Else it goes to parked_items as
// failed, completed_at = since = now, error {"code":"lease_expired","message":"Max retries
// exceeded"}, and its task moves as in a Leave by fail.
//
// left_by 'expired', event lease_expired, actor system, data
// {"worker_id":…,"lease_expires_at":…,"failures":n,"max_attempts":m,"spared":true|false}.
// error_boundary snapshot: {"error": message, "failures": n, "max_attempts": m,
// "expired_lease": {"worker_id","attempt","acquired_at","expires_at","heartbeat_at"}}.
// Times are RFC 3339 in microseconds, UTC, Z.
type Expired struct {
	Namespace, ItemID, TaskID, Type, State string
	Rank                                   int // if it is queued
	Checkpoint                             bool
	Fed, Child                             bool // as in Moved, if it failed
}

// DueItem is one item that became claimable.
type DueItem struct {
	Namespace, ItemID, Type string
	Rank                    int
}
