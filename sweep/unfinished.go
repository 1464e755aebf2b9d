package sweep

import (
	"cmp"
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var endedTasks = store.TaskStates(func(s pawl.StateInfo) bool { return s.Terminal })

// stillPending returns those of the tasks that have consequences which are still to come, such as a
// cancel that not all children have got. Retention leaves them until these are done.
func stillPending(ctx context.Context, tx store.Tx, taskIDs []string) ([]string, error) {
	others, err := store.NotPlain(ctx, tx, taskIDs) // plain tasks have none
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return store.TaskIDs(ctx, tx, unfinishedSQL["unfinished"], store.TaskList(others), store.List(endedTasks))
}

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
	}, unfinishedSQL["extents"], store.TaskList(taskIDs))
}

// restingSince returns those of the given tasks that are in the state and have not changed after the
// given time. changed are those that have no event after it, but a checkpoint or chunks, or whose newest event
// is after it, although its number is at most passed: no later event leads to them.
func restingSince(ctx context.Context, tx store.Tx, taskIDs []string, state string, by, passed int64) (
	resting, changed []string, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var task string
		var rests int
		err := rows.Scan((*store.TaskID)(&task), &rests)
		if rests == 1 {
			resting = append(resting, task)
		} else {
			changed = append(changed, task)
		}
		return err
	}, unfinishedSQL["resting since"], store.TaskList(taskIDs), state, by, passed)
	return resting, changed, err
}

// atRest is a task that has ended or failed, and its newest event.
type atRest struct {
	TaskID string
	Type   store.TypeVersion
	State  string
	Last   int64
}

// atRestBefore lists the tasks that have ended or failed, have no event after a number and were not
// restored, out of up to limit tasks behind an id. end is the last of these; LastTask = there are no more.
func atRestBefore(ctx context.Context, tx store.Tx, after string, event int64, states []string, limit int) (
	out []atRest, end string, err error) {
	end = store.LastTask
	from := store.TaskID(cmp.Or(after, store.FirstTask))
	_, err = store.Row(ctx, tx, []any{(*store.TaskID)(&end)}, unfinishedSQL["end of page"], from, limit-1, store.TaskID(store.LastTask))
	if err != nil {
		return nil, "", err
	}
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var a atRest
		err := rows.Scan((*store.TaskID)(&a.TaskID), &a.Type.Namespace, &a.Type.Name, &a.Type.Version, &a.State, &a.Last)
		out = append(out, a)
		return err
	}, unfinishedSQL["at rest before"], from, limit, event, store.List(states))
	return out, end, err
}

// archivesToCheck lists the newest archives of tasks that are not there: their tasks and namespaces.
func archivesToCheck(ctx context.Context, tx store.Tx, limit int) (out []store.TaskRef, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var t store.TaskRef
		err := rows.Scan((*store.TaskID)(&t.ID), &t.Namespace)
		out = append(out, t)
		return err
	}, unfinishedSQL["archives to check"], limit)
	return out, err
}
