package pawl

import "slices"

// ItemState is the state of an item. An item is in exactly one state.
type ItemState string

// The states of an item.
const (
	ItemScheduled    ItemState = "scheduled"     // its run_at or back-off is in the future
	ItemWaiting      ItemState = "waiting"       // for a signal, a time, a dependency or a decision
	ItemQueued       ItemState = "queued"        // claimable
	ItemLeased       ItemState = "leased"        // claimed; the worker has sent nothing since
	ItemInProgress   ItemState = "in_progress"   // claimed; the worker has sent a heartbeat, progress or data
	ItemSubmitted    ItemState = "submitted"     // its result fits; waits for the task's approval
	ItemAccepted     ItemState = "accepted"      // its task was approved
	ItemCompleted    ItemState = "completed"     // final
	ItemRejected     ItemState = "rejected"      // final
	ItemCancelled    ItemState = "cancelled"     // final
	ItemFailed       ItemState = "failed"        // an operator can retry it
	ItemDeadLettered ItemState = "dead_lettered" // failed and dead-lettered; an operator can retry it
)

// TaskState is a task's state. TaskOpen is stored but never shown: an open task reads as
// queued, checked_out or in_progress.
type TaskState string

// The states of a task.
const (
	TaskOpen         TaskState = "open"
	TaskQueued       TaskState = "queued"
	TaskCheckedOut   TaskState = "checked_out"
	TaskInProgress   TaskState = "in_progress"
	TaskSubmitted    TaskState = "submitted"
	TaskApproved     TaskState = "approved"
	TaskApplied      TaskState = "applied"
	TaskCompleted    TaskState = "completed"
	TaskRejected     TaskState = "rejected"
	TaskFailed       TaskState = "failed"
	TaskDeadLettered TaskState = "dead_lettered"
	TaskCancelled    TaskState = "cancelled"
)

// MessageState is the state of an agent's message.
type MessageState string

// The states of a message.
const (
	MessageStreaming MessageState = "streaming"
	MessageComplete  MessageState = "complete"
	MessageStopped   MessageState = "stopped"
	MessageError     MessageState = "error"
)

// Status is a coarse grouping of states.
type Status string

// The statuses. StatusExpired is not stored: it is the status of an item whose lease has
// run out and has not been swept yet.
const (
	StatusPending    Status = "pending"
	StatusInProgress Status = "in_progress"
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
	StatusExpired    Status = "expired"
)

// StateInfo is one row of a table of states.
type StateInfo struct {
	Name     string
	Status   Status
	Terminal bool // final: never changes again
	Leased   bool // has a worker and a lease_expires_at
	Timed    bool // the passing of time may change it
	Shown    bool // visible to callers; TaskOpen is not
	Stored   bool // stored in the database; queued, checked_out and in_progress of a task are derived
	Code     int  // its number, which never changes its meaning; 0 = none. The tables of items store it

	Table   string // of an item's state: the table that holds the item's row
	Counter string // of an item's state: the counter of its task that counts the item; "" = none
	Task    string // of an item's state: the state of the task, if the item is its only one

	FreesInput bool // of a task's state: another task may have the same input
}

