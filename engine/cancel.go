package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// cancelBatch bounds the items that one transaction cancels.
const cancelBatch = 250

// cancelAhead cancels the items of a large task in batches, except the last keep items.
// The caller cancels those together with the task. One transaction for all items would
// block other writers for longer than their leases last. After an error, items that were
// cancelled stay cancelled. Under an idempotency key the batches run before the call's
// transaction, and each batch first checks that the key is still free. In a call that is
// part of a caller's transaction, cancelAhead does nothing: that transaction cancels all
// items.
func (e *Engine) cancelAhead(ctx context.Context, call *pawl.TaskCall, keep int) error {
	s, db := e.scope, e.db
	if s != nil {
		db = s.DB
	}
	if s != nil && (s.Begun || s.Free == nil) || call.ItemIDs != nil || len(call.TaskID) > pawl.MaxIDLen ||
		len(call.Reason) > pawl.MaxReasonLen {
		return nil
	}
	c := pawl.CallerOf(ctx)
	ids, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]string, error) {
		return store.ItemsToCancel(ctx, tx, ns, call.TaskID, keep)
	})
	for free := true; err == nil && free && len(ids) > keep; {
		batch := ids[:min(cancelBatch, len(ids)-keep)]
		ids = ids[len(batch):]
		err = db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if s != nil {
				if err := store.LockTaskRow(ctx, tx, c.Namespace, call.TaskID); err != nil {
					return err
				}
				var err error
				if free, err = s.Free(ctx, tx); err != nil || !free {
					return err
				}
			}
			now, err := tx.Now(ctx)
			if err == nil {
				_, err = store.Apply(ctx, tx, now, store.Change{Namespace: c.Namespace, TaskID: call.TaskID, Verb: "cancel", ItemIDs: batch,
					Actor: actor(c, pawl.ActorUser, ""), Reason: store.Text(call.Reason), Data: e.origin.Data()})
			}
			return err
		})
	}
	return err
}
