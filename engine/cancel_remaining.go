package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// cancelRemaining cancels the items that can still run, in tasks that have a failed item
// and whose type has on_item_failure: cancel. It runs when a worker reports a failure. It
// also runs in each pass, for expired items and after crashes. only names one task; "" =
// all.
func (e *Engine) cancelRemaining(ctx context.Context, only string) error {
	if _, err := e.newestTypes(ctx); err != nil || !e.types.used() { // of types that are removed, too
		return err
	}
	for after := ""; ; {
		var page []failingTask
		err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			page, err = failingTasks(ctx, tx, after, only, 100)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			after = t.ID
			r, err := e.rulesAt(ctx, t.Namespace, t.Type, t.TypeVersion)
			if err == nil && r.OnItemFailure == pawl.FailureCancel {
				err = e.cancelItemsOf(ctx, t)
			}
			if err != nil {
				e.logError(ctx, "the remaining items of a task with a failed item could not be cancelled; retrying", err)
			}
		}
	}
}

func (e *Engine) cancelItemsOf(ctx context.Context, t failingTask) error {
	for {
		var ids []string
		err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			ids, err = stillToRun(ctx, tx, t.ID, 1000)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		as := pawl.As(ctx, pawl.Caller{Namespace: t.Namespace, ActorType: pawl.ActorSystem})
		rs, err := e.CancelTasks(as, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: ids, Reason: "another item of the task has failed"}})
		if err == nil {
			err = rs[0].Err
		}
		if pawl.CodeOf(err) == pawl.CodeConflict {
			return nil // it has ended meanwhile
		}
		if err != nil {
			return err
		}
	}
}
