package store

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/shellwords"
)

var unfinishedSQL = Texts(sqlFiles, "unfinished.sql")

// Unfinished returns those of the tasks that have consequences which are still to come, such as a
// cancel that not all children have got. Retention leaves them until these are done.
func Unfinished(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	others, err := NotPlain(ctx, tx, taskIDs) // plain tasks have none
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return TaskIDs(ctx, tx, unfinishedSQL["unfinished"], TaskList(others), List(endedTasks))
}

// Extent is what a task has, as numbers that change with everything that is written to it.
type Extent struct {
	Namespace                          string
	event, checkpoints, pruned, chunks int64
}

// Extents returns the extents of those of the tasks that exist.
func Extents(ctx context.Context, tx Tx, taskIDs []string) (map[string]Extent, error) {
	out := make(map[string]Extent, len(taskIDs))
	return out, EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var x Extent
		err := rows.Scan((*TaskID)(&task), &x.Namespace, &x.event, &x.checkpoints, &x.pruned, &x.chunks)
		out[task] = x
		return err
	}, unfinishedSQL["extents"], TaskList(taskIDs))
}

// RestingSince returns those of the given tasks that are in the state and have not changed after the
// given time. changed are those that have no event after it, but a checkpoint or chunks, or whose newest event
// is after it, although its number is at most passed: no later event leads to them.
func RestingSince(ctx context.Context, tx Tx, taskIDs []string, state string, by, passed int64) (resting, changed []string, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var rests int
		err := rows.Scan((*TaskID)(&task), &rests)
		if rests == 1 {
			resting = append(resting, task)
		} else {
			changed = append(changed, task)
		}
		return err
	}, unfinishedSQL["resting since"], TaskList(taskIDs), state, by, passed)
	return resting, changed, err
}

// AtRest is a task that has ended or failed, and its newest event.
type AtRest struct {
	TaskID string
	Type   TypeVersion
	State  string
	Last   int64
}

// AtRestBefore lists the tasks that have ended or failed, have no event after a number and were not
// restored, out of up to limit tasks behind an id. end is the last of these; LastTask = there are no more.
func AtRestBefore(ctx context.Context, tx Tx, after string, event int64, states []string, limit int) (out []AtRest, end string, err error) {
	end = LastTask
	from := TaskID(cmp.Or(after, FirstTask))
	if _, err := Row(ctx, tx, []any{(*TaskID)(&end)}, unfinishedSQL["end of page"], from, limit-1, TaskID(LastTask)); err != nil {
		return nil, "", err
	}
	err = EachRow(ctx, tx, func(rows Rows) error {
		var a AtRest
		err := rows.Scan((*TaskID)(&a.TaskID), &a.Type.Namespace, &a.Type.Name, &a.Type.Version, &a.State, &a.Last)
		out = append(out, a)
		return err
	}, unfinishedSQL["at rest before"], from, limit, event, List(states))
	return out, end, err
}

// ArchivesToCheck lists the newest archives of tasks that are not there: their tasks and namespaces.
func ArchivesToCheck(ctx context.Context, tx Tx, limit int) (out []TaskRef, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var t TaskRef
		err := rows.Scan((*TaskID)(&t.ID), &t.Namespace)
		out = append(out, t)
		return err
	}, unfinishedSQL["archives to check"], limit)
	return out, err
}

// pendingLate is how long a consequence may be still to come before a warning.
const pendingLate = time.Hour

// pendingConsequences warns of what is still to come and has been for long.
func pendingConsequences(ctx context.Context, tx Tx, now int64) (out []Warning, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var namespace, task, what string
		err := rows.Scan(&namespace, (*TaskID)(&task), &what)
		out = append(out, warning("consequence_pending", "task "+task+" of namespace "+namespace+": "+what+
			", for more than an hour; run a server, or read in its log why it fails", shellwords.Line(namespace, "task get", task)))
		return err
	}, unfinishedSQL["pending for long"], now-pendingLate.Microseconds(), WarnedTypes)
	return out, err
}
