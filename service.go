package pawl

import (
	"context"
	"io"
)

// Service is the complete interface of Pawl: the sum of the roles. engine.Engine
// implements it in process and client.Client over HTTP; one behaviour suite tests both.
// The namespace and the actor of a call come from its context (see As).
//
// Every batch verb returns one result for each call, in order. The error is about the
// whole batch (the database does not answer, the batch is too large): either nothing was
// done, or the outcome is unknown and the calls are safe to repeat.
type Service interface {
	Submitter
	Claimer
	Approver
	Operator
	Reader
}

// Submitter creates work.
type Submitter interface {
	TaskMaker
	CheckpointKeeper
	BlobWriter
	KeyKeeper
	Signaller
	Stopper
}

// Claimer does work: it claims items, keeps their leases and reports results.
type Claimer interface {
	BlobWriter
	BlobReader
	Leaser
	Finisher
	Deliverer
	Recorder
	Messenger
	BudgetSpender
	EffectSender
	Spawner
	TaskForker
}

// Approver decides about submitted tasks.
type Approver interface {
	Decider
	EffectDecider
}

// Operator retries, dead-letters and deletes tasks, pauses queues, keeps schedules, sweeps
// and restores.
type Operator interface {
	TaskOperator
	BulkOperator
	LeaseKeeper
	QueueKeeper
	BudgetKeeper
	ScheduleKeeper
	TypeKeeper
	Sweeper
	ArchiveKeeper
	RelayKeeper
}

// Reader reads everything.
type Reader interface {
	TaskReader
	TypeReader
	QueueReader
	BudgetReader
	EffectReader
	ScheduleReader
	ItemReader
	Explainer
	RecordReader
	StatsReader
	SeriesReader
	LeaseAdviser
	FailureReader
	MessageReader
	TokenReader
	LogReader
	BlobReader
}

// TaskMaker creates, changes and cancels tasks.
type TaskMaker interface {
	// CreateTasks creates tasks with their items: at most MaxItemsPerCall tasks, with
	// MaxItemsPerTask items each. If a task's dedupe finds an older task, the result is
	// that task, with Deduplicated set.
	CreateTasks(ctx context.Context, tasks []NewTask) ([]Result[Task], error)
	// AddItems adds items to open tasks.
	AddItems(ctx context.Context, calls []AddItems) ([]Result[Task], error)
	// CancelTasks cancels tasks, or some of their items, in any state that is not final.
	// Workers learn of it by their next heartbeat.
	CancelTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// UpdateTasks changes title, priority or metadata of tasks that have not ended.
	UpdateTasks(ctx context.Context, calls []TaskUpdate) ([]Result[Task], error)
	// CloneTasks creates tasks as copies of older ones.
	CloneTasks(ctx context.Context, calls []TaskClone) ([]Result[Task], error)
	// CheckpointTasks saves checkpoints of tasks, without a lease. Only the types of
	// TaskCheckpointTypes are allowed.
	CheckpointTasks(ctx context.Context, calls []TaskCheckpoint) ([]Result[CheckpointRef], error)
}

// CheckpointKeeper keeps the checkpoints that tasks have themselves, without a lease.
type CheckpointKeeper interface {
	// AppendCheckpoints appends checkpoints to tasks, on condition. Each call is done as a whole
	// or not at all. Another newest checkpoint than the expected one is a conflict with
	// ReasonSequence, a name that is taken with ReasonName.
	AppendCheckpoints(ctx context.Context, calls []CheckpointAppend) ([]Result[CheckpointsAppended], error)
	// PruneCheckpoints removes checkpoints of tasks, also of ended ones, by rules.
	PruneCheckpoints(ctx context.Context, calls []CheckpointPrune) ([]Result[CheckpointsPruned], error)
}

