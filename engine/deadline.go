package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// checkTime returns the time by which a call is checked. It is this process's estimate of
// the database's time, unless an item has a deadline: then it is read.
func (e *Engine) checkTime(ctx context.Context, deadline *time.Time, items []pawl.NewItem) (time.Time, error) {
	if deadline == nil && !slices.ContainsFunc(items, func(it pawl.NewItem) bool { return it.Deadline != nil }) {
		return e.k.IDs.Now(), nil
	}
	now, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (int64, error) { return tx.Now(ctx) })
	return stamp(now), err
}

// checkTask checks a task, except for the rules of its type, and returns the time by which
// it did.
func (e *Engine) checkTask(ctx context.Context, t *pawl.NewTask, shared *drafting) (now time.Time, err error) {
	if now = shared.now; now.IsZero() {
		if now, err = e.checkTime(ctx, t.Deadline, t.Items); err != nil {
			return now, err
		}
		if t.Deadline != nil { // most likely those of the other tasks of the call are read too
			shared.now = now
		}
	}
	if err := checkTask(t, now); err != nil || shared.reserved {
		return now, err
	}
	if !shared.stored {
		if err := checkRequester("create", t.RequestedBy); err != nil {
			return now, err
		}
	}
	return now, checkReserved("create", t.Type)
}

// ahead returns a task's deadline for new items. One that has passed counts no more.
func ahead(deadline *int64, now int64) *int64 {
	if deadline != nil && *deadline <= now {
		return nil
	}
	return deadline
}

// putDeadlines stores the deadlines of new items. It runs no statement if none has one.
func putDeadlines(ctx context.Context, tx store.Tx, items []store.NewItem) error {
	var rows [][]any
	for i := range items {
		if it := &items[i]; it.Deadline != nil {
			rows = append(rows, []any{store.ItemID(it.ID), it.Namespace, store.TaskID(it.TaskID), *it.Deadline})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.ExecEach(ctx, deadlineSQL["put deadline"], rows)
}
