package kernel

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Tasks are what other rooms ask of the work: the verbs, and parts of them.
type Tasks interface {
	pawl.Service
	// Draft checks and plans a task without writing it. With an error there may be a draft too.
	Draft(ctx context.Context, t *pawl.NewTask, a Allowed) (Draft, error)
	// Insert inserts plain drafts. It returns the time at which they were made.
	Insert(ctx context.Context, w *Write, drafts []Draft) (now int64, err error)
	// CheckQueue refuses a type and a priority if the queues of the namespace would be too many.
	CheckQueue(ctx context.Context, typ string, priority int) error
	// Follow does what follows from a change that has committed.
	Follow(ctx context.Context, f After)
	// Ours refuses a lease that belongs to another API key.
	Ours(ctx context.Context, f pawl.Fence) error
	// AppendRows adds chunks to messages of leased items, in group commits. Of a call that did not hold its lease, the error is the
	// reason.
	AppendRows(ctx context.Context, calls []AppendRow) ([]pawl.Result[store.Appended], error)
	// DeleteEnded deletes those of some tasks that have ended and belong to no others. It returns their ids.
	DeleteEnded(ctx context.Context, namespace string, taskIDs []string, by store.Deletion) ([]string, error)
	// EndLeases ends the leases that were claimed with an API key.
	EndLeases(ctx context.Context, keyID string, by store.Actor) error
	// Stated runs the calls of a batch of spawns, and stores the provenance that they state.
	Stated(ctx context.Context, calls []pawl.SpawnCall,
		run func(ctx context.Context, k *Kernel, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error)) ([]pawl.Result[pawl.Task], error)
	// Refer keeps the uploaded blobs that a draft refers to.
	Refer(ctx context.Context, op string, d Draft) error
	// CancelAlone cancels a task, but not its children.
	CancelAlone(ctx context.Context, call *pawl.TaskCall) error
	// Delete deletes a task as pawl.TaskOperator does, and before it at most as many of its children, and of theirs, as most
	// says. With more, the rest and the task are left to the background.
	Delete(ctx context.Context, call pawl.TaskCall, most *atomic.Int64) error
	// Remove removes a task that has ended.
	Remove(ctx context.Context, namespace, taskID string, by store.Deletion) error
	// Log brings the log up to date: what is removed is in it before.
	Log(ctx context.Context) error
}

// After is what follows from a change.
type After struct {
	Queued   []store.DueItem  // items that became claimable
	Waking   bool             // a signal may have items left to queue
	Children []string         // tasks that are children, and may have ended
	Advance  []string         // tasks that the engine has to advance
	Failed   *store.Dependent // an item that failed because of others
}

// Allowed is what a draft may be that a caller's task may not.
type Allowed struct {
	Stored   bool // it is stored already: older rules may have allowed it
	Reserved bool // of a type that is reserved for Pawl
	Spawned  store.Spawned
}

// Draft is a task that is being created.
type Draft interface {
	TaskID() string
	OnlyItem() string // the id of its item, if it has one
	Typed() bool      // its type is registered
	Plain() bool      // all of it is rows of its own, which Insert writes in any transaction
	Bytes() int       // the size of its values
	// Answer is the task as it is when it was inserted.
	Answer(now int64) pawl.Task
}

// Origin is what makes calls of verbs in place of a caller; the zero value = nothing does.
type Origin struct {
	Schedule string // its tick makes the task
	Tick     time.Time
	Bulk     string // the task of the bulk call
}

// Data is the data of events that a bulk call leaves; "" = they are not part of one.
func (o Origin) Data() store.Text {
	if o.Bulk == "" {
		return ""
	}
	return store.Text(`{"bulk":"` + o.Bulk + `"}`)
}

// Fence is the row of a fence of a caller.
func Fence(c pawl.Caller, f pawl.Fence) store.Fence {
	return store.Fence{
		Namespace: c.Namespace,
		ItemID:    f.ItemID,
		WorkerID:  f.WorkerID,
		Attempt:   min(f.Attempt, math.MaxInt32),
	} // the largest value of the column and of an item
}