// TaskForker creates tasks that go on from a checkpoint of another one.
type TaskForker interface {
	// ForkTasks creates forks. A checkpoint that the task does not have is not_found. One that was
	// pruned is a conflict with ReasonPruned. Kept of both errors has the checkpoints that are left.
	ForkTasks(ctx context.Context, calls []TaskFork) ([]Result[Task], error)
}

// Stopper stops open messages.
type Stopper interface {
	StopMessages(ctx context.Context, calls []StopCall) ([]Result[Message], error)
}

// KeyKeeper stores idempotency keys, for side effects outside of Pawl.
type KeyKeeper interface {
	BeginKeys(ctx context.Context, calls []KeyBegin) ([]Result[KeyBegun], error)
	KeyRenewer
	CompleteKeys(ctx context.Context, calls []KeyDone) ([]Result[Key], error)
	FailKeys(ctx context.Context, calls []KeyDone) ([]Result[Key], error)
	GetKeys(ctx context.Context, names []KeyName) ([]Result[Key], error)
}

// Signaller sends signals to waiting items.
type Signaller interface {
	// SendSignals sends signals, each in a transaction of its own. When it returns, all
	// items that waited for them are queued.
	SendSignals(ctx context.Context, calls []SignalCall) ([]Result[Signalled], error)
}

// Leaser claims items and keeps or gives up their leases.
type Leaser interface {
	// Claim claims up to Limit items. If there is none within WaitSeconds, it returns an
	// empty list and no error.
	Claim(ctx context.Context, req ClaimRequest) ([]Lease, error)
	Heartbeat(ctx context.Context, calls []HeartbeatCall) ([]Result[Beat], error)
	Release(ctx context.Context, calls []ReleaseCall) ([]Result[Moved], error)
	// Suspend gives items back until a time or a signal, whichever comes first, or until
	// children have ended. If the signal was sent already, or enough children have ended, the
	// item is queued at once.
	Suspend(ctx context.Context, calls []SuspendCall) ([]Result[Moved], error)
}

// Finisher ends attempts.
type Finisher interface {
	Complete(ctx context.Context, calls []CompleteCall) ([]Result[Moved], error)
	Fail(ctx context.Context, calls []FailCall) ([]Result[Moved], error)
}

// Deliverer hands in results that need acceptance.
type Deliverer interface {
	Submit(ctx context.Context, calls []SubmitCall) ([]Result[Moved], error)
	// SubmitParts hands in pieces of results; Finalize assembles an item's pieces and
	// submits the result.
	SubmitParts(ctx context.Context, calls []PartCall) ([]Result[ItemPart], error)
	Finalize(ctx context.Context, calls []FinalizeCall) ([]Result[Moved], error)
}

// Decider approves and rejects. If two callers decide at once, the first wins; the other
// gets a conflict that names who decided.
type Decider interface {
	// ApproveTasks approves tasks that are ready for approval, and applies them if that
	// needs no worker.
	ApproveTasks(ctx context.Context, calls []ApproveCall) ([]Result[Task], error)
	// RejectTasks rejects tasks for good, or sends items back for rework, at most
	// MaxRework times each.
	RejectTasks(ctx context.Context, calls []RejectCall) ([]Result[Task], error)
}

// Recorder saves the progress of an attempt.
type Recorder interface {
	Progress(ctx context.Context, calls []ProgressCall) ([]Result[Moved], error)
	Checkpoint(ctx context.Context, calls []CheckpointCall) ([]Result[CheckpointRef], error)
	// Resume reads all that the next attempt needs to continue.
	Resume(ctx context.Context, itemID string) (ResumeState, error)
	// ResumePage reads one page of it, of at most MaxPageBytes but with at least one
	// entry. cursor is the Next of the previous page, "" = the first page. Each page
	// shows the item as it is at that moment, its attempt included.
	ResumePage(ctx context.Context, itemID, cursor string) (ResumeState, error)
	// RegisterWorker registers a worker, or renews its registration.
	RegisterWorker(ctx context.Context, w WorkerInfo) error
}