// The tables of states and moves.
var (
	// ItemStates lists every state of an item, in the usual order.
	ItemStates = []StateInfo{
		{Name: "scheduled", Status: StatusPending, Timed: true, Shown: true, Stored: true, Code: 1,
			Table: "scheduled", Counter: "open", Task: "queued"},
		{Name: "waiting", Status: StatusPending, Timed: true, Shown: true, Stored: true, Code: 2,
			Table: "waiting", Counter: "open", Task: "queued"},
		{Name: "queued", Status: StatusPending, Shown: true, Stored: true, Code: 3, Table: "ready", Counter: "open", Task: "queued"},
		{Name: "leased", Status: StatusInProgress, Leased: true, Timed: true, Shown: true, Stored: true, Code: 4,
			Table: "leases", Counter: "open", Task: "checked_out"},
		{Name: "in_progress", Status: StatusInProgress, Leased: true, Timed: true, Shown: true, Stored: true, Code: 5,
			Table: "leases", Counter: "open", Task: "in_progress"},
		{Name: "submitted", Status: StatusInProgress, Shown: true, Stored: true, Code: 6, Table: "parked_items", Task: "submitted"},
		{Name: "accepted", Status: StatusInProgress, Shown: true, Stored: true, Code: 7, Table: "parked_items", Task: "approved"},
		{Name: "completed", Status: StatusCompleted, Terminal: true, Shown: true, Stored: true, Code: 8,
			Table: "finished_items", Task: "completed"},
		{Name: "rejected", Status: StatusFailed, Terminal: true, Shown: true, Stored: true, Code: 9, Table: "finished_items", Task: "rejected"},
		{Name: "failed", Status: StatusFailed, Timed: true, Shown: true, Stored: true, Code: 10,
			Table: "parked_items", Counter: "failed", Task: "failed"},
		{Name: "dead_lettered", Status: StatusFailed, Shown: true, Stored: true, Code: 11,
			Table: "parked_items", Counter: "dead", Task: "dead_lettered"},
		{Name: "cancelled", Status: StatusCancelled, Terminal: true, Shown: true, Stored: true, Code: 12,
			Table: "finished_items", Counter: "cancelled", Task: "cancelled"},
	}

	// TaskStates lists every state of a task, stored or shown.
	TaskStates = []StateInfo{
		{Name: "open", Status: StatusPending, Stored: true, Code: 1},
		{Name: "queued", Status: StatusPending, Shown: true},
		{Name: "checked_out", Status: StatusInProgress, Shown: true},
		{Name: "in_progress", Status: StatusInProgress, Shown: true},
		{Name: "submitted", Status: StatusInProgress, Shown: true, Stored: true, Code: 2},
		{Name: "approved", Status: StatusInProgress, Shown: true, Stored: true, Code: 3},
		{Name: "applied", Status: StatusInProgress, Shown: true, Stored: true, Code: 4},
		{Name: "completed", Status: StatusCompleted, Terminal: true, Shown: true, Stored: true, Code: 5},
		{Name: "rejected", Status: StatusFailed, Terminal: true, Shown: true, Stored: true, Code: 6, FreesInput: true},
		{Name: "failed", Status: StatusFailed, Timed: true, Shown: true, Stored: true, Code: 7},
		{Name: "dead_lettered", Status: StatusFailed, Shown: true, Stored: true, Code: 8, FreesInput: true},
		{Name: "cancelled", Status: StatusCancelled, Terminal: true, Shown: true, Stored: true, Code: 9, FreesInput: true},
	}

	// MessageStates lists every state of a message.
	MessageStates = []StateInfo{
		{Name: "streaming", Status: StatusInProgress, Shown: true, Stored: true},
		{Name: "complete", Status: StatusCompleted, Terminal: true, Shown: true, Stored: true},
		{Name: "stopped", Status: StatusCancelled, Terminal: true, Shown: true, Stored: true},
		{Name: "error", Status: StatusFailed, Shown: true, Stored: true},
	}

	// TaskStatuses and ItemStatuses are the statuses that tasks and items have, in the usual
	// order.
	TaskStatuses = statuses(TaskStates)
	ItemStatuses = append(statuses(ItemStates), StatusExpired)

	// ItemMoves is the lifecycle of an item (docs/contract.md §1).
	ItemMoves = []Move{
		{[]string{""}, "create", []string{"queued", "scheduled", "waiting"}, "proposed", true,
			"scheduled when run_at lies ahead, waiting when it depends on another item; a task of many items leaves `planned` for each"},
		{[]string{"scheduled"}, "due", []string{"queued"}, "due", false, "run_at has come"},
		{[]string{"waiting"}, "ready", []string{"queued"}, "ready", false, "its signal, time, dependency or decision arrived"},
		{[]string{"queued"}, "claim", []string{"leased"}, "leased", true, "attempt+1"},
		{[]string{"leased"}, "start", []string{"in_progress"}, "in_progress", false,
			"the first sign of life of the attempt: heartbeat, progress, checkpoint, part or chunk"},
		{held, "complete", []string{"completed"}, "completed", true, "types without acceptance"},
		{held, "submit", []string{"submitted"}, "submitted", true, "the result fits the type's schema"},
		{held, "fail", []string{"scheduled", "queued", "failed"}, "failed", true,
			"failures+1; back-off, or at once when it is 0; failed when it is not retryable or max_attempts is reached"},
		{held, "expire", []string{"queued", "failed"}, "lease_expired", false,
			"by the sweep, without a back-off; failures+1, except for items that were prefetched or waited for, and never started"},
		{held, "release", []string{"queued", "scheduled"}, "released", true, "given back; scheduled when delay_seconds is given; not counted"},
		{held, "revoke_lease", []string{"queued"}, "lease_revoked", true,
			"an operator ended the lease, or the API key that holds it was revoked; not counted"},
		{held, "suspend", []string{"waiting"}, "suspended", true, "until a signal or a time; not counted"},
		{[]string{"submitted"}, "accept", []string{"accepted"}, "accepted", false, "its task was approved"},
		{[]string{"accepted"}, "settle", []string{"completed"}, "", false, "its task was applied"},
		{[]string{"submitted"}, "reject", []string{"rejected", "queued"}, "rejected", true,
			"final, or for rework: failures reset, rework+1"},
		{[]string{"waiting"}, "give_up", []string{"failed", "cancelled"}, "", false,
			"an item it depends on failed or was cancelled, or its deadline passed; not counted"},
		{[]string{"scheduled", "queued", "leased", "in_progress"}, "give_up", []string{"failed"}, "", false,
			"its deadline passed, or it was queued for longer than schedule_to_start_seconds; also the item of the task that reports a " +
				"disabled relay; not counted"},
		{[]string{"failed", "dead_lettered"}, "retry", []string{"queued"}, "retried", true, "failures reset; the attempt keeps rising"},
		{[]string{"failed"}, "bury", []string{"dead_lettered"}, "dead_lettered", true, "after 48 h, or by an operator"},
		{[]string{"scheduled", "waiting", "queued", "leased", "in_progress", "submitted", "accepted", "failed", "dead_lettered"}, "cancel",
			[]string{"cancelled"}, "cancelled", true, "from any state that is not final"},
	}

	// TaskMoves is the lifecycle of a task (docs/contract.md §2).
	TaskMoves = []Move{
		{[]string{""}, "create", []string{"open"}, "proposed", true, "with its items"},
		{[]string{"open"}, "settle", []string{"submitted", "completed", "failed", "dead_lettered", "cancelled"}, "", false,
			"its last item has no work left"},
		{[]string{"submitted"}, "settle", []string{"failed", "dead_lettered", "cancelled"}, "", false,
			"the last item that decided its state was cancelled; the remaining items decide"},
		{[]string{"failed"}, "settle", []string{"submitted", "completed", "dead_lettered", "cancelled"}, "", false,
			"the last item that decided its state was cancelled; the remaining items decide"},
		{[]string{"dead_lettered"}, "settle", []string{"submitted", "completed", "cancelled"}, "", false,
			"the last item that decided its state was cancelled; the remaining items decide"},
		{[]string{"submitted"}, "approve", []string{"approved"}, "approved", true, "the first decision wins"},
		{[]string{"submitted"}, "reject", []string{"rejected", "open"}, "rejected", true, "final, or items are sent back for rework"},
		{[]string{"approved"}, "apply", []string{"applied"}, "applied", false, "it takes effect, once"},
		{[]string{"approved"}, "fail", []string{"failed"}, "failed", false, "apply failed; failed_in: apply"},
		{[]string{"applied"}, "settle", []string{"completed"}, "", false, "in the same transaction as apply"},
		{[]string{"failed", "dead_lettered"}, "retry", []string{"open", "approved"}, "retried", true, "approved when it was apply that failed"},
		{[]string{"failed"}, "bury", []string{"dead_lettered"}, "dead_lettered", true, "after 48 h, or by an operator"},
		{[]string{"open", "submitted", "approved", "failed", "dead_lettered"}, "cancel", []string{"cancelled"}, "cancelled", true,
			"from any state that is not final; applied lasts for no longer than a transaction"},
	}

	// MessageMoves is the lifecycle of a message (docs/contract.md §6).
	MessageMoves = []Move{
		{[]string{""}, "create", []string{"streaming", "complete"}, "message_started", true, ""},
		{[]string{"streaming"}, "finish", []string{"complete"}, "message_ended", true, ""},
		{[]string{"streaming"}, "stop", []string{"stopped"}, "message_ended", true, "the item stays leased"},
		{[]string{"streaming"}, "exhaust", []string{"error"}, "message_ended", false, "its item failed"},
		{[]string{"error"}, "resume", []string{"streaming"}, "message_started", false,
			"its item was retried; the same message continues, the cut stays visible"},
	}

	// KeyStatuses lists all statuses of a key.
	KeyStatuses = []string{KeyPending, KeyCompleted, KeyFailed}
)

