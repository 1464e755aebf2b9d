package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// resettle settles tasks that are still failed or dead-lettered though none of their
// items is. Only older versions leave such tasks, so a process stops looking after a
// pass that finds none.
func (p *pass) resettle(ctx context.Context) error {
	n := 0
	for after := ""; !p.resettled; {
		var tasks []store.TaskRef
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			tasks, err = store.Unsettled(ctx, tx, after, batch)
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
		err = halve(ctx, p, tasks, func(ctx context.Context, some []store.TaskRef) error {
			changed := 0
			err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
				changed = 0
				for _, t := range some {
					done, err := store.Resettle(ctx, tx, now, t)
					if err != nil {
						return err
					}
					if done {
						changed++
					}
				}
				return nil
			})
			if err == nil {
				n += changed
			}
			return err
		}, func(t store.TaskRef, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped a task that should be settled", "task_id", t.ID, "error", err)
		})
		if err != nil {
			return err
		}
	}
	if n > 0 {
		p.Log.WarnContext(ctx, "tasks whose failed items had all been cancelled were settled", "tasks", n)
	}
	return nil
}
