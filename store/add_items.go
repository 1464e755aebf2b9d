package store

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

var addItemsSQL = Texts(sqlFiles, "add_items.sql")

// NewPositions is what new items take from their task.
type NewPositions struct {
	Type        string
	TypeVersion int
	Priority    int
	Position    int // of the first new item

	Deadline, StartToClose, ScheduleToStart *int64
	ParentID                                TaskID
}

// columns are the columns of the task's row that are read.
func (r *NewPositions) columns(more any) []any {
	return []any{&r.Type, &r.TypeVersion, &r.Priority, &r.Deadline, &r.StartToClose, &r.ScheduleToStart, &r.ParentID, more}
}

// LockRoom locks an open task that items are to be added to. A task of one item becomes a
// task of many. A task that is not open is a conflict.
func LockRoom(ctx context.Context, tx Tx, now int64, namespace, taskID string) (NewPositions, error) {
	var r NewPositions
	var solo int
	found, err := Row(ctx, tx, r.columns(&solo), addItemsSQL["task to grow"], TaskID(taskID), namespace)
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
		open, err = Row(ctx, tx, []any{&solo}, addItemsSQL["takes more"], TaskID(taskID))
	}
	if err == nil && !open {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return r, err
}

// NextPositions reserves positions for n more items in a locked task that is still open,
// and returns the first one. It locks the task's counters, so items must be locked before
// it.
func NextPositions(ctx context.Context, tx Tx, namespace, taskID string, n int) (first int, err error) {
	open, err := Row(ctx, tx, []any{&first}, addItemsSQL["take positions"], TaskID(taskID), n)
	if err == nil && !open {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return first, err
}

// TakePositions reserves positions before the transaction that adds the items. Many calls
// can therefore add to one task at the same time. Positions that are not used stay gaps.
// ok is false when the task is not an open task of many items.
func TakePositions(ctx context.Context, tx Tx, namespace, taskID string, n int) (r NewPositions, ok bool, err error) {
	ok, err = Row(ctx, tx, r.columns(&r.Position), addItemsSQL["take positions of many"], TaskID(taskID), n,
		namespace)
	return r, ok, err
}

// Grow adds n to the number of items of a task that is still open. It returns how many
// items the task has and how many of them are open. It locks the task, so it must come
// last.
func Grow(ctx context.Context, tx Tx, now int64, namespace, taskID string, n int) (items, open int, err error) {
	grown, err := Row(ctx, tx, []any{&items, &open}, addItemsSQL["grow"], TaskID(taskID), n, now)
	if err == nil && !grown {
		err = takesNoMore(ctx, tx, namespace, taskID)
	}
	return items, open, err
}

func takesNoMore(ctx context.Context, tx Tx, namespace, taskID string) error {
	state, err := TaskState(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: "add_items", State: state, Allowed: pawl.TaskState(state).Allowed(),
		Message: "the task takes no more items: it is " + state}
}

// manyFromSolo gives a task of one item its counters. It returns false when the item has
// no work left.
func manyFromSolo(ctx context.Context, tx Tx, now int64, namespace, taskID string) (bool, error) {
	itemID := "itm_" + taskID[len("tsk_"):]
	zero := 0
	held, err := Amend(ctx, tx, []string{itemID}, OpenStates, Amendment{Solo: &zero})
	if err != nil || len(held) == 0 {
		return false, err
	}
	if _, err := tx.Exec(ctx, addItemsSQL["item from solo"], ItemID(itemID)); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, addItemsSQL["many from solo"], TaskID(taskID)); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, addItemsSQL["count solo"], TaskID(taskID), namespace, now)
	return true, err
}

// KeysOfTask maps the keys of a task's items to their ids.
func KeysOfTask(ctx context.Context, tx Tx, taskID string) (map[string]string, error) {
	rows, err := tx.Query(ctx, readSQL["keys of task"], TaskID(taskID))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var key, id string
		if err := rows.Scan(&key, (*ItemID)(&id)); err != nil {
			return nil, err
		}
		out[key] = id
	}
	return out, rows.Err()
}

// DependencyAdded marks the items that new items depend on, so that their end is noticed.
// The answer has the items that have not completed yet, and says which of them have
// failed.
func DependencyAdded(ctx context.Context, tx Tx, needs []string) (failed map[string]bool, err error) {
	one := 1
	held, err := Amend(ctx, tx, needs, aliveStates, Amendment{Feeds: &one})
	if err != nil {
		return nil, err
	}
	failed = make(map[string]bool, len(held))
	for i := range held {
		failed[held[i].ItemID] = pawl.ItemState(held[i].State).Status() == pawl.StatusFailed
	}
	for _, id := range needs {
		if _, alive := failed[id]; alive {
			continue
		}
		var state string
		if _, err := Row(ctx, tx, []any{(*StateCode)(&state)}, "SELECT state FROM pawl.finished_items WHERE item_id = $1",
			ItemID(id)); err != nil {
			return nil, err
		}
		if state != "completed" {
			return nil, &pawl.Error{Code: pawl.CodeConflict, Op: "add_items", State: state, Allowed: []string{},
				Message: fmt.Sprintf("the item %s that others are to wait for is %s", id, state)}
		}
	}
	return failed, nil
}

// DependencyBroken records for new items that a dependency has failed. The next follow-up
// gives these items up.
func DependencyBroken(ctx context.Context, tx Tx, itemIDs []string) error {
	if len(itemIDs) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, addItemsSQL["break"], ItemList(itemIDs))
	return err
}
