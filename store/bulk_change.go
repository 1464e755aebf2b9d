package store

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
)

// LockTasks locks the tasks of a namespace among taskIDs, in the order of their ids, as
// LockTaskRow does, and returns their ids.
func LockTasks(ctx context.Context, tx Tx, namespace string, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, bulkSQL["lock tasks"], TaskList(taskIDs), namespace)
}

// PlainApplied is the outcome of ApplyToPlain.
type PlainApplied struct {
	Tasks    map[string]bool // the plain tasks, and whether the item of each was moved
	Released []DueItem
	Children []string // tasks that are children, and have no work left
}

// ApplyToPlain carries out a Change, of retry, bury or cancel and without items, on each of some
// locked tasks, as Apply does, with the same statements for all. It leaves alone the tasks that
// are not plain: for these the verb does more than to move their only item. An item of a plain
// task that was not moved is in a state that does not allow the verb.
func ApplyToPlain(ctx context.Context, tx Tx, now int64, c Change, taskIDs []string) (out PlainApplied, err error) {
	ch, frees := changes[c.Verb], 0
	if c.Verb != "retry" {
		frees = 1
	}
	ids, err := TaskIDs(ctx, tx, bulkSQL["plain tasks"], TaskList(taskIDs), frees)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = itemPrefix + strings.TrimPrefix(id, taskPrefix)
	}
	held, err := Take(ctx, tx, items, ch.from)
	if err != nil {
		return out, err
	}
	// Until the items were locked, their holders could spawn children and begin messages.
	if ids, err = TaskIDs(ctx, tx, bulkSQL["plain tasks"], TaskList(ids), frees); err != nil {
		return out, err
	}
	out.Tasks = make(map[string]bool, len(ids))
	for _, id := range ids {
		out.Tasks[id] = false
	}
	var m moved
	var other []StateRow
	var free []string
	for _, h := range held {
		if _, ok := out.Tasks[h.TaskID]; !ok {
			other = append(other, h)
			continue
		}
		var one Applied
		m.move(now, &movedTask{solo: true, state: "open"}, ch, &c, &h, &one)
		m.held, out.Tasks[h.TaskID], out.Released = append(m.held, h), true, append(out.Released, one.Released...)
		if one.Child {
			out.Children = append(out.Children, h.TaskID)
		}
		if FreesInput(SoloState(h.State)) {
			free = append(free, h.TaskID)
		}
	}
	if err = Put(ctx, tx, other); err == nil {
		err = m.write(ctx, tx, now)
	}
	if err == nil && len(free) > 0 {
		_, err = tx.Exec(ctx, bulkSQL["let go of input hashes"], TaskList(free))
	}
	return out, err
}

// LockToUpdate locks the rows of tasks' counters, as LockTask does, and reads what an update
// may change.
func LockToUpdate(ctx context.Context, tx Tx, now int64, namespace string, taskIDs []string) ([]pawl.Task, error) {
	if err := lockCounters(ctx, tx, now, namespace, taskIDs); err != nil {
		return nil, err
	}
	return TasksToUpdate(ctx, tx, taskIDs)
}

// TasksToUpdate reads what an update may change of tasks, their states, versions and numbers of
// items.
func TasksToUpdate(ctx context.Context, tx Tx, taskIDs []string) (out []pawl.Task, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var t pawl.Task
		var metadata string
		err := rows.Scan((*TaskID)(&t.ID), &t.Namespace, &t.State, (*Text)(&t.Title), &t.Priority, &metadata, &t.Version, &t.Items)
		t.Metadata = json.RawMessage(metadata)
		out = append(out, t)
		return err
	}, bulkSQL["to update"], TaskList(taskIDs))
	return out, err
}
