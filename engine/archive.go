package engine

import (
	"context"

	"github.com/pawl-work/pawl"
)

// ListArchives lists the archived tasks of the caller's namespace, newest first.
func (e *Engine) ListArchives(ctx context.Context, p pawl.Page) (pawl.List[pawl.Archive], error) {
	if err := page(&p); err != nil {
		return pawl.List[pawl.Archive]{}, err
	}
	return e.sweeper.List(ctx, pawl.CallerOf(ctx).Namespace, p)
}

// RestoreArchive brings a task back from its archive; see sweep.Restore.
func (e *Engine) RestoreArchive(ctx context.Context, taskID string) (pawl.Task, error) {
	if err := e.sweeper.Restore(ctx, pawl.CallerOf(ctx).Namespace, taskID); err != nil {
		return pawl.Task{}, err
	}
	return e.GetTask(ctx, taskID)
}
