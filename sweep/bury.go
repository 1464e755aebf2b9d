package sweep

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// bury dead-letters items that failed longer than BuryAfter ago, and tasks that were not planned or applied then.
func (p *pass) bury(ctx context.Context) error {
	if p.Options.BuryAfter <= 0 {
		return nil
	}
	if err := p.buryAside(ctx); err != nil {
		return err
	}
	var last resting
	for {
		var found []resting
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			found, err = failedBefore(ctx, tx, ago(now, p.Options.BuryAfter), last, batch)
			return err
		})
		if err != nil || len(found) == 0 {
			return err
		}
		if err := halve(ctx, p, groupByTask(found), p.buryTasks, func(c store.Change, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped a task", "step", "bury", "task_id", c.TaskID, "error", err)
		}); err != nil || len(found) < batch {
			return err
		}
		last = found[len(found)-1]
	}
}

func (p *pass) buryAside(ctx context.Context) error {
	for after := ""; ; {
		var found []store.TaskRef
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				found, err = failedAsideBefore(ctx, tx, ago(now, p.Options.BuryAfter), after, batch)
			}
			return err
		})
		if err != nil || len(found) == 0 {
			return err
		}
		after = found[len(found)-1].ID
		err = halve(ctx, p, found, p.buryTasksAside, func(t store.TaskRef, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped a task", "step", "bury", "task_id", t.ID, "error", err)
		})
		if err != nil {
			return err
		}
	}
}

func (p *pass) buryTasksAside(ctx context.Context, tasks []store.TaskRef) error {
	var buried int64
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
		buried = 0
		for _, t := range tasks {
			c, found, err := store.OpenDecision(ctx, tx, t.Namespace, t.ID)
			if err == nil && found && c.State == string(pawl.TaskFailed) && c.FailedIn != "" {
				buried++
				err = c.BuryAside(ctx, tx, store.Actor{Type: pawl.ActorSystem})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.stats.Buried += buried
	}
	return err
}

func (p *pass) buryTasks(ctx context.Context, changes []store.Change) error {
	var buried int
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		buried = 0
		for _, c := range changes {
			done, err := store.Apply(ctx, tx, now, c)
			if err != nil {
				return err
			}
			buried += done.Items
		}
		return nil
	})
	if err == nil {
		p.stats.Buried += int64(buried)
	}
	return err
}

// groupByTask groups items by task, in the order of task ids: tasks are locked in this order.
func groupByTask(found []resting) []store.Change {
	at := map[string]int{}
	var out []store.Change
	for _, r := range found {
		i, ok := at[r.TaskID]
		if !ok {
			i = len(out)
			at[r.TaskID] = i
			out = append(out, store.Change{Namespace: r.Namespace, TaskID: r.TaskID, Verb: "bury", Actor: store.Actor{Type: pawl.ActorSystem}})
		}
		out[i].ItemIDs = append(out[i].ItemIDs, r.ItemID)
	}
	slices.SortFunc(out, func(a, b store.Change) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return out
}

// resting is one failed item and when it failed.
type resting struct {
	Since                     int64
	ItemID, TaskID, Namespace string
}

// failedBefore lists up to limit items that failed before a time, oldest first, starting
// after the given one.
func failedBefore(ctx context.Context, tx store.Tx, before int64, after resting, limit int) ([]resting, error) {
	return store.All(ctx, tx, sweepSQL["failed before"], []any{before, after.Since, store.FromItem(after.ItemID), limit},
		func(rows store.Rows, r *resting) error {
			return rows.Scan(&r.Since, (*store.ItemID)(&r.ItemID), (*store.TaskID)(&r.TaskID), &r.Namespace)
		})
}

// failedAsideBefore lists up to limit tasks that failed before a time when they were planned or applied, by id, with ids
// above after.
func failedAsideBefore(ctx context.Context, tx store.Tx, before int64, after string, limit int) ([]store.TaskRef, error) {
	return taskRefs(ctx, tx, sweepSQL["failed aside before"], before, store.FromTask(after), limit)
}

// taskRefs reads names of tasks.
func taskRefs(ctx context.Context, tx store.Tx, query string, args ...any) ([]store.TaskRef, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, t *store.TaskRef) error {
		return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace)
	})
}
