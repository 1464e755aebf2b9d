package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// setThread sets the thread that a task belongs to.
func setThread(ctx context.Context, tx store.Tx, taskID, thread string) error {
	_, err := tx.Exec(ctx, messageSQL["set thread"], store.TaskID(taskID), thread)
	return err
}
