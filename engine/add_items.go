package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// newPositions is what new items take from their task.
type newPositions struct {
	Type        string
	TypeVersion int
	Priority    int
	Position    int // of the first new item

	Deadline, StartToClose, ScheduleToStart *int64
	ParentID                                store.TaskID
}

// columns are the columns of the task's row that are read.
func (r *newPositions) columns(more any) []any {
	return []any{&r.Type, &r.TypeVersion, &r.Priority, &r.Deadline, &r.StartToClose, &r.ScheduleToStart, &r.ParentID, more}
}

// lockPositions locks an open task that items are to be added to. A task of one item becomes a
// task of many. A task that is not open is a conflict.
func lockPositions(ctx context.Context, tx store.Tx, now int64, namespace, taskID string) (newPositions, error) {
	var r newPositions
	var solo int
	found, err := store.Row(ctx, tx, r.columns(&solo), addItemsSQL["task to grow"], store.TaskID(taskID), namespace)
	if err != nil {
		return r, err
	}
	if !found {
		return r, pawl.NotFound("task", taskID)
	}
	var open bool
	if solo == 1 {
		open, err = manyFromSolo(ctx, tx, now, namespace, taskID)
	} else {
		open, err = store.Row(ctx, tx, []any{&solo}, addItemsSQL["takes more"], store.TaskID(taskID))
	}
	if err == nil && !open {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return r, err
}

// nextPositions reserves positions for n more items in a locked task that is still open,
// and returns the first one. It locks the task's counters, so items must be locked before
// it.
func nextPositions(ctx context.Context, tx store.Tx, namespace, taskID string, n int) (first int, err error) {
	open, err := store.Row(ctx, tx, []any{&first}, addItemsSQL["take positions"], store.TaskID(taskID), n)
	if err == nil && !open {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return first, err
}

// takePositions reserves positions before the transaction that adds the items. Many calls
// can therefore add to one task at the same time. Positions that are not used stay gaps.
// ok is false when the task is not an open task of many items.
func takePositions(ctx context.Context, tx store.Tx, namespace, taskID string, n int) (r newPositions, ok bool, err error) {
	ok, err = store.Row(ctx, tx, r.columns(&r.Position), addItemsSQL["take positions of many"], store.TaskID(taskID), n,
		namespace)
	return r, ok, err
}

// grow adds n to the number of items of a task that is still open. It returns how many
// items the task has and how many of them are open. It locks the task, so it must come
// last.
func grow(ctx context.Context, tx store.Tx, now int64, namespace, taskID string, n int) (items, open int, err error) {
	grown, err := store.Row(ctx, tx, []any{&items, &open}, addItemsSQL["grow"], store.TaskID(taskID), n, now)
	if err == nil && !grown {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return items, open, err
}

func takesNoMore(ctx context.Context, tx store.Tx, namespace, taskID string) error {
	state, err := store.TaskState(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: "add_items", State: state, Allowed: pawl.TaskState(state).Allowed(),
		Message: "the task takes no more items: it is " + state}
}

// manyFromSolo gives a task of one item its counters. It returns false when the item has
// no work left.
func manyFromSolo(ctx context.Context, tx store.Tx, now int64, namespace, taskID string) (bool, error) {
	itemID := "itm_" + taskID[len("tsk_"):]
	zero := 0
	held, err := store.Amend(ctx, tx, []string{itemID}, store.OpenStates, store.Amendment{Solo: &zero})
	if err != nil || len(held) == 0 {
		return false, err
	}
	if _, err := tx.Exec(ctx, addItemsSQL["item from solo"], store.ItemID(itemID)); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, addItemsSQL["many from solo"], store.TaskID(taskID)); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, addItemsSQL["count solo"], store.TaskID(taskID), namespace, now)
	return true, err
}

// keysOfTask maps the keys of a task's items to their ids.
func keysOfTask(ctx context.Context, tx store.Tx, taskID string) (map[string]string, error) {
	out := map[string]string{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var key, id string
		if err := rows.Scan(&key, (*store.ItemID)(&id)); err != nil {
			return err
		}
		out[key] = id
		return nil
	}, readSQL["keys of task"], store.TaskID(taskID))
	return out, err
}

// dependencyBroken records for new items that a dependency has failed. The next follow-up
// gives these items up.
func dependencyBroken(ctx context.Context, tx store.Tx, itemIDs []string) error {
	if len(itemIDs) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, addItemsSQL["break"], store.ItemList(itemIDs))
	return err
}
