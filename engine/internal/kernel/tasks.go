package kernel

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
)

// Tasks are what other rooms ask of the work.
type Tasks interface {
	// Draft checks and plans a task without writing it. A stored task may be one that older rules have allowed.
	// With an error there may be a draft too.
	Draft(ctx context.Context, t *pawl.NewTask, stored bool) (Draft, error)
	// Insert inserts plain drafts.
	Insert(ctx context.Context, w *Write, drafts []Draft) error
	CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error)
	CancelTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error)
}

// Draft is a task that is being created.
type Draft interface {
	TaskID() string
	Typed() bool // its type is registered
	Plain() bool // all of it is rows of its own, which Insert writes in any transaction
	Bytes() int  // the size of its values
}

// Origin is the tick of a schedule that makes a task; the zero value = none.
type Origin struct {
	Schedule string
	Tick     time.Time
}
