package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var updateSQL = Texts(sqlFiles, "update.sql")

// mobile are the states in which an item's row carries its priority on.
var mobile = append([]string{"submitted", "accepted", "failed", "dead_lettered"}, openStates...)

// Reprioritize gives the items of a task that have its priority, and have not
// ended, another one. What moves meanwhile from place to place is met in the
// next round: until an item's row is taken, its work_items row has the old one.
func Reprioritize(ctx context.Context, tx Tx, taskID string, from, to int) ([]DueItem, error) {
	var released []DueItem
	for {
		ids, err := Strings(ctx, tx, updateSQL["priorities to change"], taskID, from)
		if err != nil || len(ids) == 0 {
			return released, err
		}
		held, err := Take(ctx, tx, ids, mobile)
		if err != nil {
			return nil, err
		}
		moved := make([]string, len(held))
		for i := range held {
			h := &held[i]
			moved[i] = h.ItemID
			h.Rank, h.Priority = -2*to+h.Rank&1, to // not by the difference: it may have been moved since the ids were read
			if h.State == "queued" {
				released = append(released, DueItem{h.Namespace, h.ItemID, h.Type, h.Rank})
			}
		}
		if err := Put(ctx, tx, held); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, updateSQL["set priorities"], List(moved), to); err != nil {
			return nil, err
		}
	}
}

// LockTask holds a task against other changes of what UpdateTask writes, and
// reads it.
func LockTask(ctx context.Context, tx Tx, now int64, namespace, taskID string) (pawl.Task, error) {
	if err := TaskExists(ctx, tx, namespace, taskID); err != nil {
		return pawl.Task{}, err
	}
	if _, err := tx.Exec(ctx, updateSQL["lock task"], taskID, namespace, now); err != nil {
		return pawl.Task{}, err
	}
	return GetTask(ctx, tx, namespace, taskID)
}

// UpdateTask writes a locked task's title, priority and metadata, its next
// version and the event.
func UpdateTask(ctx context.Context, tx Tx, now int64, t pawl.Task, diff string, by Actor) error {
	if _, err := tx.Exec(ctx, updateSQL["update task"], t.ID, Text(t.Title), t.Priority, string(t.Metadata)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, updateSQL["new version"], t.ID, now); err != nil {
		return err
	}
	return Record(ctx, tx, now, []Event{{Namespace: t.Namespace, TaskID: t.ID, Event: "updated", Actor: by, Diff: Text(diff)}})
}