// Messenger writes messages piece by piece.
type Messenger interface {
	StartMessages(ctx context.Context, calls []StartCall) ([]Result[Message], error)
	// OpenMessages opens messages that tasks have themselves, to be written without a lease.
	// Append and FinishMessages take the token of the answer.
	OpenMessages(ctx context.Context, calls []OpenCall) ([]Result[OpenedMessage], error)
	// Append adds chunks. An offset below the current one succeeds and writes nothing,
	// if the same attempt wrote the same chunks there. Every other offset except the
	// next is a conflict with Expected.
	Append(ctx context.Context, calls []AppendCall) ([]Result[Appended], error)
	StepMessages(ctx context.Context, calls []StepCall) ([]Result[CheckpointRef], error)
	FinishMessages(ctx context.Context, calls []FinishCall) ([]Result[Message], error)
}

// BudgetSpender reserves and settles amounts of budgets, under a lease.
type BudgetSpender interface {
	// ReserveBudget reserves an amount. Spent + reserved is never above the limit when a
	// reservation is made. If the budget has too little left, the call is refused with
	// ErrBudgetExhausted, whose Exhausted says what the budget asks the worker to do. An item
	// that the budget does not apply to is a conflict.
	ReserveBudget(ctx context.Context, budget string, call ReserveCall) (Reserved, error)
	// SettleBudget records what was spent. A reservation that the item does not have is
	// not_found. To settle again with the same amount changes nothing; another amount is a
	// conflict.
	SettleBudget(ctx context.Context, budget string, call SettleCall) (Settled, error)
}

// TaskOperator retries, dead-letters and deletes tasks.
type TaskOperator interface {
	// RetryTasks queues failed and dead-lettered items again and reopens their task.
	RetryTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// BuryTasks dead-letters failed items.
	BuryTasks(ctx context.Context, calls []TaskCall) ([]Result[Task], error)
	// DeleteTasks removes ended tasks (with Force: any task) and all their rows, in
	// bounded batches.
	DeleteTasks(ctx context.Context, calls []TaskCall) ([]Result[string], error)
}

// BulkOperator applies a verb to many tasks.
type BulkOperator interface {
	// Bulk begins to apply a verb to each task that a filter selects, and returns the task
	// of TypeBulk that stands for it. Engines that run carry it out, in small steps, and go
	// on after a crash. A cancel of that task stops it; what is done stays. DryRun is
	// invalid here.
	Bulk(ctx context.Context, call BulkCall) (Task, error)
	// CountBulk counts the tasks that Bulk would apply its verb to. It changes nothing.
	CountBulk(ctx context.Context, call BulkCall) (int64, error)
}

// LeaseKeeper ends leases of workers.
type LeaseKeeper interface {
	// RevokeLeases ends leases before their time. The items are queued again and no
	// failure is counted; the worker's next call gets ErrLeaseLost. A lease that has
	// ended, or is another attempt's, is a conflict.
	RevokeLeases(ctx context.Context, calls []RevokeCall) ([]Result[Moved], error)
}

// BudgetKeeper makes, changes and removes budgets. Items that wait for the budget are queued.
type BudgetKeeper interface {
	// PutBudget makes a budget, or replaces what is said about it. What was spent and
	// reserved in the current period counts on, also when the kind of period changes. Another
	// unit is a conflict once there was a reservation.
	PutBudget(ctx context.Context, name string, b NewBudget) (Budget, error)
	// DeleteBudget removes a budget and what was spent of it.
	DeleteBudget(ctx context.Context, name string) error
}

