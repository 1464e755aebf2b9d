package store

import (
	"context"
)

var unfinishedSQL = Texts(sqlFiles, "unfinished.sql")

// Unfinished returns those of the tasks that have consequences which are still to come, such as a
// cancel that not all children have got. Retention leaves them until these are done.
func Unfinished(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, unfinishedSQL["unfinished"], TaskList(taskIDs), List(endedTasks))
}

// Extent is what a task has, as numbers that change with everything that is written to it.
type Extent struct{ event, checkpoints, pruned, chunks int64 }

// Extents returns the extents of those of the tasks that exist.
func Extents(ctx context.Context, tx Tx, taskIDs []string) (map[string]Extent, error) {
	out := make(map[string]Extent, len(taskIDs))
	return out, eachRow(ctx, tx, unfinishedSQL["extents"], []any{TaskList(taskIDs)}, func(rows Rows) error {
		var task string
		var x Extent
		err := rows.Scan((*TaskID)(&task), &x.event, &x.checkpoints, &x.pruned, &x.chunks)
		out[task] = x
		return err
	})
}

// RestingSince returns those of the given tasks that are in the state and have not changed after the
// given time. changed are those that have no event after it, but a checkpoint or chunks: no later event
// leads to them.
func RestingSince(ctx context.Context, tx Tx, taskIDs []string, state string, by int64) (resting, changed []string, err error) {
	err = eachRow(ctx, tx, unfinishedSQL["resting since"], []any{TaskList(taskIDs), state, by}, func(rows Rows) error {
		var task string
		var rests int
		err := rows.Scan((*TaskID)(&task), &rests)
		if rests == 1 {
			resting = append(resting, task)
		} else {
			changed = append(changed, task)
		}
		return err
	})
	return resting, changed, err
}
