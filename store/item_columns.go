package store

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Carried has the values that move with an item from table to table.
//
// To add a column, write a migration for each database that adds it to the tables of
// states, and add a field here and a line in Columns. All statements then move and archive
// it. A line in Given sets it when the item is created; NewItem.Take takes the value that
// the caller gives, and NewItem.Planned shows it in a dry run. A line in Kept keeps it in
// finished_items. A line in the columns of itemScan shows it in reads, and show in the answers of
// verbs.
type Carried struct {
	Attempt, Failures                       int
	MaxAttempts                             int `json:"max_attempts"` // for ReturnItem
	Solo, Feeds, Acceptance, Rework, Spared int
	Gate                                    *int64 // that its claims pass; nil = its queue has no limits
	StartToClose, ScheduleToStart           *int64 // seconds; nil = no timeout
}

// FeedsItems says whether other items depend on the item: feeds is odd.
func (c *Carried) FeedsItems() bool { return c.Feeds%2 == 1 }

// OfChild says whether the item's task is a child of another task: feeds is 2 or 3.
func (c *Carried) OfChild() bool { return c.Feeds > 1 }

// Columns are the columns that all tables of items that have not ended share: ready,
// scheduled, waiting, leases and parked_items. In statements they are @columns(carried).
func (c *Carried) Columns() []Column {
	return []Column{
		{"attempt", &c.Attempt},
		{"failures", &c.Failures},
		{"max_attempts", &c.MaxAttempts},
		{"solo", &c.Solo},
		{"feeds", &c.Feeds},
		{"acceptance", &c.Acceptance},
		{"rework", &c.Rework},
		{"spared", &c.Spared},
		{"gate", &c.Gate},
		{"start_to_close", &c.StartToClose},
		{"schedule_to_start", &c.ScheduleToStart},
	}
}

// Given are the columns that are set when the item is created. The others start with their
// default values. In statements they are @columns(given).
func (c *Carried) Given() []Column {
	return []Column{{"max_attempts", &c.MaxAttempts}, {"solo", &c.Solo}, {"feeds", &c.Feeds}, {"acceptance", &c.Acceptance},
		{"gate", &c.Gate}, {"start_to_close", &c.StartToClose}, {"schedule_to_start", &c.ScheduleToStart}}
}

// Kept are the columns that an ended item keeps in finished_items. In statements they are
// @columns(kept).
func (c *Carried) Kept() []Column {
	return []Column{{"attempt", &c.Attempt}, {"failures", &c.Failures}, {"rework", &c.Rework}}
}

// LeaseEnd returns when a lease ends that was acquired at a time and would end at another:
// no later than start_to_close after the claim.
func (c *Carried) LeaseEnd(acquired, end int64) int64 {
	if c.StartToClose == nil {
		return end
	}
	return min(end, acquired+*c.StartToClose*1_000_000)
}

// show sets the members of an item that verbs answer with, besides those that never change:
// the kept columns.
func (c *Carried) show(it *pawl.Item) {
	it.Attempt, it.Failures, it.Rework = c.Attempt, c.Failures, c.Rework
}

// NewItem is a row of items to insert, with the state that it starts in.
type NewItem struct {
	ID, Namespace, TaskID, Type, Kind string
	Solo                              bool
	Aside                             bool // a plan or apply item
	Position                          int
	Key                               Text
	Priority                          int
	MaxAttempts                       int
	RunAt                             *int64
	Deadline                          *int64
	StartToClose, ScheduleToStart     *int64   // seconds
	After                             Text     // JSON list of keys
	Needs                             []string // ids of the items that must complete first
	Feeds                             bool     // another item needs it
	Child                             bool     // its task is a child
	Acceptance                        bool
	Input                             string
	Actor                             Actor
	Data                              Text // solo: the task's Data goes into the one event
	Gate                              *int64
}

// Take sets the columns that are stored as the caller gives them. Zero values stand for
// those of the task.
func (i *NewItem) Take(given *pawl.NewItem) {
	i.Type, i.Key, i.MaxAttempts = given.Type, Text(given.Key), given.MaxAttempts
	if len(given.After) > 0 {
		i.After = Text(List(given.After))
	}
}

// Planned returns the item as a dry run shows it: what a caller gives to create it.
func (i *NewItem) Planned() pawl.NewItem {
	out := pawl.NewItem{Input: json.RawMessage(i.Input), Type: i.Type, Priority: &i.Priority, Key: string(i.Key), MaxAttempts: i.MaxAttempts,
		RunAt: StampOf(i.RunAt), Deadline: StampOf(i.Deadline)}
	if i.After != "" {
		_ = json.Unmarshal([]byte(i.After), &out.After) // written by us
	}
	return out
}

// Queue returns the namespace and type of the item.
func (i *NewItem) Queue() QueueName { return QueueName{i.Namespace, i.Type} }

