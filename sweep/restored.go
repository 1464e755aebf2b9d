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
