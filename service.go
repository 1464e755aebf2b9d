package pawl

import "context"

// Service is the whole of Pawl: the sum of the roles. engine.Engine implements
// it in process, client.Client over HTTP, and one behaviour suite runs over
// both. The namespace and actor of a call come from its context (see As).
//
// Every batch verb answers each call on its own, in order. The second return is
// an error of the whole batch (the database is gone, the batch is too large):
// then nothing was done, or the outcome is unknown and the calls are safe to
// repeat.
type Service interface {
	Submitter
	Claimer
	Approver
	Operator
	Reader
}

// Submitter asks for work.
type Submitter interface {
	TaskMaker
	KeyKeeper
	Signaller
	Stopper
}

// Claimer does work: takes items, keeps them, hands them back.
type Claimer interface {
	Leaser
	Finisher
	Deliverer
	Recorder
	Messenger
}

// Approver decides about what was handed in.
type Approver interface {
	Decider
}

// Operator mends: retries, buries, deletes, sweeps, restores.
type Operator interface {
	TaskOperator
	LeaseKeeper
	TypeKeeper
	Sweeper
	RelayKeeper
}

// Reader reads.
type Reader interface {
	TaskReader
	TypeReader
	ItemReader
	RecordReader
	StatsReader
	MessageReader
	TokenReader
}

// TaskMaker makes and ends tasks.
type TaskMaker interface {
	// CreateTasks creates tasks with their items. At most MaxItemsPerCall tasks
	// and MaxItemsPerTask items each. A task whose dedupe finds an older one
	// answers with that one, Deduplicated set.
	CreateTasks(ctx context.Context, tasks []NewTask) ([]Result[Task], error)
	// AddItems adds items to open tasks.
	AddItems(ctx context.Context, calls []AddItems) ([]Result[Task], error)
	// CancelTasks cancels tasks, or some items of them, from any state but the
	// ends. Workers learn by their next heartbeat.
	CancelTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// UpdateTasks changes title, priority or metadata of tasks that have not ended.
	UpdateTasks(ctx context.Context, calls []TaskUpdate) ([]Result[Task], error)
	// CloneTasks creates tasks that are like older ones.
	CloneTasks(ctx context.Context, calls []TaskClone) ([]Result[Task], error)
	// CheckpointTasks saves checkpoints of tasks themselves, without a lease:
	// only the types of TaskCheckpointTypes.
	CheckpointTasks(ctx context.Context, calls []TaskCheckpoint) ([]Result[CheckpointRef], error)
}

// Stopper stops messages that are being made.
type Stopper interface {
	StopMessages(ctx context.Context, calls []StopCall) ([]Result[Message], error)
}

// KeyKeeper keeps idempotency keys for side effects outside.
type KeyKeeper interface {
	BeginKeys(ctx context.Context, calls []KeyBegin) ([]Result[KeyBegun], error)
	KeyRenewer
	CompleteKeys(ctx context.Context, calls []KeyDone) ([]Result[Key], error)
	FailKeys(ctx context.Context, calls []KeyDone) ([]Result[Key], error)
	GetKeys(ctx context.Context, names []KeyName) ([]Result[Key], error)
}

// Signaller tells items what they wait for.
type Signaller interface {
	// SendSignals sends signals, each in a transaction of its own: all items that
	// wait for it are queued when it is answered.
	SendSignals(ctx context.Context, calls []SignalCall) ([]Result[Signalled], error)
}

// Leaser takes and keeps items.
type Leaser interface {
	// Claim takes up to Limit items; none, and no error, when there is nothing
	// after WaitSeconds.
	Claim(ctx context.Context, req ClaimRequest) ([]Lease, error)
	Heartbeat(ctx context.Context, calls []HeartbeatCall) ([]Result[Beat], error)
	Release(ctx context.Context, calls []ReleaseCall) ([]Result[Moved], error)
	// Suspend gives items back until a time or a signal, whichever comes first. For
	// a signal that was sent already an item is queued again at once.
	Suspend(ctx context.Context, calls []SuspendCall) ([]Result[Moved], error)
}

