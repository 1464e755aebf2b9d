package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// retainRestored archives and removes tasks that were restored, and whose time after that has passed. What cannot go yet
// is looked at again by the next pass.
func (p *pass) retainRestored(ctx context.Context, s retentionSpan, own retentions) error {
	var after restored
	for {
		var due dueTasks
		var page []restored
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if page, err = restoredBy(ctx, tx, ago(now, s.age), s.states, after, batch); err != nil {
				return err
			}
			ids := make([]string, len(page))
			for i, r := range page {
				ids[i] = r.TaskID
			}
			due.tasks, due.later, err = s.sort(ctx, tx, ids, ago(now, s.age), 0, own)
			return err
		})
		if err != nil {
			return err
		}
		if p.preview != nil {
			p.preview.note(s.cursor, due.tasks, nil)
		} else if _, err := p.retireDue(ctx, due); err != nil {
			return err
		}
		if len(page) < batch {
			return nil
		}
		after = page[batch-1]
	}
}

// restored is a task that was restored, in the order of these times.
type restored struct {
	At     int64
	TaskID string
}

// restoredBy lists up to limit tasks behind one that were restored by the given time, have no younger event, have not been
// archived again, and are in one of the states or no longer exist. Mostly there are none:
// then PostgreSQL does not plan the statement, which takes it 25 ms.
func restoredBy(ctx context.Context, tx store.Tx, by int64, states []string, after restored, limit int) (out []restored, err error) {
	var first int64
	if _, err := store.Row(ctx, tx, []any{&first}, restoredSQL["first restored"]); err != nil || first == 0 || first > by {
		return nil, err
	}
	args := []any{by, store.List(states), limit, after.At, store.FromTask(after.TaskID)}
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var r restored
		err := rows.Scan(&r.At, (*store.TaskID)(&r.TaskID))
		out = append(out, r)
		return err
	}, restoredSQL["restored by"], args...)
	return out, err
}
