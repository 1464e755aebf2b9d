package hot

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

var (
	complete     = read("complete.sql")
	completeTake = complete.get("Take")
	completeItem = completeTake + ",\n  " + store.ReturnItem("$1", "", "", "started_at", "stage")
	completeEnd  = newInsert(complete.get("End"))
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
	var item store.ReturnedColumns
	ends, events := inserter{insert: completeEnd}, inserter{insert: addEvent}
	// Only the columns that are needed: the driver reads the name and type of each column.
	targets := []any{&l.taskID, &l.queue, (*store.StateCode)(&l.state), &l.priority}
	targets = append(append(targets, store.Targets(l.Kept())...), &l.Solo, &l.Feeds, &l.startedAt, &l.acquiredAt, &l.stage, &l.keyID)
	for i := range calls {
		c := &calls[i]
		l.itemID, l.namespace, l.Attempt = store.ItemID(c.ItemID), c.Namespace, c.Attempt
		var found bool
		found, l.worker, item, err = take(ctx, tx, targets, completeTake, completeItem, &c.Fence, now)
		if err == nil && found {
			err = l.end(ctx, tx, &ends, c.Result, now)
		}
		if err == nil && found {
			err = l.completed(c).add(ctx, tx, &events, now)
		}
		if err != nil {
			return nil, err
		}
		if found {
			counts.left(&l, "completed")
			m, err := l.moved(ctx, tx, c.Ord, "completed", 0, now)
			if err != nil {
				return nil, err
			}
			if c.Return {
				if m.Returned, err = store.NewReturned(c.Fence, m.TaskID, m.Failures, item); err != nil {
					return nil, err
				}
				m.Returned.Completed(c.Result, now)
			}
			out = append(out, m)
		}
	}
	if err := flush(ctx, tx, &ends, &events); err != nil {
		return nil, err
	}
	return out, counts.settle(ctx, tx, out, now)
}

// form returns the statement that reads a lease, and its targets. A call with Return gets
// the statement with the item's columns.
func form(f *store.Fence, plain, withItem string, targets []any, item *store.ReturnedColumns) (string, []any) {
	if f.Return {
		return withItem, append(slices.Clip(targets), item.Targets()...)
	}
	return plain, targets
}

// take reads a lease with the statement that form chooses. It also returns the number of
// the worker.
func take(ctx context.Context, tx store.Tx, targets []any, plain, withItem string, f *store.Fence,
	now int64) (found bool, worker int64, item store.ReturnedColumns, err error) {
	if worker, found, err = store.FindActor(ctx, tx, store.Worker(f.WorkerID)); err != nil || !found {
		return false, 0, item, err
	}
	query, into := form(f, plain, withItem, targets, &item)
	found, err = store.Row(ctx, tx, into, query, store.ItemID(f.ItemID), f.Namespace, worker, int64(f.Attempt), now)
	return found, worker, item, err
}

// end writes the completed item to ends and updates the items that depend on it.
func (l *lease) end(ctx context.Context, tx store.Tx, ends *inserter, result string, now int64) error {
	err := ends.add(ctx, tx, with(l.Kept(), l.itemID, l.queue, l.taskID, l.worker, l.startedAt, now, l.stage, result)...)
	if err == nil && l.FeedsItems() {
		_, err = tx.Exec(ctx, completeFeed, l.itemID)
	}
	return err
}

// completed returns the event of the completion.
func (l *lease) completed(c *store.Complete) *event {
	e := l.event("completed", "completed", by{l.worker, l.keyID})
	e.request, e.digest = c.Request, store.DigestOf(c.Result)
	if l.Solo == 1 {
		e.taskFrom, e.taskTo = "open", "completed"
	}
	return &e
}

func (l *lease) moved(ctx context.Context, tx store.Tx, ord int, state string, runAt, now int64) (store.Moved, error) {
	q, err := store.QueueNamed(ctx, tx, l.queue)
	out := state == "completed" || state == "failed"
	return store.Moved{Ord: ord, TaskID: string(l.taskID), State: state, Failures: l.Failures, Rank: l.rank, Type: q.Type,
		RunAt: runAt, Now: now, Fed: l.FeedsItems() && out, Child: l.OfChild() && out, Settled: l.Solo == 1 && out}, err
}
