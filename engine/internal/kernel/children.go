package kernel

import (
	"context"
	"sync/atomic"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Children are what the work asks of children. Those of its functions that have a Kernel do for calls of an origin what
// follows from changes that have committed; in a scope, after its commit. What they leave is left to the next pass.
type Children interface {
	// Link locks the parents of new tasks, counts the children and links them. Tasks without a parent are skipped. A parent
	// that does not exist is not_found; one that has ended or failed is a conflict.
	Link(ctx context.Context, tx store.Tx, tasks []store.NewTask) error
	// Count returns how many children a task has had. A task that is locked gets no more.
	Count(ctx context.Context, tx store.Tx, taskID string) (int, error)
	// Check checks the children that suspensions wait for, and returns the calls that may be carried out. It stores the
	// errors of the others.
	Check(ctx context.Context, k *Kernel, calls []pawl.SuspendCall, out []pawl.Result[pawl.Moved]) (good []int, err error)
	// Wait returns the wait to store.
	Wait(w *pawl.ChildWait) *store.ChildWait
	// Await is leave, which suspends items, if some of them wait for children.
	Await(ctx context.Context, tx store.Tx, calls []store.Leave, leave func() ([]store.Moved, error)) ([]store.Moved, error)
	// Of returns the last wait of an item for children; nil = it never waited.
	Of(ctx context.Context, tx store.Tx, itemID string) (*pawl.ChildrenState, error)
	// Results lists the children of an item's last wait that have ended, in the order of ids. A result that is larger than
	// pawl.MaxChildResult is left out.
	Results(ctx context.Context, tx store.Tx, itemID string, page pawl.Page) (pawl.List[pawl.ChildResult], error)
	// Open returns the first child that an item waits for and that has not ended; "" = none.
	Open(ctx context.Context, tx store.Tx, itemID string) (id string, err error)
	// Ended counts tasks that may be children, and may have ended, in the waits for them.
	Ended(ctx context.Context, k *Kernel, of Origin, ids []string)
	// Counted goes on with what the ends of children have moved.
	Counted(ctx context.Context, c store.ChildrenEnded)
	// PassOn cancels, or deletes, the children of tasks that were cancelled or deleted.
	PassOn(ctx context.Context, k *Kernel, of Origin)
	// Delete deletes the children of a task that have not ended, before the task itself. gone says that the task may be
	// removed now. Otherwise it is removed after the other children. most is how many are deleted before the answer; nil = as
	// many as of one call.
	Delete(ctx context.Context, k *Kernel, of Origin, call pawl.TaskCall, by store.Deletion, most *atomic.Int64) (gone bool, err error)
	// Settle counts children that ended when the process that should have counted them died, and goes on with cancels that
	// it should have passed on. Waits that are over cost nothing.
	Settle(ctx context.Context) error
	// Tell tells the loop that there may be children to count or to cancel.
	Tell()
}
