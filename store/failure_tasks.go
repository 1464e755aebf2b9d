package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

const (
	// maxFailedTasks is how many of the newest failed tasks of a namespace, and of the newest dead-lettered ones, a list of
	// groups of failures counts.
	maxFailedTasks = 10_000
	// maxFailedTasksRead is how many of the newest failed tasks of all namespaces, and of the dead-lettered ones, it reads for them.
	maxFailedTasksRead = 100_000
)

// failedTask is a task that failed without an item: a hook could not apply it.
type failedTask struct {
	id, typ, state string
	at             int64
	failure        pawl.Failure
}

// eachFailedTask calls fn for each failed task that a statement reads. Their errors are long: none is kept.
func eachFailedTask(ctx context.Context, tx Tx, fn func(t *failedTask), query string, args ...any) error {
	return EachRow(ctx, tx, func(rows Rows) error {
		var t failedTask
		var failure Text
		err := rows.Scan((*TaskID)(&t.id), &t.typ, &t.state, &t.at, &failure)
		if f := FailureOf(failure); f != nil {
			t.failure = *f
		}
		if err == nil {
			fn(&t)
		}
		return err
	}, failureSQL[query], args...)
}

// group is the name of the task's group of failures. No item is in it.
func (t *failedTask) group() string {
	return pawl.FailureName(t.typ, pawl.Failure{Code: "task\x00" + t.failure.Code, Message: t.failure.Message}.Key())
}

// addFailedTasks adds the groups of failed tasks to those of items.
func addFailedTasks(ctx context.Context, tx Tx, namespace string, types, states []string, groups map[string]*pawl.FailureGroup) error {
	return eachFailedTask(ctx, tx, func(t *failedTask) {
		if !slices.Contains(states, t.state) {
			return
		}
		name, at := t.group(), Stamp(t.at)
		g := groups[name]
		if g == nil {
			g = &pawl.FailureGroup{Failure: name, Type: t.typ, FirstAt: at}
			groups[name] = g
		}
		if g.Count++; t.state == string(pawl.TaskFailed) {
			g.Failed++
		} else {
			g.DeadLettered++
		}
		if at.Before(g.FirstAt) {
			g.FirstAt = at
		}
		if after := at.Compare(g.LastAt); after > 0 || after == 0 && t.id > g.TaskID {
			g.LastAt, g.TaskID = at, t.id
		}
	}, "tasks", namespace, List(types), maxFailedTasks, maxFailedTasksRead)
}

// isOfItems reports whether an item belongs to a group of failures. No task is in such a group without an item.
func isOfItems(ctx context.Context, tx Tx, namespace, failure string) (bool, error) {
	typ, key, _ := pawl.ParseFailureName(failure)
	var one int64
	return Row(ctx, tx, []any{&one}, failureSQL["an item"], key, namespace, typ)
}

// tasksOfFailure returns those of some tasks that belong to a group of failures without an item.
func tasksOfFailure(ctx context.Context, tx Tx, namespace, failure string, among []string) (ids []string, err error) {
	typ, _, _ := pawl.ParseFailureName(failure)
	err = eachFailedTask(ctx, tx, func(t *failedTask) {
		if t.group() == failure {
			ids = append(ids, t.id)
		}
	}, "these tasks", namespace, List([]string{typ}), TaskList(among))
	return ids, err
}
