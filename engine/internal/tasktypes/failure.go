package tasktypes

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Backoffs returns the back-off, without jitter, of each failing item whose type sets its
// own. If no type was ever registered, it reads nothing more: a task keeps the version of a type that was removed.
func (r *Registry) Backoffs(ctx context.Context, calls []pawl.FailCall) (map[string]time.Duration, error) {
	all, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range calls {
		if calls[i].RetryAfterMS == nil {
			ids = append(ids, calls[i].ItemID)
		}
	}
	if len(all.live) == 0 && !r.used() || len(ids) == 0 || len(ids) > pawl.MaxItemsPerCall {
		return nil, nil
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (map[string]time.Duration, error) {
		failing, err := aboutToFail(ctx, tx, ns, ids)
		if err != nil {
			return nil, err
		}
		out := map[string]time.Duration{}
		for _, f := range failing {
			of, err := r.In(ctx, tx, ns, f.Type, f.TypeVersion)
			if err != nil {
				return nil, err
			}
			if of.Backoff != (pawl.Backoff{}) {
				out[f.ItemID] = of.Backoff.After(f.Failures + 1)
			}
		}
		return out, nil
	})
}

// failing is a leased item of a registered type, before its attempt fails.
type failing struct {
	ItemID, Type          string
	Failures, TypeVersion int
}

// aboutToFail reads those of the items that are leased and of registered types.
func aboutToFail(ctx context.Context, tx store.Tx, namespace string, itemIDs []string) ([]failing, error) {
	return store.All(ctx, tx, texts["about to fail"], []any{store.ItemList(itemIDs), namespace}, func(rows store.Rows, f *failing) error {
		return rows.Scan((*store.ItemID)(&f.ItemID), &f.Failures, &f.Type, &f.TypeVersion)
	})
}

// CancelRemaining cancels the items that can still run, in tasks that have a failed item
// and whose type has on_item_failure: cancel. It runs when a worker reports a failure. It
// also runs in each pass, for expired items and after crashes. only names one task; "" =
// all.
func (r *Registry) CancelRemaining(ctx context.Context, by kernel.Origin, only string) error {
	if _, err := r.names(ctx); err != nil || !r.used() { // of types that are removed, too
		return err
	}
	for after := ""; ; {
		var page []failingTask
		err := r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			page, err = failingTasks(ctx, tx, after, only, 100)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			after = t.ID
			of, err := r.At(ctx, t.Namespace, t.Type, t.TypeVersion)
			if err == nil && of.OnItemFailure == pawl.FailureCancel {
				err = r.cancelItems(ctx, by, t)
			}
			if err != nil {
				r.k.LogError(ctx, "the remaining items of a task with a failed item could not be cancelled; retrying", err)
			}
		}
	}
}

func (r *Registry) cancelItems(ctx context.Context, by kernel.Origin, t failingTask) error {
	for {
		var ids []string
		err := r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			ids, err = stillToRun(ctx, tx, t.ID, 1000)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		as := pawl.As(ctx, pawl.Caller{Namespace: t.Namespace, ActorType: pawl.ActorSystem})
		rs, err := r.k.Tasks(by).CancelTasks(as, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: ids, Reason: "another item of the task has failed"}})
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

// failingTask is an open task of a registered type with an item in state failed.
type failingTask struct {
	ID, Namespace, Type string
	TypeVersion         int
}

// failingTasks lists up to limit such tasks by id, with ids above after. only is the id of
// one task; "" = any.
func failingTasks(ctx context.Context, tx store.Tx, after, only string, limit int) ([]failingTask, error) {
	return store.All(ctx, tx, texts["failing tasks"], []any{store.FromTask(after), only == "", store.TaskID(only), limit},
		func(rows store.Rows, t *failingTask) error {
			return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace, &t.Type, &t.TypeVersion)
		})
}

// stillToRun returns up to limit items of a task that have work left, if an item has failed since a caller's last retry
// of one: nil if none has.
func stillToRun(ctx context.Context, tx store.Tx, taskID string, limit int) ([]string, error) {
	var since int
	if _, err := store.Row(ctx, tx, []any{&since}, texts["failed since retry"], store.TaskID(taskID)); err != nil || since == 0 {
		return nil, err
	}
	return store.ItemIDs(ctx, tx, texts["still to run"], store.TaskID(taskID), store.List(store.OpenStates), limit)
}
