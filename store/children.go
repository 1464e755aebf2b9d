package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var childrenSQL = Texts(sqlFiles, "children.sql")

// Spawned says which item spawned a child, and under which key.
type Spawned struct {
	ItemID string
	Key    Text
}

// ShareParent locks a task that gets children, so that it is not cancelled before they are
// there. It refuses a task that has ended or failed.
func ShareParent(ctx context.Context, tx Tx, namespace, taskID string) error {
	if _, err := ShareTask(ctx, tx, namespace, taskID); err != nil {
		return err
	}
	state, err := TaskState(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	if s := pawl.TaskState(state); childOver(s) {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "create", State: state, Allowed: append([]string{}, s.Allowed()...),
			Message: "the parent " + taskID + " is " + state + ": it gets no children any more"}
	}
	return nil
}

// childOver says whether a child has ended for those that wait for it. What failed counts, even
// if it is retried later.
func childOver(s pawl.TaskState) bool {
	status := s.Status()
	return status == pawl.StatusCompleted || status == pawl.StatusFailed || status == pawl.StatusCancelled
}
