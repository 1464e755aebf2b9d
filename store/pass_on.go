package store

import "context"

// PassOn notes that the children of a task which have not ended are to be cancelled, or also
// deleted. It reports whether the task has children.
func PassOn(ctx context.Context, tx Tx, taskID string, deletes bool) (bool, error) {
	n, err := tx.Exec(ctx, childrenSQL["pass on"], TaskID(taskID), 1+Bit(deletes))
	return n > 0, err
}