// Finisher ends attempts.
type Finisher interface {
	Complete(ctx context.Context, calls []CompleteCall) ([]Result[Moved], error)
	Fail(ctx context.Context, calls []FailCall) ([]Result[Moved], error)
}

// Deliverer hands results in that are to be accepted.
type Deliverer interface {
	Submit(ctx context.Context, calls []SubmitCall) ([]Result[Moved], error)
	// SubmitParts hands pieces of results in; Finalize puts an item's pieces
	// together and submits what comes of it.
	SubmitParts(ctx context.Context, calls []PartCall) ([]Result[ItemPart], error)
	Finalize(ctx context.Context, calls []FinalizeCall) ([]Result[Moved], error)
}

// Decider approves and rejects. Of two who decide at once the first wins; the
// other gets a conflict that says who did.
type Decider interface {
	// ApproveTasks approves tasks that are ready for approval, and applies them
	// where that needs no worker.
	ApproveTasks(ctx context.Context, calls []ApproveCall) ([]Result[Task], error)
	// RejectTasks rejects tasks for good, or sends items back to be worked on
	// again, at most MaxRework times each.
	RejectTasks(ctx context.Context, calls []RejectCall) ([]Result[Task], error)
}

// Recorder saves what an attempt has come to so far.
type Recorder interface {
	Progress(ctx context.Context, calls []ProgressCall) ([]Result[Moved], error)
	Checkpoint(ctx context.Context, calls []CheckpointCall) ([]Result[CheckpointRef], error)
	// Resume reads all that the next attempt needs.
	Resume(ctx context.Context, itemID string) (ResumeState, error)
	// ResumePage reads one page of it, of at most MaxPageBytes but always with
	// something; cursor is the Next of the page before, "" = the first. Each page is
	// as the item is when it is read, its attempt too.
	ResumePage(ctx context.Context, itemID, cursor string) (ResumeState, error)
	// RegisterWorker enters a worker into the registry, or renews its entry.
	RegisterWorker(ctx context.Context, w WorkerInfo) error
}

// Messenger writes messages while they are being made.
type Messenger interface {
	StartMessages(ctx context.Context, calls []StartCall) ([]Result[Message], error)
	// Append adds chunks. Lower offsets with what the same attempt wrote there are
	// answered and write nothing; every other offset but the next is a conflict that
	// says Expected.
	Append(ctx context.Context, calls []AppendCall) ([]Result[Appended], error)
	StepMessages(ctx context.Context, calls []StepCall) ([]Result[CheckpointRef], error)
	FinishMessages(ctx context.Context, calls []FinishCall) ([]Result[Message], error)
}

// TaskOperator retries, dead-letters and deletes tasks.
type TaskOperator interface {
	// RetryTasks queues failed and dead-lettered items again and reopens their task.
	RetryTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// BuryTasks sets failed items aside.
	BuryTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// DeleteTasks removes tasks that have ended (with Force: any) and all that
	// hangs on them, in bounded batches.
	DeleteTasks(ctx context.Context, calls []TaskCall) ([]Result[string], error)
}

// LeaseKeeper ends leases of others.
type LeaseKeeper interface {
	// RevokeLeases ends leases before their time: the items are queued again,
	// uncounted, and the next call of the worker that held one is ErrLeaseLost. A
	// lease that is over already, or another attempt's, is a conflict.
	RevokeLeases(ctx context.Context, calls []RevokeCall) ([]Result[Moved], error)
}

// TypeKeeper keeps the registry of types.
type TypeKeeper interface {
	// PutTypes registers types. A definition that is there already changes
	// nothing; another one is the next version, which new tasks have. A put holds
	// at once for who asks this process, and within a second for others.
	PutTypes(ctx context.Context, types []Type) ([]Result[TypeRef], error)
	// RemoveTypes takes types off the registry: new tasks of the name have the
	// defaults. Tasks that are there go on with the version they have.
	RemoveTypes(ctx context.Context, names []string) ([]Result[string], error)
}

