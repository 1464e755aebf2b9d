package hot

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

var (
	complete     = read("complete.sql")
	completeTake = complete.get("Take")
	completeItem = completeTake + ",\n  " + store.ReturnItem("$1", "", "", "rework", "started_at", "stage")
	completeEnd  = complete.get("End")
	completeFeed = complete.get("Feed")
)

// Complete implements store.Hot.
func (Verbs) Complete(ctx context.Context, tx store.Tx, calls []store.Complete) ([]store.Moved, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.Moved, 0, len(calls))
	var counts tally
	var l lease
	// Only what is needed: the driver asks for the name and type of each column.
	targets := []any{&l.taskID, &l.kind, &l.state, &l.priority}
	targets = append(append(targets, store.Targets(l.Kept())...), &l.Solo, &l.Feeds, &l.startedAt, &l.stage, &l.keyID)
	for i := range calls {
		c := &calls[i]
		l.itemID, l.namespace, l.workerID, l.Attempt = c.ItemID, c.Namespace, c.WorkerID, c.Attempt
		found, item, err := take(ctx, tx, targets, completeTake, completeItem, &c.Fence, now)
		if err == nil && found {
			err = l.end(ctx, tx, c.Result, now)
		}
		if err != nil {
			return nil, err
		}
		if found {
			counts.left(&l, "completed")
			m := l.moved(c.Ord, "completed", 0, now)
			if c.Return {
				if m.Returned, err = store.NewReturned(c.Fence, m.TaskID, m.Failures, item); err != nil {
					return nil, err
				}
				m.Returned.Completed(c.Result, now)
			}
			out = append(out, m)
		}
	}
	return out, counts.settle(ctx, tx, out, now)
}

// take reads a lease by a text of which item is the form with the column of the item,
// for a call that wants it.
func take(ctx context.Context, tx store.Tx, targets []any, plain, item string, f *store.Fence, now int64) (found bool, column store.Text, err error) {
	if f.Return {
		plain, targets = item, append(slices.Clip(targets), &column)
	}
	found, err = store.Row(ctx, tx, targets, plain, f.ItemID, f.Namespace, f.WorkerID, int64(f.Attempt), now)
	return found, column, err
}

func (l *lease) end(ctx context.Context, tx store.Tx, result string, now int64) error {
	_, err := tx.Exec(ctx, completeEnd, with(l.Kept(), l.itemID, l.namespace, l.taskID, l.workerID, l.startedAt, now, l.stage, result)...)
	if err == nil && l.Feeds == 1 {
		_, err = tx.Exec(ctx, completeFeed, l.itemID)
	}
	if err != nil {
		return err
	}
	e := l.event("completed", "completed", worker(l.workerID, l.keyID))
	if l.Solo == 1 {
		e.taskFrom, e.taskTo = "open", "completed"
	}
	return e.write(ctx, tx, now)
}

func (l *lease) moved(ord int, state string, runAt, now int64) store.Moved {
	out := state == "completed" || state == "failed"
	return store.Moved{Ord: ord, TaskID: l.taskID, State: state, Failures: l.Failures, Priority: int(l.priority), Type: l.kind,
		RunAt: runAt, Now: now, Fed: l.Feeds == 1 && out, Settled: l.Solo == 1 && out}
}
