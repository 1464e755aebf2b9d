package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// giveUp ends waiting items whose dependency failed or was cancelled. Of the items that
// failed with a dependency, it cancels those whose dependency was cancelled since, and
// queues those whose dependency has completed since.
func (p *pass) giveUp(ctx context.Context) error {
	for _, end := range []struct {
		list func(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error)
		move func(ctx context.Context, tx store.Tx, now int64, d store.Dependent) error
	}{
		{store.BrokenDependents, store.GiveUp},
		{store.LostDependents, store.DependencyFailed},
	} {
		n, err := p.dependents(ctx, end.list, func(ctx context.Context, tx store.Tx, now int64, d store.Dependent) ([]store.DueItem, error) {
			return nil, end.move(ctx, tx, now, d)
		})
		p.stats.GivenUp += n
		if err != nil {
			return err
		}
	}
	n, err := p.dependents(ctx, store.RestorableDependents, store.DependencyRestored)
	p.stats.Due += n
	return err
}

// dependents moves all items that list returns, until a whole round moves nothing:
// giving up an item affects the items that depend on it.
func (p *pass) dependents(ctx context.Context,
	list func(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error),
	move func(ctx context.Context, tx store.Tx, now int64, d store.Dependent) ([]store.DueItem, error)) (total int64, err error) {
	for after, round := "", int64(0); ; {
		var found []store.Dependent
		if err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			found, err = list(ctx, tx, after, batch/10)
			return err
		}); err != nil {
			return total, err
		}
		if len(found) == 0 && (round == 0 || after == "") {
			return total, nil
		}
		err := halve(ctx, p, found, func(ctx context.Context, some []store.Dependent) error {
			due, err := p.moveAll(ctx, some, move)
			if err == nil {
				round += int64(len(some))
				total += int64(len(some))
				p.itemsReady(due)
			}
			return err
		}, func(d store.Dependent, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped an item with a dependency", "item_id", d.ItemID, "error", err)
		})
		switch {
		case err != nil:
			return total, err
		case len(found) == batch/10:
			after = found[len(found)-1].ItemID
		case round == 0:
			return total, nil
		default:
			after, round = "", 0
		}
	}
}

func (p *pass) moveAll(ctx context.Context, some []store.Dependent,
	move func(ctx context.Context, tx store.Tx, now int64, d store.Dependent) ([]store.DueItem, error)) (due []store.DueItem, err error) {
	err = p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		due = nil
		for _, d := range some {
			queued, err := move(ctx, tx, now, d)
			if err != nil {
				return err
			}
			due = append(due, queued...)
		}
		return nil
	})
	return due, err
}