// Sweeper runs one pass over what time moves, and brings archived tasks back.
type Sweeper interface {
	Sweep(ctx context.Context) (SweepStats, error)
	// Prunable counts what Sweep would remove now, by the ages of the options and of
	// the types. It changes nothing.
	Prunable(ctx context.Context) (Prunable, error)
	ListArchives(ctx context.Context, page Page) (List[Archive], error)
	RestoreArchive(ctx context.Context, taskID string) (Task, error)
}

// RelayKeeper looks after the relays, which send events to other systems. They
// belong to the whole database, not to a namespace.
type RelayKeeper interface {
	// ListRelays says where each relay stands, by name.
	ListRelays(ctx context.Context) (List[Relay], error)
	// ResumeRelay has a disabled relay tried again, from where it stood. One that
	// is not disabled is a conflict.
	ResumeRelay(ctx context.Context, sink string) (Relay, error)
	// ForgetRelay removes what is known of a relay that nobody runs any more; one
	// that is run is a conflict. Run again, it begins at the beginning.
	ForgetRelay(ctx context.Context, sink string) error
}

// TaskReader reads tasks.
type TaskReader interface {
	GetTask(ctx context.Context, id string) (Task, error)
	ListTasks(ctx context.Context, f TaskFilter) (List[Task], error)
	// TaskResult is a conflict until the task has completed.
	TaskResult(ctx context.Context, id string) (TaskResult, error)
	// PartialResult is TaskResult, and for a task that is failed, dead_lettered or
	// cancelled the results of those of its items that completed.
	PartialResult(ctx context.Context, id string) (TaskResult, error)
}

// TypeReader reads the registry of types.
type TypeReader interface {
	// GetType reads a version of a type, removed or not; version 0 is the one
	// that holds.
	GetType(ctx context.Context, name string, version int) (Type, error)
	ListTypes(ctx context.Context, f TypeFilter) (List[Type], error)
}

// ItemReader reads items.
type ItemReader interface {
	GetItem(ctx context.Context, id string) (Item, error)
	ListItems(ctx context.Context, f ItemFilter) (List[Item], error)
}

// RecordReader reads the record.
type RecordReader interface {
	ListEvents(ctx context.Context, f EventFilter) (List[Event], error)
	// FollowEvents hands fn the events after f.After (nil = all) in feed order,
	// those there are and then those to come, each once, until ctx ends (nil) or
	// fn returns an error. At first fn is told the position that it begins after,
	// and no events; then of every batch the position to go on after. The page of
	// f does not count. When the database went back in time it returns a conflict
	// with the position to restart from; see RestartOf.
	FollowEvents(ctx context.Context, f EventFilter, fn func(through FeedPosition, events []Event) error) error
	ListCheckpoints(ctx context.Context, f CheckpointFilter) (List[Checkpoint], error)
	// ListParts lists the pieces of an item's result, oldest first.
	ListParts(ctx context.Context, f PartFilter) (List[ItemPart], error)
	// ListProvenance lists who did what to a task or item, oldest first.
	ListProvenance(ctx context.Context, f ProvenanceFilter) (List[ProvenanceRecord], error)
	// CountCheckpoints counts a task's checkpoints by type.
	CountCheckpoints(ctx context.Context, taskID string) (map[string]int64, error)
}

// MessageReader reads messages, whole or while they are being made.
type MessageReader interface {
	GetMessage(ctx context.Context, id string) (Message, error)
	// ListMessages lists a conversation in order, open messages too.
	ListMessages(ctx context.Context, f MessageFilter) (List[Message], error)
	// FollowMessage hands fn the chunks after a number (−1 = all), those there are
	// and then those to come, each once and in order, until the message has ended
	// (the last frame says so), ctx ends (nil too) or fn returns an error. The first
	// frame is empty: it says that the message is there.
	FollowMessage(ctx context.Context, id string, after int64, fn func(MessageFrame) error) error
}

// StatsReader reads statistics, workers, keys and sweeps.
type StatsReader interface {
	ListWorkers(ctx context.Context, f WorkerFilter) (List[WorkerInfo], error)
	ListKeys(ctx context.Context, f KeyFilter) (List[Key], error)
	ListSweeps(ctx context.Context, page Page) (List[SweepStats], error)
	Stats(ctx context.Context) (Stats, error)
}
