package sweep

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// deadlines fails the items whose deadline has passed.
func (p *pass) deadlines(ctx context.Context) error {
	return p.late(ctx, "deadline", deadlinesBefore, passDeadlines)
}

// queuedTooLong fails the items that no worker claimed within their schedule_to_start.
func (p *pass) queuedTooLong(ctx context.Context) error {
	return p.late(ctx, "schedule_to_start", queuedTooLong, giveUpQueued)
}

// lateRounds bounds how many batches of late items a quick pass gives up before it expires leases.
const lateRounds = 10

// late gives up the items that list returns, in batches and task by task.
func (p *pass) late(ctx context.Context, what string,
	list func(ctx context.Context, tx store.Tx, now int64, after late, limit int) ([]late, error),
	move func(ctx context.Context, tx store.Tx, now int64, c store.Change) (store.Applied, error)) error {
	after := late{}
	for round := 0; !p.hurried || round < lateRounds; round++ {
		var found []late
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				found, err = list(ctx, tx, now, after, batch/10)
			}
			return err
		})
		if err != nil || len(found) == 0 {
			return err
		}
		after = found[len(found)-1]
		run := func(ctx context.Context, changes []store.Change) error { return p.giveUpLate(ctx, changes, move) }
		failed := func(c store.Change, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped a task", "step", what, "task_id", c.TaskID, "error", err)
		}
		solo := func(l late) bool { return l.Solo }
		brief := store.WithLockWait(ctx, lockWait)
		if err := halve(brief, p, tasksOf(only(found, solo)), run, failed); err != nil {
			return err
		}
		// Leases are locked before counters: a transaction that has changed the counters of one
		// task must not lock the leases of another.
		for _, c := range tasksOf(slices.DeleteFunc(found, solo)) {
			if err := halve(brief, p, []store.Change{c}, run, failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveUpLate gives up the late items of tasks in one transaction.
func (p *pass) giveUpLate(ctx context.Context, changes []store.Change,
	move func(ctx context.Context, tx store.Tx, now int64, c store.Change) (store.Applied, error)) error {
	failed := 0
	var children []string
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		failed, children = 0, nil
		for _, c := range changes {
			done, err := move(ctx, tx, now, c)
			if err != nil {
				return err
			}
			if failed += done.Items; done.Child {
				children = append(children, c.TaskID)
			}
		}
		return nil
	})
	if err == nil {
		p.stats.GivenUp += int64(failed)
		p.ended(ctx, children)
	}
	return err
}

// only returns the items for which keep holds.
func only(found []late, keep func(late) bool) (out []late) {
	for _, l := range found {
		if keep(l) {
			out = append(out, l)
		}
	}
	return out
}

// tasksOf groups items by task, in the order of task ids: tasks are locked in this order.
func tasksOf(found []late) []store.Change {
	at := map[string]int{}
	var out []store.Change
	for _, l := range found {
		i, ok := at[l.TaskID]
		if !ok {
			i = len(out)
			at[l.TaskID] = i
			out = append(out, store.Change{Namespace: l.Namespace, TaskID: l.TaskID, Actor: store.Actor{Type: pawl.ActorSystem}})
		}
		out[i].ItemIDs = append(out[i].ItemIDs, l.ItemID)
	}
	slices.SortFunc(out, func(a, b store.Change) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return out
}

// late is an item that must be given up at a time: its deadline, or when it has been queued
// for too long.
type late struct {
	ItemID, Namespace, TaskID string
	At                        int64
	Solo                      bool // its task has no other items, and no counters
}

// deadlinesBefore lists up to limit deadlines that have passed, oldest first, after the
// given one.
func deadlinesBefore(ctx context.Context, tx store.Tx, now int64, after late, limit int) ([]late, error) {
	return lateItems(ctx, tx, "deadlines before", now, after.At, store.FromItem(after.ItemID), limit)
}

// queuedTooLong lists up to limit items that no worker claimed in time, oldest first, after
// the given one.
func queuedTooLong(ctx context.Context, tx store.Tx, now int64, after late, limit int) ([]late, error) {
	return lateItems(ctx, tx, "queued too long", now, after.At, store.FromItem(after.ItemID), limit)
}

func lateItems(ctx context.Context, tx store.Tx, query string, args ...any) ([]late, error) {
	return store.All(ctx, tx, deadlineSQL[query], args, func(rows store.Rows, l *late) error {
		var solo int
		if err := rows.Scan((*store.ItemID)(&l.ItemID), &l.Namespace, (*store.TaskID)(&l.TaskID), &l.At, &solo); err != nil {
			return err
		}
		l.Solo = solo == 1
		return nil
	})
}

const deadlineError = `{"code":"` + pawl.FailedByDeadline + `","message":"Its deadline passed"}`

const lateError = `{"code":"` + pawl.FailedByScheduleToStart + `","message":"No worker claimed it within schedule_to_start_seconds"}`

// passDeadlines ends the items of a task whose deadlines have passed, and removes these
// deadlines: each is handled once. Items that have no work left stay as they are.
func passDeadlines(ctx context.Context, tx store.Tx, now int64, c store.Change) (out store.Applied, err error) {
	if err := store.LockIfThere(ctx, tx, c); err != nil {
		return out, err
	}
	if c.ItemIDs, err = store.ItemIDs(ctx, tx, deadlineSQL["take deadlines"], store.ItemList(c.ItemIDs)); err != nil || len(c.ItemIDs) == 0 {
		return out, err
	}
	c.Verb, c.To, c.Error, c.LeftBy = "give_up", "failed", deadlineError, pawl.FailedByDeadline
	return store.Apply(ctx, tx, now, c)
}

// giveUpQueued ends the items of a task that no worker claimed in time. An item that was
// claimed meanwhile, and is queued again, stays.
func giveUpQueued(ctx context.Context, tx store.Tx, now int64, c store.Change) (out store.Applied, err error) {
	if err := store.LockIfThere(ctx, tx, c); err != nil {
		return out, err
	}
	c.ItemIDs, err = store.ItemIDs(ctx, tx, deadlineSQL["still queued too long"], store.ItemList(c.ItemIDs), now)
	if err != nil || len(c.ItemIDs) == 0 {
		return out, err
	}
	c.Verb, c.To, c.Error, c.LeftBy = "give_up", "failed", lateError, pawl.FailedByScheduleToStart
	return store.Apply(ctx, tx, now, c)
}