// QueueKeeper sets limits of queues, and pauses and resumes them. Claims that begin after a
// call returns obey it, in every process. A call that changes nothing succeeds.
type QueueKeeper interface {
	// SetQueue changes the limits of a type's queue. A type that has no queue yet gets one.
	// Items that are queued already, and leases, count from then on.
	SetQueue(ctx context.Context, typ string, patch QueuePatch) (Queue, error)
	// PauseQueue stops claims of a type's items. A type that has no queue yet gets one.
	PauseQueue(ctx context.Context, typ string) (Queue, error)
	// ResumeQueue allows claims of a type's items again. Waiting claims get them at once.
	ResumeQueue(ctx context.Context, typ string) (Queue, error)
	// PauseNamespace stops all claims in the namespace, of types that come later too.
	PauseNamespace(ctx context.Context) error
	// ResumeNamespace allows claims again, except from queues that are paused themselves.
	ResumeNamespace(ctx context.Context) error
}

// ScheduleKeeper creates, changes, pauses, runs and deletes schedules.
type ScheduleKeeper interface {
	// CreateSchedule creates a schedule. If the namespace has the same schedule already,
	// nothing changes and the answer has Unchanged set; a different one of the name is a
	// conflict. A task that would be refused now is invalid.
	CreateSchedule(ctx context.Context, s NewSchedule) (Schedule, error)
	// PutSchedule creates a schedule, or replaces the definition of the one with its name. The
	// pause, the record and the queued ticks stay. The next tick stays too, unless the rule is
	// another one: that begins after the newest tick, and not before now. The answer has Created
	// or Unchanged set, or neither if it replaced another definition. A task that would be
	// refused now is invalid.
	PutSchedule(ctx context.Context, s NewSchedule) (Schedule, error)
	// PauseSchedule stops a schedule. Ticks of that time are not missed: they do not exist.
	PauseSchedule(ctx context.Context, name string) (Schedule, error)
	// ResumeSchedule lets a schedule go on with the next tick from now on.
	ResumeSchedule(ctx context.Context, name string) (Schedule, error)
	// RunSchedule makes the task of a schedule now, whatever its overlap says and even if
	// it is paused. The answer's LastTaskID is the task.
	RunSchedule(ctx context.Context, name string) (Schedule, error)
	// DeleteSchedule removes a schedule. Its tasks stay.
	DeleteSchedule(ctx context.Context, name string) error
}

// TypeKeeper changes the registry of types.
type TypeKeeper interface {
	// PutTypes registers types. A definition that is registered already changes nothing;
	// a different one becomes the next version, which new tasks get. A change is visible
	// at once in this process, and within a second in others.
	PutTypes(ctx context.Context, types []Type) ([]Result[TypeRef], error)
	// RemoveTypes removes types from the registry: new tasks of the name get the
	// defaults. Existing tasks keep their version.
	RemoveTypes(ctx context.Context, names []string) ([]Result[string], error)
}

// Sweeper runs sweeps and checks the database.
type Sweeper interface {
	Sweep(ctx context.Context) (SweepStats, error)
	// Tick does once what a running server does all the time: a sweep, schedules, the feed, and
	// at a server the deliveries of its relays. So a database without a running server can be
	// driven from outside, for example by a cron or a function. In process it drives no relays:
	// see relay.Once.
	Tick(ctx context.Context) (Ticked, error)
	// Prunable counts what Sweep would remove now, by the retention of the options and
	// of the types. It changes nothing.
	Prunable(ctx context.Context) (Prunable, error)
	// Doctor checks the invariants of the whole database, all its namespaces, and lists what puts
	// a guarantee at risk. It changes nothing.
	Doctor(ctx context.Context, call DoctorCall) (DoctorReport, error)
}

// ArchiveKeeper reads, restores and deletes the archives of tasks that retention has removed.
type ArchiveKeeper interface {
	ListArchives(ctx context.Context, page Page) (List[Archive], error)
	RestoreArchive(ctx context.Context, taskID string) (Task, error)
	// DeleteArchive removes what is archived of a task, which cannot be restored then. A task that is
	// there is a conflict, and so is one whose parent or child is there.
	DeleteArchive(ctx context.Context, taskID string) error
}

