package sweep

import (
	"cmp"
	"context"

	"github.com/pawl-work/pawl/store"
)

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
