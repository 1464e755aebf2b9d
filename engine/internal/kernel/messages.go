package kernel

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Messages are what the work asks of messages.
type Messages interface {
	// Said returns the messages that a task is created with. of has what they have in common.
	Said(t *pawl.NewTask, of NewMessage) []NewMessage
	// Begin writes the thread and the messages of a new task.
	Begin(ctx context.Context, tx store.Tx, now int64, taskID, thread string, all []NewMessage) error
	// End ends the open messages of items, or of a task, that have no work left. The sweep does the same, so nothing is lost if
	// this process dies first.
	End(ctx context.Context, k *Kernel, items []string, taskID string)
	// EndOpen is End for items of which few have a message.
	EndOpen(ctx context.Context, k *Kernel, items []string)
	// Resume opens messages again that ended with an error, for items of a task that are queued again.
	Resume(ctx context.Context, tx store.Tx, now int64, taskID string, items []store.DueItem, by store.Actor) error
	// OfItem lists the messages that an item has written in chunks since it was last sent back for rework, which has happened a
	// number of times, oldest first.
	OfItem(ctx context.Context, tx store.Tx, taskID, itemID string, rework int, p pawl.Page) (pawl.List[pawl.MessageRef], error)
	// Open returns the open message that an item's next attempt continues; nil = none. said is the first page of the item's
	// messages.
	Open(ctx context.Context, tx store.Tx, ns, itemID string, said pawl.List[pawl.MessageRef]) (*pawl.OpenMessage, error)
	// Close ends the readers.
	Close()
}

// NewMessage is a message to insert. It is open when it has no content.
type NewMessage struct {
	ID, Namespace, TaskID string
	Thread, ItemID        store.Text
	Attempt               *int
	Role                  string
	Content               store.Text
	Model                 store.Text
	MaxSteps              int
	Metadata              store.Text
	Actor                 store.Actor
}

// AppendRow is a call that adds chunks to a message of a leased item.
type AppendRow struct {
	Fence pawl.Fence
	store.Append
}