// RelayKeeper manages the relays, which deliver events to other systems. They belong to
// the whole database, not to a namespace.
type RelayKeeper interface {
	// ListRelays returns the state of each relay, by name.
	ListRelays(ctx context.Context) (List[Relay], error)
	// ResumeRelay enables a disabled relay. from is RelayFromStored, which "" means too, RelayFromNow, or a position of the
	// feed: the relay sends what follows it. A relay that is not disabled is a conflict.
	ResumeRelay(ctx context.Context, sink, from string) (Relay, error)
	// ForgetRelay removes the stored state of a relay that no server runs any more; a
	// running one is a conflict. If it runs again, it starts at the first event.
	ForgetRelay(ctx context.Context, sink string) error
}

// TaskReader reads tasks.
type TaskReader interface {
	GetTask(ctx context.Context, id string) (Task, error)
	ListTasks(ctx context.Context, f TaskFilter) (List[Task], error)
	// TaskResult returns a completed task's result; before that it is a conflict.
	TaskResult(ctx context.Context, id string) (TaskResult, error)
	// PartialResult is TaskResult, but for a task that is failed, dead_lettered or
	// cancelled it returns the results of the items that completed.
	PartialResult(ctx context.Context, id string) (TaskResult, error)
}

// TypeReader reads the registry of types.
type TypeReader interface {
	// GetType reads a version of a type, even if the type was removed; version 0 = the
	// current one.
	GetType(ctx context.Context, name string, version int) (Type, error)
	ListTypes(ctx context.Context, f TypeFilter) (List[Type], error)
}

// QueueReader reads queues.
type QueueReader interface {
	GetQueue(ctx context.Context, typ string) (Queue, error)
	// ListQueues lists the queues of the namespace, by type.
	ListQueues(ctx context.Context, page Page) (List[Queue], error)
}

// BudgetReader reads budgets.
type BudgetReader interface {
	GetBudget(ctx context.Context, name string) (Budget, error)
	// ListBudgets lists the budgets of the namespace, by name.
	ListBudgets(ctx context.Context, page Page) (List[Budget], error)
	// BudgetSpending groups what was spent of a budget.
	BudgetSpending(ctx context.Context, name string, f BudgetSpendingFilter) (BudgetSpending, error)
}

// ScheduleReader reads schedules.
type ScheduleReader interface {
	GetSchedule(ctx context.Context, name string) (Schedule, error)
	// ListSchedules lists the schedules of the namespace, by name.
	ListSchedules(ctx context.Context, page Page) (List[Schedule], error)
	// ListFirings lists what became of a schedule's ticks, newest tick first. Records are
	// kept for DefaultRetainFirings.
	ListFirings(ctx context.Context, f FiringFilter) (List[Firing], error)
}

// ItemReader reads items.
type ItemReader interface {
	GetItem(ctx context.Context, id string) (Item, error)
	ListItems(ctx context.Context, f ItemFilter) (List[Item], error)
}

// RecordReader reads events, checkpoints, parts and provenance.
type RecordReader interface {
	ListEvents(ctx context.Context, f EventFilter) (List[Event], error)
	// FollowEvents calls fn with the events after f.After (nil = all) in feed order:
	// first the existing ones, then new ones, each once, until ctx ends (it returns nil)
	// or fn returns an error. The first call has no events and the position at which it
	// starts; later calls have a batch and the position to continue after. The batch is
	// empty when events were read of which none matches. f.Page is ignored. If the
	// database went back in time, it returns a conflict with the position to restart
	// from; see RestartOf.
	FollowEvents(ctx context.Context, f EventFilter, fn func(through FeedPosition, events []Event) error) error
	ListCheckpoints(ctx context.Context, f CheckpointFilter) (List[Checkpoint], error)
	// ListParts returns the parts of an item's result, oldest first.
	ListParts(ctx context.Context, f PartFilter) (List[ItemPart], error)
	// ListProvenance returns the provenance of a task or item, oldest first.
	ListProvenance(ctx context.Context, f ProvenanceFilter) (List[ProvenanceRecord], error)
	// CountCheckpoints returns the number of a task's checkpoints by type.
	CountCheckpoints(ctx context.Context, taskID string) (map[string]int64, error)
}

