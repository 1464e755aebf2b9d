package store

import "context"

var deadlineSQL = Texts(sqlFiles, "deadline.sql")

// putMoved is Put for items that an operator or an approver moves. It removes the deadlines that have passed of those that
// are queued again: also one that no sweep has seen is not applied to them.
func putMoved(ctx context.Context, tx Tx, now int64, moved []StateRow) error {
	var ids []string
	for i := range moved {
		if moved[i].State == "queued" {
			ids = append(ids, moved[i].ItemID)
		}
	}
	if err := Put(ctx, tx, moved); err != nil || len(ids) == 0 {
		return err
	}
	_, err := tx.Exec(ctx, deadlineSQL["forget passed deadlines"], ItemList(ids), now)
	return err
}

// The errors of items that are given up by their times.
const ()

// LockIfThere locks the task of a change before any of its items. A task that was deleted
// is no error.
func LockIfThere(ctx context.Context, tx Tx, c Change) error {
	_, err := lockTask(ctx, tx, c)
	return err
}
