package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var updateSQL = Texts(sqlFiles, "update.sql")

// Reprioritize gives a new priority to the items of tasks that have their task's old priority
// and have not ended. The tasks are locked. An item that moves to another table in the meantime
// is found in the next round: until its row is changed, the item has the old priority.
func Reprioritize(ctx context.Context, tx Tx, taskIDs []string, to int) ([]DueItem, error) {
	var released []DueItem
	for {
		ids, err := ItemIDs(ctx, tx, updateSQL["priorities to change"], TaskList(taskIDs), to)
		if err != nil || len(ids) == 0 {
			return released, err
		}
		held, err := Amend(ctx, tx, ids, aliveStates, Amendment{Priority: &to})
		if err != nil {
			return nil, err
		}
		moved := make([]string, len(held))
		for i := range held {
			h := &held[i]
			moved[i] = h.ItemID
			if h.State == "queued" {
				released = append(released, DueItem{h.Namespace, h.ItemID, h.Type, h.Rank})
			}
		}
		if err := setOfItems(ctx, tx, updateSQL, "set priorities", moved, to); err != nil {
			return nil, err
		}
	}
}

// setOfItems sets a column of items, which is in their rows in items, or in those of tasks
// of one. There is a statement for each.
func setOfItems(ctx context.Context, tx Tx, texts map[string]string, name string, ids []string, value any) error {
	for _, query := range []string{name, name + " of tasks of one"} {
		if _, err := tx.Exec(ctx, texts[query], ItemList(ids), value); err != nil {
			return err
		}
	}
	return nil
}

// LockTaskRow locks a task. Until the transaction ends, no other transaction moves its
// items through the task, adds items, or changes what UpdateTask writes.
func LockTaskRow(ctx context.Context, tx Tx, namespace, taskID string) error {
	var solo int
	found, err := Row(ctx, tx, []any{&solo}, moveSQL["lock task"], TaskID(taskID), namespace)
	if err == nil && !found {
		err = pawl.NotFound("task", taskID)
	}
	return err
}

// ShareTask keeps other transactions from moving the items of a task through the task
// until this transaction ends. They may still add items. It returns the task's priority.
func ShareTask(ctx context.Context, tx Tx, namespace, taskID string) (priority int, err error) {
	found, err := Row(ctx, tx, []any{&priority}, moveSQL["share task"], TaskID(taskID), namespace)
	if err == nil && !found {
		err = pawl.NotFound("task", taskID)
	}
	return priority, err
}

// LockTask locks the row of a task's counters, which has its version, and reads the task.
func LockTask(ctx context.Context, tx Tx, now int64, namespace, taskID string) (pawl.Task, error) {
	if err := TaskExists(ctx, tx, namespace, taskID); err != nil {
		return pawl.Task{}, err
	}
	if err := lockCounters(ctx, tx, now, namespace, []string{taskID}); err != nil {
		return pawl.Task{}, err
	}
	return GetTask(ctx, tx, namespace, taskID)
}

func lockCounters(ctx context.Context, tx Tx, now int64, namespace string, taskIDs []string) error {
	rows := make([][]any, len(taskIDs))
	for i, id := range taskIDs {
		rows[i] = []any{TaskID(id)}
	}
	_, err := tx.Exec(ctx, updateSQL["lock task"], Table(rows), namespace, now)
	return err
}

// UpdatedTask is a task with its new values, and what has changed, as JSON.
type UpdatedTask struct {
	pawl.Task
	Diff string
}

// UpdateTasks writes the titles, priorities and metadata of locked tasks, their next versions
// and the events with their data.
func UpdateTasks(ctx context.Context, tx Tx, now int64, tasks []UpdatedTask, data Text, by Actor) error {
	var values [][]any
	var ids []string
	var events []Event
	for i := range tasks {
		t := &tasks[i]
		values = append(values, []any{TaskID(t.ID), Text(t.Title), t.Priority, string(t.Metadata)})
		ids = append(ids, t.ID)
		events = append(events, Event{Namespace: t.Namespace, TaskID: t.ID, Event: "updated", Actor: by, Data: data, Diff: Text(t.Diff)})
	}
	if _, err := tx.Exec(ctx, updateSQL["update task"], Table(values)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, updateSQL["new version"], TaskList(ids), now); err != nil {
		return err
	}
	return Record(ctx, tx, now, events)
}
