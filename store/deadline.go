package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var deadlineSQL = Texts(sqlFiles, "deadline.sql")

// putMoved is Put for items that an operator or an approver moves. It removes the deadlines that have passed of those that
// are queued again: also one that no sweep has seen is not applied to them.
func putMoved(ctx context.Context, tx Tx, now int64, moved []StateRow) error {
	var ids []string
	for i := range moved {
		if moved[i].State == "queued" {
			ids = append(ids, moved[i].ItemID)
		}
	}
	if err := Put(ctx, tx, moved); err != nil || len(ids) == 0 {
		return err
	}
	_, err := tx.Exec(ctx, deadlineSQL["forget passed deadlines"], ItemList(ids), now)
	return err
}

// Late is an item that must be given up at a time: its deadline, or when it has been queued
// for too long.
type Late struct {
	ItemID, Namespace, TaskID string
	At                        int64
	Solo                      bool // its task has no other items, and no counters
}

// DeadlinesBefore lists up to limit deadlines that have passed, oldest first, after the
// given one.
func DeadlinesBefore(ctx context.Context, tx Tx, now int64, after Late, limit int) ([]Late, error) {
	return lateItems(ctx, tx, "deadlines before", now, after.At, FromItem(after.ItemID), limit)
}

// QueuedTooLong lists up to limit items that no worker claimed in time, oldest first, after
// the given one.
func QueuedTooLong(ctx context.Context, tx Tx, now int64, after Late, limit int) ([]Late, error) {
	return lateItems(ctx, tx, "queued too long", now, after.At, FromItem(after.ItemID), limit)
}

func lateItems(ctx context.Context, tx Tx, query string, args ...any) ([]Late, error) {
	rows, err := tx.Query(ctx, deadlineSQL[query], args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Late
	for rows.Next() {
		var l Late
		var solo int
		if err := rows.Scan((*ItemID)(&l.ItemID), &l.Namespace, (*TaskID)(&l.TaskID), &l.At, &solo); err != nil {
			return nil, err
		}
		l.Solo = solo == 1
		out = append(out, l)
	}
	return out, rows.Err()
}

// The errors of items that are given up by their times.
const (
	deadlineError = `{"code":"` + pawl.FailedByDeadline + `","message":"Its deadline passed"}`
	lateError     = `{"code":"` + pawl.FailedByScheduleToStart + `","message":"No worker claimed it within schedule_to_start_seconds"}`
)

// PassDeadlines ends the items of a task whose deadlines have passed, and removes these
// deadlines: each is handled once. Items that have no work left stay as they are.
func PassDeadlines(ctx context.Context, tx Tx, now int64, c Change) (out Applied, err error) {
	if err := lockIfThere(ctx, tx, c); err != nil {
		return out, err
	}
	if c.ItemIDs, err = ItemIDs(ctx, tx, deadlineSQL["take deadlines"], ItemList(c.ItemIDs)); err != nil || len(c.ItemIDs) == 0 {
		return out, err
	}
	c.Verb, c.To, c.Error, c.LeftBy = "give_up", "failed", deadlineError, pawl.FailedByDeadline
	return Apply(ctx, tx, now, c)
}

// GiveUpQueued ends the items of a task that no worker claimed in time. An item that was
// claimed meanwhile, and is queued again, stays.
func GiveUpQueued(ctx context.Context, tx Tx, now int64, c Change) (out Applied, err error) {
	if err := lockIfThere(ctx, tx, c); err != nil {
		return out, err
	}
	if c.ItemIDs, err = ItemIDs(ctx, tx, deadlineSQL["still queued too long"], ItemList(c.ItemIDs), now); err != nil || len(c.ItemIDs) == 0 {
		return out, err
	}
	c.Verb, c.To, c.Error, c.LeftBy = "give_up", "failed", lateError, pawl.FailedByScheduleToStart
	return Apply(ctx, tx, now, c)
}

// lockIfThere locks the task of a change before any of its items. A task that was deleted
// is no error.
func lockIfThere(ctx context.Context, tx Tx, c Change) error {
	_, err := lockTask(ctx, tx, c)
	return err
}
