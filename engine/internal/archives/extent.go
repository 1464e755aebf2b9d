package archives

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// extent is what a task has, as numbers that change with everything that is written to it.
type extent struct {
	Namespace                          string
	event, checkpoints, pruned, chunks int64
}

// extents returns the extents of those of the tasks that exist.
func extents(ctx context.Context, tx store.Tx, taskIDs []string) (map[string]extent, error) {
	out := make(map[string]extent, len(taskIDs))
	return out, store.EachRow(ctx, tx, func(rows store.Rows) error {
		var task string
		var x extent
		err := rows.Scan((*store.TaskID)(&task), &x.Namespace, &x.event, &x.checkpoints, &x.pruned, &x.chunks)
		out[task] = x
		return err
	}, texts["extents"], store.TaskList(taskIDs))
}