// BlobWriter stores bytes that are too many for a payload.
type BlobWriter interface {
	// PutBlob reads the content to its end and stores it in the namespace, in pieces. The
	// same content is stored once. An upload that fails leaves nothing that can be read.
	// Content over the limit is ErrTooLarge; content that is not of the given address or
	// size is invalid.
	PutBlob(ctx context.Context, upload BlobUpload) (Blob, error)
}

// BlobReader reads stored bytes.
type BlobReader interface {
	// OpenBlob opens a blob of the namespace for reading, in ranges if the reader seeks. An
	// unknown address is not_found. A blob that is read from its beginning to its end is
	// compared with its address before the last bytes are returned. Close the reader; ctx
	// must last as long.
	OpenBlob(ctx context.Context, address string) (Blob, io.ReadSeekCloser, error)
}

// LogReader reads the transparency log.
type LogReader interface {
	// LogCheckpoint returns the newest checkpoint of the transparency log that a key known
	// to this process has signed. Without one it is not_found.
	LogCheckpoint(ctx context.Context) (LogCheckpoint, error)
	// ProveTask returns the proofs of a page of a task's events, as far as they are under that
	// checkpoint.
	ProveTask(ctx context.Context, taskID string, page Page) (TaskProof, error)
	// ProveLog proves that the log of size to continues that of size from. to = 0 is the
	// size of the newest checkpoint. A size that the log does not have is invalid.
	ProveLog(ctx context.Context, from, to int64) (LogConsistency, error)
}

// MessageReader reads messages, complete or open.
type MessageReader interface {
	GetMessage(ctx context.Context, id string) (Message, error)
	// ListMessages returns a conversation in order, open messages included.
	ListMessages(ctx context.Context, f MessageFilter) (List[Message], error)
	// FollowMessage calls fn with the chunks after a number (−1 = all; −1−n = the last n of
	// those that were written so far): first the existing ones, then new ones, each once and
	// in order, until the message has ended (the last frame says so), ctx ends (it also
	// returns nil) or fn returns an error. The first frame is empty: it confirms that the
	// message exists. A number of an earlier epoch (InEpoch) may be of a chunk that the database
	// has lost: then, and when the database goes back in time meanwhile, a frame has a snapshot.
	FollowMessage(ctx context.Context, id string, after int64, fn func(MessageFrame) error) error
}

// FailureReader reads what has failed, in groups.
type FailureReader interface {
	// ListFailures groups the failed and dead-lettered items of the namespace by type and error.
	// It counts at most the 10,000 largest groups. Of tasks that failed without an item it counts those among the newest 10,000
	// failed and 10,000 dead-lettered tasks of the database.
	ListFailures(ctx context.Context, f FailureFilter) (List[FailureGroup], error)
}

// StatsReader reads statistics, workers, keys, sweeps and namespaces.
type StatsReader interface {
	ListWorkers(ctx context.Context, f WorkerFilter) (List[WorkerInfo], error)
	ListKeys(ctx context.Context, f KeyFilter) (List[Key], error)
	ListSweeps(ctx context.Context, page Page) (List[SweepStats], error)
	Stats(ctx context.Context) (Stats, error)
	// ListNamespaces lists the namespaces that had work, by name, whatever the caller's is.
	ListNamespaces(ctx context.Context, page Page) (List[NamespaceInfo], error)
}

// SeriesReader reads what happened in the queues of the namespace, minute by minute.
type SeriesReader interface {
	// Series returns the counters of queues, by type. Everything that was committed before the
	// call is counted, except after a time in which no engine ran: then the counters catch up
	// within seconds. An answer of more than MaxSeriesPoints points is invalid: ask for a
	// longer step, less time or fewer types.
	Series(ctx context.Context, q SeriesQuery) ([]QueueSeries, error)
}