// Since returns since when the item is queued, if it is when it is created. Only an item that
// must be claimed in time has it: others are queued since they were created.
func (i *NewItem) Since(now int64) *int64 {
	if i.ScheduleToStart == nil {
		return nil
	}
	return &now
}

// Mark returns the value of solo in the item's rows: 1 for the only item of a task, Aside
// for a plan or apply item, else 0.
func (i *NewItem) Mark() int {
	switch {
	case i.Aside:
		return Aside
	case i.Solo:
		return 1
	}
	return 0
}

// Carried returns the carried values that the item starts with. Plan and apply items have
// acceptance set: the hot verb Complete does not touch rows with acceptance. Results that
// are accepted, and plan and apply items, are ended by other verbs.
func (i *NewItem) Carried() Carried {
	return Carried{MaxAttempts: i.MaxAttempts, Solo: i.Mark(), Feeds: Bit(i.Feeds) + 2*Bit(i.Child), Acceptance: Bit(i.Acceptance || i.Aside),
		StartToClose: i.StartToClose, ScheduleToStart: i.ScheduleToStart, Gate: i.Gate}
}

// Bit is 1 for true: a column that is an integer in both databases.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ItemRow is an item as read, and the values that only the fence needs.
type ItemRow struct {
	pawl.Item
	LeftBy       string // how its last claim ended: expired, released, suspended, failed
	LeaseExpires int64
	Acceptance   bool
}

// itemScan is what a row of item_rows is scanned into.
type itemScan struct {
	ItemRow
	key, after, parts, left, worker, last Text
	stage, result, assembled, failure     Text
	input                                 string
	leaseSeconds, progress, acceptance    *int
	created, updated                      int64
	acquired, expires, beat               *int64
	runAt, started, accepted, completed   *int64
	deadline                              *int64
}

// columns are the columns that are read of an item: @columns(item) in statements.
func (s *itemScan) columns() []Column {
	return []Column{
		{"id", (*ItemID)(&s.ID)}, {"namespace", &s.Namespace}, {"task_id", (*TaskID)(&s.TaskID)}, {"type", &s.Type}, {"kind", &s.Kind},
		{"position", &s.Position}, {"key", &s.key}, {"priority", &s.Priority}, {"after", &s.after}, {"input", &s.input},
		{"parts_required", &s.parts}, {"created_at", &s.created}, {"state", &s.State}, {"attempt", &s.Attempt},
		{"failures", &s.Failures}, {"max_attempts", &s.MaxAttempts}, {"rework", &s.Rework}, {"left_by", &s.left},
		{"worker_id", &s.worker}, {"last_worker_id", &s.last}, {"lease_seconds", &s.leaseSeconds}, {"lease_acquired_at", &s.acquired},
		{"lease_expires_at", &s.expires}, {"heartbeat_at", &s.beat}, {"progress", &s.progress}, {"stage", &s.stage},
		{"result", &s.result}, {"assembled_result", &s.assembled}, {"error", &s.failure}, {"run_at", &s.runAt},
		{"started_at", &s.started}, {"accepted_at", &s.accepted}, {"completed_at", &s.completed}, {"updated_at", &s.updated},
		{"deadline", &s.deadline},
	}
}

// item returns the item that was scanned.
func (s *itemScan) item(now int64) ItemRow {
	it := s.ItemRow
	it.Key, it.WorkerID, it.LastWorkerID, it.LeftBy = string(s.key), string(s.worker), string(s.last), string(s.left)
	it.Input, it.Result, it.AssembledResult, it.PartsRequired = json.RawMessage(s.input), Raw(s.result), Raw(s.assembled), Raw(s.parts)
	if it.State != pawl.ItemCompleted { // the events of a completed item keep its errors
		it.Error = FailureOf(s.failure)
	}
	if s.after != "" {
		_ = json.Unmarshal([]byte(s.after), &it.After) // written by us
	}
	it.CreatedAt, it.UpdatedAt = Stamp(s.created), Stamp(s.updated)
	it.LeaseAcquiredAt, it.LeaseExpiresAt, it.HeartbeatAt = StampOf(s.acquired), StampOf(s.expires), StampOf(s.beat)
	it.RunAt, it.StartedAt, it.AcceptedAt, it.CompletedAt = StampOf(s.runAt), StampOf(s.started), StampOf(s.accepted), StampOf(s.completed)
	it.Deadline, it.Status = StampOf(s.deadline), it.State.Status()
	if s.leaseSeconds != nil {
		it.LeaseSeconds = *s.leaseSeconds
	}
	if s.expires != nil {
		it.LeaseExpires = *s.expires
		if now > 0 && *s.expires <= now {
			it.Status = pawl.StatusExpired
		}
	}
	it.Acceptance = s.acceptance != nil && *s.acceptance == 1
	it.Stage, it.Progress = stageOrState(s.stage, string(it.State)), progressOf(s.progress, string(it.State))
	return it
}
