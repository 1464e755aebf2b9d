package sweep

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// giveUp ends waiting items whose dependency failed or was cancelled. Of the items that
// failed with a dependency, it cancels those whose dependency was cancelled since, and
// queues those whose dependency has completed since. Then it settles the tasks that were left open for them.
func (p *pass) giveUp(ctx context.Context) error {
	n, err := p.dependents(ctx, brokenDependents, giveUp)
	p.stats.GivenUp += n
	if err != nil {
		return err
	}
	n, err = p.dependents(ctx, lostDependents, dependencyFailed)
	p.stats.GivenUp += n
	if err != nil {
		return err
	}
	n, err = p.dependents(ctx, restorableDependents, dependencyRestored)
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

// brokenDependents lists up to limit waiting items with a dependency that failed or that
// ended without completing. Their ids are above after.
func brokenDependents(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error) {
	return dependents(ctx, tx, "broken dependents", store.FromItem(after), limit)
}

// restorableDependents lists up to limit items that failed because of a dependency, and
// whose dependencies have all completed since. Their ids are above after.
func restorableDependents(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error) {
	return dependents(ctx, tx, "mendable dependents", store.FromItem(after), limit)
}

// waitingUntil returns the item id that ends the range of the n waiting items above after,
// or LastItem when there are fewer.
func waitingUntil(ctx context.Context, tx store.Tx, after string, n int) (string, error) {
	until := store.LastItem
	_, err := store.Row(ctx, tx, []any{(*store.ItemID)(&until)}, moveSQL["waiting until"], store.FromItem(after), n-1)
	return until, err
}

// miscountedDependents lists the items of a range whose counts of dependencies are wrong.
func miscountedDependents(ctx context.Context, tx store.Tx, after, until string) ([]store.Dependent, error) {
	return dependents(ctx, tx, "miscounted dependents", store.FromItem(after), store.ItemID(until))
}

// lostDependents lists up to limit items that failed because of a dependency, where a
// dependency has ended without completing since. Their ids are above after.
func lostDependents(ctx context.Context, tx store.Tx, after string, limit int) ([]store.Dependent, error) {
	return dependents(ctx, tx, "lost dependents", store.FromItem(after), limit)
}

func dependents(ctx context.Context, tx store.Tx, query string, args ...any) ([]store.Dependent, error) {
	return store.All(ctx, tx, moveSQL[query], args, func(rows store.Rows, d *store.Dependent) error {
		return rows.Scan((*store.ItemID)(&d.ItemID), &d.Namespace, (*store.TaskID)(&d.TaskID), &d.Failed, &d.Ended)
	})
}

// giveUp ends waiting items that can never run; see GivenUpAs. dependencyRestored queues those
// that failed again once the dependency completes.
func giveUp(ctx context.Context, tx store.Tx, now int64, items []store.Dependent) (store.Applied, error) {
	c := changeOf(items, "give_up")
	c.LeftBy = "dependency"
	switch c.To = items[0].GivenUpAs(); c.To {
	case "failed":
		c.Error = dependencyFailedError
	case "cancelled":
		c.Error = `{"code":"dependency_cancelled","message":"An item it depends on was cancelled"}`
	default:
		for _, d := range items {
			if _, err := tx.Exec(ctx, moveSQL["whole again"], store.ItemID(d.ItemID)); err != nil {
				return store.Applied{}, err
			}
		}
		return store.Applied{}, nil
	}
	return store.Apply(ctx, tx, now, c)
}

// dependencyFailed cancels items that failed because of a dependency and can never run.
func dependencyFailed(ctx context.Context, tx store.Tx, now int64, items []store.Dependent) (store.Applied, error) {
	c := changeOf(items, "cancel")
	c.Reason = "an item it depends on was cancelled"
	return store.Apply(ctx, tx, now, c)
}

// dependencyRestored queues items again that failed because of a dependency.
func dependencyRestored(ctx context.Context, tx store.Tx, now int64, items []store.Dependent) (store.Applied, error) {
	return store.Apply(ctx, tx, now, changeOf(items, "retry"))
}

func changeOf(items []store.Dependent, verb string) store.Change {
	c := store.Change{Namespace: items[0].Namespace, TaskID: items[0].TaskID, Verb: verb, Actor: store.Actor{Type: pawl.ActorSystem}}
	for _, d := range items {
		c.ItemIDs = append(c.ItemIDs, d.ItemID)
	}
	return c
}

// dependencyFailedError is the error of an item whose dependency failed.
const dependencyFailedError = `{"code":"dependency_failed","message":"An item it depends on failed"}`
