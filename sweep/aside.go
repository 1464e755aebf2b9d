package sweep

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// asideAPass is how many lists of tasks that are set aside a pass looks at, for each retention.
const asideAPass = 20

// retainAside tries the tasks again that were set aside, so that a cursor has only few to remember: the lists that were
// not looked at for longest. A preview looks at all.
func (p *pass) retainAside(ctx context.Context, s retentionSpan, own retentions) error {
	limit := asideAPass
	if p.preview != nil {
		limit = pawl.MaxPrunable
	}
	var lists []string
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		lists, err = listsOf(ctx, tx, s.cursor, limit)
		return err
	})
	if err != nil {
		return err
	}
	for _, list := range lists {
		due, err := p.dueAside(ctx, s, list, own)
		if err != nil {
			return err
		}
		if p.preview != nil {
			p.preview.note(s.cursor, due.tasks, nil)
			continue
		}
		again, err := p.retireDue(ctx, due)
		if err != nil {
			return err
		}
		err = p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
			at, err := lockCursor(ctx, tx, list)
			if err != nil {
				return err
			}
			if at.KeepAgain(due.left, again); len(at.Again) == 0 {
				return store.ForgetCursor(ctx, tx, list)
			}
			return moveCursor(ctx, tx, now, list, at)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dueAside are the tasks of a list that was set aside.
func (p *pass) dueAside(ctx context.Context, s retentionSpan, list string, own retentions) (due dueTasks, err error) {
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		cursor, err := cursorOf(ctx, tx, s.cursor)
		if err != nil {
			return err
		}
		at, err := cursorOf(ctx, tx, list)
		if err != nil {
			return err
		}
		due = dueTasks{left: at.Again}
		due.tasks, due.later, err = s.sort(ctx, tx, slices.Clone(at.Again), ago(now, s.age), cursor.Position, own)
		return err
	})
	return due, err
}
