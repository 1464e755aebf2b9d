package kernel

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Signals are what others ask of signals.
type Signals interface {
	// Tell sends a signal of Pawl's own, which has no payload. It returns the items that it queued. Others may be left to WakeRest.
	Tell(ctx context.Context, tx store.Tx, namespace, name, key string, by store.Actor) ([]store.DueItem, error)
	// Await is leave, which suspends items, if some of them wait for a signal. An item whose signal was sent already is
	// queued again.
	Await(ctx context.Context, tx store.Tx, calls []store.Leave, leave func() ([]store.Moved, error)) ([]store.Moved, error)
	// WakeRest queues the items of all signals that have some left to queue, each batch in a transaction of its own.
	WakeRest(ctx context.Context, k *Kernel) error
	// Answers returns what reads the signal that a wait of an item has, for the checkpoint of that wait; false = none was
	// sent since the item took one of that name and key.
	Answers(namespace, taskID, itemID string) func(ctx context.Context, tx store.Tx, a pawl.Awaited,
		c *pawl.Checkpoint) (pawl.SentSignal, bool, error)
}
