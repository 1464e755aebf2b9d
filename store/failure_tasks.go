package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

// maxFailedTasks is how many of the newest failed tasks, and of the newest dead-lettered ones, are looked at for groups of
// failures.
const maxFailedTasks = 10_000

// failedTask is a task that failed without an item: a hook could not apply it.
type failedTask struct {
	id, typ, state string
	at             int64
	error          Text
}

func failedTasks(ctx context.Context, tx Tx, namespace string, types []string) ([]failedTask, error) {
	return All(ctx, tx, failureSQL["tasks"], []any{namespace, List(types), maxFailedTasks}, func(rows Rows, t *failedTask) error {
		return rows.Scan((*TaskID)(&t.id), &t.typ, &t.state, &t.at, &t.error)
	})
}

// group is the name of the task's group of failures. No item is in it.
func (t *failedTask) group() string {
	f := pawl.Failure{}
	if of := FailureOf(t.error); of != nil {
		f = *of
	}
	f.Code = "task\x00" + f.Code
	return pawl.FailureName(t.typ, f.Key())
}

// addFailedTasks adds the groups of failed tasks to those of items.
func addFailedTasks(ctx context.Context, tx Tx, namespace string, types, states []string, groups map[string]*pawl.FailureGroup) error {
	tasks, err := failedTasks(ctx, tx, namespace, types)
	for i := range tasks {
		t, at := &tasks[i], Stamp(tasks[i].at)
		if !slices.Contains(states, t.state) {
			continue
		}
		g := groups[t.group()]
		if g == nil {
			g = &pawl.FailureGroup{Failure: t.group(), Type: t.typ, FirstAt: at}
			groups[g.Failure] = g
		}
		if g.Count++; t.state == string(pawl.TaskFailed) {
			g.Failed++
		} else {
			g.DeadLettered++
		}
		if at.Before(g.FirstAt) {
			g.FirstAt = at
		}
		if !at.Before(g.LastAt) {
			g.LastAt, g.TaskID = at, t.id
			if f := FailureOf(t.error); f != nil {
				g.Code, g.Error, g.Message = f.Code, f.Normalized(), f.Message
			}
		}
	}
	return err
}

// tasksOfFailure returns the failed tasks of a group; none if it is one of items.
func tasksOfFailure(ctx context.Context, tx Tx, namespace, failure string) (ids []string, err error) {
	typ, _, _ := pawl.ParseFailureName(failure)
	tasks, err := failedTasks(ctx, tx, namespace, []string{typ})
	for i := range tasks {
		if tasks[i].group() == failure {
			ids = append(ids, tasks[i].id)
		}
	}
	return ids, err
}