func statuses(states []StateInfo) []Status {
	var out []Status
	for _, s := range states {
		if !slices.Contains(out, s.Status) {
			out = append(out, s.Status)
		}
	}
	return out
}

// Move is one row of a lifecycle: Verb moves from any state of From to one of To. From
// is "" for creation.
type Move struct {
	From  []string
	Verb  string
	To    []string
	Event string // the event of the move; "" if the new state determines it
	Asked bool   // callers can ask for it; other moves happen by themselves
	Note  string // when and why, for the documentation
}

var held = []string{"leased", "in_progress"}

// From lists the states that a verb starts from, each once, in table order.
func From(moves []Move, verb string) []string {
	var out []string
	for _, m := range moves {
		for _, from := range m.From {
			if m.Verb == verb && !slices.Contains(out, from) {
				out = append(out, from)
			}
		}
	}
	return out
}

// Allowed lists the verbs that a caller may ask for in a state, in table order. In a
// final state it is empty, never nil. For the shown states of a task, convert them with
// Stored first.
func Allowed(moves []Move, state string) []string {
	out := []string{}
	for _, m := range moves {
		if m.Asked && slices.Contains(m.From, state) && !slices.Contains(out, m.Verb) {
			out = append(out, m.Verb)
		}
	}
	return out
}

