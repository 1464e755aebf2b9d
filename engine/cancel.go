package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// cancelBatch bounds the items that one transaction cancels.
const cancelBatch = 250

// cancelAhead cancels the items of a large task in batches, all but the last
// batch: one transaction for all would hold up other writers for longer than their
// leases last. The caller cancels the rest together with the task. After an error
// the task has fewer items left to cancel. A call that is part of a transaction
// cancels everything in it.
func (e *Engine) cancelAhead(ctx context.Context, call *pawl.TaskCall) error {
	if e.scope != nil || call.ItemIDs != nil || len(call.TaskID) > pawl.MaxIDLen || len(call.Reason) > pawl.MaxReasonLen {
		return nil
	}
	c := pawl.CallerOf(ctx)
	ids, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]string, error) {
		return store.ItemsToCancel(ctx, tx, ns, call.TaskID, cancelBatch)
	})
	for err == nil && len(ids) > cancelBatch {
		change := store.Change{Namespace: c.Namespace, TaskID: call.TaskID, Verb: "cancel", ItemIDs: ids[:cancelBatch],
			Actor: actor(c, pawl.ActorUser, ""), Reason: store.Text(call.Reason)}
		ids = ids[cancelBatch:]
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				_, err = store.Apply(ctx, tx, now, change)
			}
			return err
		})
	}
	return err
}
