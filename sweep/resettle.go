package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// resettle settles tasks that are still failed or dead-lettered though none of their
// items is. Only older versions leave such tasks, so a process stops looking after a
// pass that finds none.
func (p *pass) resettle(ctx context.Context) error {
	n := int64(0)
	for after := ""; !p.resettled; {
		var tasks []store.TaskRef
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			tasks, err = unsettled(ctx, tx, after, batch)
			return err
		})
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			p.resettled = after == ""
			break
		}
		after = tasks[len(tasks)-1].ID
		done, err := p.settleAll(ctx, tasks, "its last failed item was cancelled; the others decide")
		if n += done; err != nil {
			return err
		}
	}
	if n > 0 {
		p.Log.WarnContext(ctx, "tasks whose failed items had all been cancelled were settled", "tasks", n)
	}
	return nil
}

// leftOpen settles open tasks without an open item: see leftOpen.
func (p *pass) leftOpen(ctx context.Context) error {
	for after := ""; ; {
		var tasks []store.TaskRef
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			tasks, err = leftOpen(ctx, tx, after, batch)
			return err
		})
		if err != nil || len(tasks) == 0 {
			return err
		}
		after = tasks[len(tasks)-1].ID
		if _, err := p.settleAll(store.WithLockWait(ctx, lockWait), tasks, ""); err != nil {
			return err
		}
	}
}

// settleAll settles tasks by the states of their items, and returns how many it has settled.
func (p *pass) settleAll(ctx context.Context, tasks []store.TaskRef, why store.Text) (n int64, err error) {
	err = halve(ctx, p, tasks, func(ctx context.Context, some []store.TaskRef) error {
		var changed []string
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
			changed = nil
			for _, t := range some {
				done, err := store.Resettle(ctx, tx, now, t, why)
				if err != nil {
					return err
				}
				if done {
					changed = append(changed, t.ID)
				}
			}
			return nil
		})
		if err == nil {
			n += int64(len(changed))
			p.ended(ctx, changed)
		}
		return err
	}, func(t store.TaskRef, err error) {
		p.Log.ErrorContext(ctx, "the sweep skipped a task that should be settled", "task_id", t.ID, "error", err)
	})
	return n, err
}

// unsettled lists tasks in state failed or dead_lettered without an item in these states,
// with ids above after. Older versions left a task like this when the last of these items
// was cancelled.
func unsettled(ctx context.Context, tx store.Tx, after string, limit int) ([]store.TaskRef, error) {
	return taskRefs(ctx, tx, moveSQL["unsettled tasks"], store.FromTask(after), limit)
}

// leftOpen lists open tasks without an open item, with ids above after. Where failed items do not count, the completion of
// an item that others need leaves a task with failed items a step to take, and keeps it open until then: one that failed
// with it may run now. If none does, the task is settled by Resettle.
func leftOpen(ctx context.Context, tx store.Tx, after string, limit int) ([]store.TaskRef, error) {
	return taskRefs(ctx, tx, moveSQL["left open"], store.FromTask(after), limit)
}
