package sweep

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// giveUp ends waiting items whose dependency failed or was cancelled. Of the items that
// failed with a dependency, it cancels those whose dependency was cancelled since, and
// queues those whose dependency has completed since. Then it settles the tasks that were left open for them.
func (p *pass) giveUp(ctx context.Context) error {
	n, err := p.dependents(ctx, store.BrokenDependents, store.GiveUp)
	p.stats.GivenUp += n
	if err != nil {
		return err
	}
	n, err = p.dependents(ctx, store.LostDependents, store.DependencyFailed)
	p.stats.GivenUp += n
	if err != nil {
		return err
	}
	n, err = p.dependents(ctx, store.RestorableDependents, store.DependencyRestored)
	p.stats.Due += n
	if err != nil {
		return err
	}
	return p.leftOpen(ctx)
}

type moveDependents func(ctx context.Context, tx store.Tx, now int64, items []store.Dependent) (store.Applied, error)

// dependents moves all items that list returns, until a whole round moves nothing:
// giving up an item affects the items that depend on it.
func (p *pass) dependents(ctx context.Context,
	list func(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error),
	move moveDependents) (total int64, err error) {
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
		n, err := p.moveDependents(ctx, slices.Clone(found), move)
		round, total = round+n, total+n
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

// moveDependents moves the items of each task that end alike in a transaction of their own:
// items that wait are locked before counters, and a transaction that has changed the counters
// of one task must not lock the items of another.
func (p *pass) moveDependents(ctx context.Context, found []store.Dependent, move moveDependents) (moved int64, err error) {
	slices.SortFunc(found, func(a, b store.Dependent) int {
		return cmp.Or(cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.GivenUpAs(), b.GivenUpAs()), cmp.Compare(a.ItemID, b.ItemID))
	})
	brief := store.WithLockWait(ctx, lockWait)
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].TaskID == found[0].TaskID && found[n].GivenUpAs() == found[0].GivenUpAs() {
			n++
		}
		err := halve(brief, p, found[:n], func(ctx context.Context, some []store.Dependent) error {
			var done store.Applied
			err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
				done, err = move(ctx, tx, now, some)
				return err
			})
			if err != nil {
				return err
			}
			moved += int64(len(some))
			p.itemsReady(done.Released)
			if done.Child {
				p.ended(ctx, []string{some[0].TaskID})
			}
			return nil
		}, func(d store.Dependent, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped an item with a dependency", "item_id", d.ItemID, "error", err)
		})
		if err != nil {
			return moved, err
		}
		found = found[n:]
	}
	return moved, nil
}
