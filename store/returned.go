package store

import (
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
)

var returnedSQL = Texts(sqlFiles, "returned.sql")

// Returned is an item as a statement left it: the row that it wrote, and the other values
// that it read. A verb answers with it when Fence.Return is set.
type Returned struct {
	StateRow
	item pawl.Item // the members that never change

	Parts []pawl.ItemPart // live ones of a leased item, with key and status
}

// ReturnItem returns the columns that NewReturned reads, for the item whose id is the
// expression id. lease names columns of the lease row, besides those that an ended item
// keeps; of is the prefix of that row ("l." or ""). more has further members, each with a
// comma before it.
func ReturnItem(id, of, more string, lease ...string) string {
	for _, c := range new(Carried).Kept() {
		if c.Name != "attempt" && c.Name != "failures" { // the verb's answer has them
			lease = append(lease, c.Name)
		}
	}
	for _, column := range lease {
		more += ", '" + column + "', " + of + column
	}
	return strings.NewReplacer("@id", id, "@more", more).Replace(returnedSQL["item"])
}

// PartStatuses returns the member of ReturnItem for the parts of an item with acceptance.
func PartStatuses(id, of string) string {
	return ", 'parts', CASE WHEN " + of + "acceptance = 1 THEN " + strings.Replace(returnedSQL["parts"], "@id", id, 1) + " END"
}

// returnedColumn is the first column of ReturnItem.
type returnedColumn struct {
	Type, Kind, Key, After string
	PartsRequired          Text `json:"parts_required"`
	Position, Priority     int
	CreatedAt              int64 `json:"created_at"`
	Deadline               *int64
	Progress               *int
	LeaseSeconds           int    `json:"lease_seconds"`
	AcquiredAt             int64  `json:"acquired_at"`
	HeartbeatAt            int64  `json:"heartbeat_at"`
	ExpiresAt              int64  `json:"lease_expires_at"`
	StartedAt              *int64 `json:"started_at"`
	ProgressedAt           *int64 `json:"progressed_at"`
	Stage, Error           Text
	Parts                  [][2]string
	Carried                // those of Kept
}

// ReturnedColumns are the columns of ReturnItem. The input has its own column: it may be
// large, and to encode it as JSON would take longer than the rest of the statement.
type ReturnedColumns struct{ rest, input Text }

// Targets returns the pointers that the columns are scanned into.
func (c *ReturnedColumns) Targets() []any { return []any{&c.rest, &c.input} }

// NewReturned returns the item under its lease, read from the columns of ReturnItem.
func NewReturned(f Fence, taskID string, failures int, columns ReturnedColumns) (*Returned, error) {
	var c returnedColumn
	if err := json.Unmarshal([]byte(columns.rest), &c); err != nil {
		return nil, unreadable(err)
	}
	r := &Returned{StateRow: StateRow{ItemID: f.ItemID, Namespace: f.Namespace, TaskID: taskID, State: string(pawl.ItemInProgress),
		WorkerID: Text(f.WorkerID),
		Error:    c.Error, StartedAt: c.StartedAt, Stage: c.Stage, Progress: c.Progress, ProgressedAt: c.ProgressedAt,
		LeaseSeconds: c.LeaseSeconds, AcquiredAt: c.AcquiredAt, HeartbeatAt: c.HeartbeatAt, ExpiresAt: c.ExpiresAt}}
	r.Carried = c.Carried
	r.Attempt, r.Failures = f.Attempt, failures
	r.item = pawl.Item{ID: f.ItemID, TaskID: taskID, Namespace: f.Namespace, Type: c.Type, Kind: c.Kind, Key: c.Key, Position: c.Position,
		Priority:    c.Priority,
		MaxAttempts: c.MaxAttempts, Input: json.RawMessage(columns.input), PartsRequired: Raw(c.PartsRequired), CreatedAt: Stamp(c.CreatedAt),
		Deadline: StampOf(c.Deadline)}
	if c.After != "" {
		_ = json.Unmarshal([]byte(c.After), &r.item.After) // written by us
	}
	for _, p := range c.Parts {
		r.Parts = append(r.Parts, pawl.ItemPart{Key: p[0], Status: p[1]})
	}
	return r, nil
}