// Status returns the state's status.
func (s ItemState) Status() Status { return find(ItemStates, string(s)).Status }

// Ended reports whether the state is final.
func (s ItemState) Ended() bool { return find(ItemStates, string(s)).Terminal }

// Leased reports whether a worker holds the item.
func (s ItemState) Leased() bool { return find(ItemStates, string(s)).Leased }

// Allowed lists the verbs that a caller may ask for in this state.
func (s ItemState) Allowed() []string { return Allowed(ItemMoves, string(s)) }

// Status returns the state's status.
func (s TaskState) Status() Status { return find(TaskStates, string(s)).Status }

// Ended reports whether the state is final.
func (s TaskState) Ended() bool { return find(TaskStates, string(s)).Terminal }

// Over reports whether a task has ended or failed: nothing but an operator's verb changes it.
func (s TaskState) Over() bool { return s.Ended() || s == TaskFailed || s == TaskDeadLettered }

// Stored returns the state as it is stored: TaskOpen for queued, checked_out and
// in_progress.
func (s TaskState) Stored() TaskState {
	if find(TaskStates, string(s)).Stored {
		return s
	}
	return TaskOpen
}

// Allowed lists the verbs that a caller may ask for in this state.
func (s TaskState) Allowed() []string { return Allowed(TaskMoves, string(s.Stored())) }

// Ended reports whether the state is final.
func (s MessageState) Ended() bool { return find(MessageStates, string(s)).Terminal }

// Allowed lists the verbs that a caller may ask for in this state.
func (s MessageState) Allowed() []string { return Allowed(MessageMoves, string(s)) }

func find(states []StateInfo, name string) StateInfo {
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	return StateInfo{}
}