func unreadable(err error) error {
	return &pawl.Error{Code: pawl.CodeInternal, Message: "a statement's answer cannot be read", Err: err}
}

// ReturnedOf returns the item of a row that was written. before is the item as it was read
// before; its priority may have changed since, its last worker has not.
func ReturnedOf(before pawl.Item, h StateRow) *Returned {
	before.Priority, h.WorkerID = h.Priority, Text(before.LastWorkerID)
	return &Returned{StateRow: h, item: before}
}

// Completed changes the item as a complete does.
func (r *Returned) Completed(result string, now int64) {
	r.State, r.Since, r.CompletedAt, r.Result = "completed", &now, &now, Text(result)
}

// Left changes the item as a leave does.
func (r *Returned) Left(c *Leave, m *Moved) {
	now, runAt := m.Now, m.RunAt // m is read into again for the next row
	r.State, r.Since, r.LeftBy = m.State, &now, "released"
	switch c.Verb {
	case VerbFail:
		r.LeftBy, r.Error = "failed", Text(c.Error)
	case VerbSuspend:
		r.LeftBy, r.Until, r.Signal, r.SignalKey = "suspended", c.Until, c.Signal, c.Key
	}
	switch m.State {
	case "scheduled":
		r.RunAt = &runAt
	case "failed":
		r.CompletedAt = &now
	}
}

// Touched changes the item as a progress report does.
func (r *Returned) Touched(c *Touch, now int64) {
	if c.Progress != nil {
		r.Progress = c.Progress
	}
	if c.Stage != nil {
		r.Stage = Text(*c.Stage)
	}
	if c.Progress != nil || c.Stage != nil {
		r.ProgressedAt = &now
	}
}

// Item returns the item as the view item_rows shows the row. What a queued item waits for
// is read after the commit: see BlockItems.
func (r *Returned) Item() *pawl.Item {
	it := r.item
	it.TaskID, it.LastWorkerID = r.TaskID, string(r.WorkerID)
	r.show(&it)
	it.State = pawl.ItemState(r.State)
	it.Status, it.StartedAt, it.Error, it.Progress = it.State.Status(), StampOf(r.StartedAt), FailureOf(r.Error), progressOf(nil, r.State)
	it.WorkerID, it.LeaseSeconds, it.LeaseAcquiredAt, it.LeaseExpiresAt, it.HeartbeatAt, it.PartsState = "", 0, nil, nil, nil, nil
	stage := r.Stage
	if r.Since != nil {
		it.UpdatedAt = Stamp(*r.Since)
	}
	switch {
	case it.State.Leased():
		it.WorkerID, it.LeaseSeconds, it.Progress = string(r.WorkerID), r.LeaseSeconds, progressOf(r.Progress, r.State)
		it.LeaseAcquiredAt, it.LeaseExpiresAt, it.HeartbeatAt = StampOf(&r.AcquiredAt), StampOf(&r.ExpiresAt), StampOf(&r.HeartbeatAt)
		it.UpdatedAt = Stamp(max(r.HeartbeatAt, deref(r.ProgressedAt)))
	case it.Status == pawl.StatusPending:
		stage = ""
		it.RunAt = StampOf(r.goesOn())
		it.BlockedBy = r.blocked()
	default:
		it.Result, it.AssembledResult = Raw(r.Result), Raw(r.Assembled)
		it.AcceptedAt, it.CompletedAt = StampOf(r.AcceptedAt), StampOf(r.CompletedAt)
		if it.State == pawl.ItemCompleted {
			it.Error = nil
		}
	}
	it.Stage = stageOrState(stage, r.State)
	return &it
}

func deref[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}

// goesOn returns the time at which a scheduled or waiting item becomes due.
func (r *Returned) goesOn() *int64 {
	switch r.State {
	case "scheduled":
		return r.RunAt
	case "waiting":
		return r.Until
	}
	return nil
}

// blocked returns what a scheduled or waiting item waits for.
func (r *Returned) blocked() *pawl.Blocked {
	if r.State == "queued" {
		return nil
	}
	return parkedReason(r.goesOn(), r.Signal, r.SignalKey, "", "", r.LeftBy, 0, r.Failures)
}
